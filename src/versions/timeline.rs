//! What stood at a path at an earlier moment, and where a content went, found from the changes after it.

use super::{Change, ChangeKind, Content, Loss, Operation, State, Store, StoreError};
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

/// What one change says of what stood at a path before it.
enum Step {
    /// Nothing.
    Untouched,
    /// It stands at another path after it.
    At(ViewPath),
    Was(State),
    Absent,
}

impl Store {
    /// What stood at a path just after `at`.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn path_at(&self, source: SourceId, path: &ViewPath, at: OpId) -> Result<PathAt> {
        let (mut path, mut at) = (path.clone(), at);
        // Each step is a later operation, so this ends.
        loop {
            let Some(next) = self.next_touching(source, &path, at)? else { return Ok(PathAt::Now(path)) };
            let operation = self.indexed_operation(next)?;
            let changes = operation.iter().flat_map(|operation| &operation.changes);
            for change in changes.filter(|change| change.source == source) {
                match step(change, &path) {
                    Step::Untouched => {}
                    Step::At(other) => path = other,
                    Step::Was(state) => return Ok(PathAt::Was { node: change.node, state, next }),
                    Step::Absent => return Ok(PathAt::Absent),
                }
            }
            at = next;
        }
    }

    /// The first operation after `at` that touches a path, or makes or moves a directory it lies in.
    fn next_touching(&self, source: SourceId, path: &ViewPath, at: OpId) -> Result<Option<OpId>> {
        self.index().ask(|index| {
            let mut first = index.first_touching(source.0, path, at)?;
            let mut above = path.parent();
            while let Some(dir) = above.filter(|dir| !dir.is_root()) {
                let turn = index.first_turn(source.0, &dir, at)?;
                first = match (first, turn) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                above = dir.parent();
            }
            Ok(first)
        })
    }
}

fn step(change: &Change, path: &ViewPath) -> Step {
    let was = |state: &Option<State>| state.clone().map_or(Step::Absent, Step::Was);
    match change.kind {
        // A directory that was made now held nothing before.
        ChangeKind::Create | ChangeKind::Link if path.starts_with(&change.path) => Step::Absent,
        ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove if change.path == *path => was(&change.before),
        ChangeKind::Create | ChangeKind::Link | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove => {
            Step::Untouched
        }
        ChangeKind::Rename | ChangeKind::Exchange => {
            let Some(from) = &change.from else { return Step::Untouched };
            if *from == *path
                && let Some(before) = &change.before
                && !matches!(before.content, Content::Live(_))
            {
                return Step::Was(before.clone());
            }
            // A move leaves contents alone: where they went is told by what follows, at the new place.
            if let Some(below) = path.strip_prefix(from) {
                return Step::At(change.path.join_path(&below));
            }
            match path.strip_prefix(&change.path) {
                Some(below) if change.kind == ChangeKind::Exchange => Step::At(from.join_path(&below)),
                // It came to a free place.
                Some(_) => Step::Absent,
                None => Step::Untouched,
            }
        }
    }
}

/// A content on its way through later operations.
pub(super) struct Follow {
    node: NodeId,
    from: OpId,
    content: Content,
}

impl Follow {
    /// The content of a node after an operation.
    pub fn new(node: NodeId, from: OpId) -> Follow {
        Follow { node, from, content: Content::Live(None) }
    }

    /// Passes the next operation that touches the node. The content, if it is known where it is now.
    pub fn through(&mut self, operation: &Operation) -> Option<Content> {
        let node = self.node;
        for change in operation.changes.iter().filter(|change| change.node == node) {
            // Of an exchange `after` is the other inode.
            let after = if change.kind == ChangeKind::Exchange { &change.before } else { &change.after };
            if operation.op == self.from {
                if let Some(state) = after {
                    self.content.clone_from(&state.content);
                }
                continue;
            }
            if let Some(found) = change.before.as_ref().and_then(|state| self.found(&state.content)) {
                return Some(found);
            }
            match change.kind {
                // Written over before anybody kept it.
                ChangeKind::Write | ChangeKind::Create => return Some(Content::Lost(Loss::External)),
                // It left the content alone, so what is known after it holds before it too.
                ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link => {
                    if let Some(found) = after.as_ref().and_then(|state| self.found(&state.content)) {
                        return Some(found);
                    }
                }
                ChangeKind::Remove => {}
            }
        }
        (operation.op == self.from && !matches!(self.content, Content::Live(_))).then(|| self.content.clone())
    }

    fn found(&mut self, content: &Content) -> Option<Content> {
        match content {
            Content::Live(hash) => {
                if hash.is_some() {
                    self.content = Content::Live(*hash);
                }
                None
            }
            Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) | Content::Lost(_) => {
                Some(content.clone())
            }
        }
    }

    /// No operation is left: the served file has it.
    pub fn end(self) -> Content {
        self.content
    }
}
