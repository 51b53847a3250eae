//! What stood at a path at an earlier moment, found from the first change after it.

use super::{ChangeKind, State, Store, StoreError};
use crate::types::{NodeId, OpId, SourceId, ViewPath};

type Result<T> = std::result::Result<T, StoreError>;

/// The answer of [`super::Store::path_at`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathAt {
    /// Nothing changed it since: what stands now at this path (perhaps under another name today) is what stood there.
    Now(ViewPath),
    /// It was so; `state.content` is as it was recorded before the change `next`.
    Was {
        /// The inode.
        node: NodeId,
        /// Its state.
        state: State,
        /// The change that came first after the moment.
        next: OpId,
    },
    /// Nothing stood there.
    Absent,
}

impl Store {
    /// What stood at a path just after `at`.
    ///
    /// # Errors
    /// `Index`.
    pub fn path_at(&self, source: SourceId, path: &ViewPath, at: OpId) -> Result<PathAt> {
        let (mut path, mut at) = (path.clone(), at);
        // Each step is a later operation, so this ends.
        loop {
            let Some(next) = self.next_touching(source, &path, at)? else { return Ok(PathAt::Now(path)) };
            let Some(operation) = self.operation(next)? else { return Ok(PathAt::Now(path)) };
            for change in operation.changes.iter().filter(|change| change.source == source) {
                let before = || change.before.clone().map(|state| PathAt::Was { node: change.node, state, next });
                match change.kind {
                    ChangeKind::Create | ChangeKind::Link if change.path == path => return Ok(PathAt::Absent),
                    ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove if change.path == path => {
                        return Ok(before().unwrap_or(PathAt::Absent));
                    }
                    ChangeKind::Create
                    | ChangeKind::Link
                    | ChangeKind::Write
                    | ChangeKind::Meta
                    | ChangeKind::Remove => {}
                    ChangeKind::Rename => {
                        let Some(from) = &change.from else { continue };
                        if *from == path {
                            return Ok(before().unwrap_or(PathAt::Absent));
                        }
                        if let Some(rest) = path.strip_prefix(from) {
                            path = change.path.join_path(&rest);
                        } else if path.starts_with(&change.path) {
                            return Ok(PathAt::Absent);
                        }
                    }
                    ChangeKind::Exchange => {
                        let Some(from) = &change.from else { continue };
                        if *from == path {
                            return Ok(before().unwrap_or(PathAt::Absent));
                        }
                        if change.path == path {
                            let state = change.after.clone();
                            return Ok(state.map_or(PathAt::Absent, |state| PathAt::Was {
                                node: change.node,
                                state,
                                next,
                            }));
                        }
                        if let Some(rest) = path.strip_prefix(from) {
                            path = change.path.join_path(&rest);
                        } else if let Some(rest) = path.strip_prefix(&change.path) {
                            path = from.join_path(&rest);
                        }
                    }
                }
            }
            at = next;
        }
    }

    /// The first operation after `at` that touches a path, or moves a directory it lies in.
    fn next_touching(&self, source: SourceId, path: &ViewPath, at: OpId) -> Result<Option<OpId>> {
        let index = self.index()?;
        let mut first = index.first_touching(source.0, path, at)?;
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            let moved = index.first_move(source.0, &dir, at)?;
            first = match (first, moved) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            above = dir.parent();
        }
        Ok(first)
    }
}
