//! The past as a view may see it: operations, contents and states at earlier moments, filtered by the policy of today.

use std::os::fd::AsFd;

use super::{Follow, Found, Result, View, ViewError};
use crate::{
    host::Errno,
    types::{Actor, Hash, Kind, NodeId, OpId, Timestamp, ViewPath},
    versions::{
        ActorFilter, Bound, Change, ChangeKind, Checkpoint, Content, HistoryQuery, Loss, NodeKey, OpKind, Operation,
        PathAt, State,
    },
};

/// A moment of the past as a caller names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// Just after an operation.
    Op(OpId),
    /// Just before an operation.
    Before(OpId),
    /// At a checkpoint.
    Checkpoint(String),
    /// At a time.
    Time(Timestamp),
}

/// Which operations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ViewQuery {
    /// That touch this path or anything below it.
    pub path: Option<ViewPath>,
    /// By this actor.
    pub actor: ActorFilter,
    /// After this moment.
    pub since: Option<Bound>,
    /// Up to this moment.
    pub until: Option<Bound>,
    /// Oldest first.
    pub oldest_first: bool,
    /// At most so many (0 is 100).
    pub limit: usize,
}

/// An operation as a view sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewOperation {
    /// Its number.
    pub op: OpId,
    /// When.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub kind: OpKind,
    /// The caller's idempotency key.
    pub operation_id: Option<String>,
    /// The tool, or what a revert took back.
    pub note: Option<String>,
    /// What it takes back, newest first; empty if that is too much to name.
    pub undoes: Vec<OpId>,
    /// The changes that this view may see.
    pub changes: Vec<ViewChange>,
}

/// A change as a view sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewChange {
    /// The path, as it was then.
    pub path: ViewPath,
    /// The other path of a move, exchange or link.
    pub from: Option<ViewPath>,
    /// What.
    pub kind: ChangeKind,
    /// The inode's number in the log.
    pub node: NodeId,
    /// Its identity on the host.
    pub key: Option<NodeKey>,
    /// Before it.
    pub before: Option<State>,
    /// After it.
    pub after: Option<State>,
    /// Several writes in one.
    pub coalesced: bool,
    /// Why contents are missing, if they are.
    pub unversioned: Option<Loss>,
}

/// A page of operations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ViewHistory {
    /// The operations.
    pub operations: Vec<ViewOperation>,
    /// There are more.
    pub more: bool,
}

/// What stood at a path at an earlier moment.
pub enum Past {
    /// Nothing.
    Absent,
    /// What stands there now: nothing changed it since.
    Now(Found),
    /// A state of which the content is in the store.
    Was(State),
}

/// Pages asked of the store for one page of an answer, at most: what policy hides is left out, and that may be much.
const PAGES_MAX: usize = 64;

impl View {
    /// Operations that touch what this view shows.
    ///
    /// # Errors
    /// The store's.
    pub fn history(&self, query: &ViewQuery) -> Result<ViewHistory> {
        let limit = if query.limit == 0 { 100 } else { query.limit };
        let path = match &query.path {
            Some(path) => self.locate(path).map(|(source, below)| (source.id, below)),
            None => None,
        };
        let mut ask = HistoryQuery {
            sources: self.sources.iter().map(|source| source.id).collect(),
            path: path.filter(|(_, below)| !below.is_root() || self.is_multi()),
            node: None,
            actor: query.actor.clone(),
            after: query.since,
            until: query.until,
            oldest_first: query.oldest_first,
            limit: limit + 1,
        };
        let mut page = ViewHistory::default();
        for _ in 0..PAGES_MAX {
            let found = self.core.store.history(&ask)?;
            let last = found.operations.last().map(|operation| operation.op);
            page.operations.extend(found.operations.into_iter().filter_map(|operation| self.shown(operation)));
            page.more = found.more;
            let Some(last) = last.filter(|_| found.more && page.operations.len() <= limit) else { break };
            if ask.oldest_first {
                ask.after = Some(Bound::Op(last));
            } else {
                ask.until = Some(Bound::Op(OpId(last.0.saturating_sub(1))));
            }
        }
        if page.operations.len() > limit {
            page.operations.truncate(limit);
            page.more = true;
        }
        Ok(page)
    }

    /// What of an operation this view may see; `None` if nothing.
    pub(super) fn shown(&self, operation: Operation) -> Option<ViewOperation> {
        let changes: Vec<ViewChange> =
            operation.changes.into_iter().filter_map(|change| self.shown_change(change)).collect();
        if changes.is_empty() {
            return None;
        }
        Some(ViewOperation {
            op: operation.op,
            time: operation.time,
            actor: operation.actor,
            kind: operation.kind,
            operation_id: operation.operation_id,
            note: operation.note,
            undoes: operation.undoes,
            changes,
        })
    }

    fn shown_change(&self, change: Change) -> Option<ViewChange> {
        let is_dir = change.before.as_ref().or(change.after.as_ref()).is_some_and(|state| state.kind == Kind::Dir);
        let visible = |path: &ViewPath| {
            let path = self.place(change.source, path)?;
            self.class(&path, is_dir).map(|_| path)
        };
        Some(ViewChange {
            path: visible(&change.path)?,
            from: change.from.as_ref().and_then(visible),
            kind: change.kind,
            node: change.node,
            key: change.key,
            before: change.before,
            after: change.after,
            coalesced: change.coalesced,
            unversioned: change.unversioned,
        })
    }

    /// One operation, if this view may see any of it.
    ///
    /// # Errors
    /// `VersionNotFound`.
    pub fn operation(&self, op: OpId) -> Result<ViewOperation> {
        let found = self.core.store.operation(op)?.and_then(|operation| self.shown(operation));
        found.ok_or_else(|| ViewError::VersionNotFound(format!("operation {op}")))
    }

    /// The operation number that a moment means.
    ///
    /// # Errors
    /// `VersionNotFound`.
    pub fn moment(&self, at: &At) -> Result<OpId> {
        let store = &self.core.store;
        match at {
            At::Op(op) if *op <= store.last_op() => Ok(*op),
            At::Before(op) if *op <= store.last_op() => Ok(OpId(op.0.saturating_sub(1))),
            At::Op(op) | At::Before(op) => Err(ViewError::VersionNotFound(format!("operation {op}"))),
            At::Checkpoint(name) => match store.find_checkpoint(name)? {
                Some(checkpoint) => Ok(checkpoint.op),
                None => Err(ViewError::VersionNotFound(format!("checkpoint {name:?}"))),
            },
            At::Time(time) => Ok(store.op_at_time(*time)?),
        }
    }

    /// What stood at a path.
    ///
    /// # Errors
    /// `VersionNotFound`; the store's.
    pub fn past(&self, path: &ViewPath, at: &At) -> Result<Past> {
        let op = self.moment(at)?;
        self.past_at(path, op)
    }

    pub(crate) fn past_at(&self, path: &ViewPath, op: OpId) -> Result<Past> {
        let _tree = self.core.tree.read();
        self.past_locked(path, op)
    }

    /// As `past_at`, with the tree lock held.
    pub(crate) fn past_locked(&self, path: &ViewPath, op: OpId) -> Result<Past> {
        if self.class(path, false).or_else(|| self.class(path, true)).is_none() {
            return Ok(Past::Absent);
        }
        let (mut path, mut op) = (path.clone(), op);
        loop {
            let Some((source, below)) = self.locate(&path) else { return Ok(Past::Absent) };
            let source = source.id;
            match self.core.store.path_at(source, &below, op)? {
                PathAt::Absent => return Ok(Past::Absent),
                PathAt::Now(now) => {
                    let Some(now) = self.place(source, &now) else { return Ok(Past::Absent) };
                    return match self.find_locked(&now, Follow::No) {
                        // From now on the log knows of it.
                        Ok(found) if self.changed_unseen(&found, op)? => continue,
                        Ok(found) => Ok(Past::Now(found)),
                        Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => Ok(Past::Absent),
                        Err(error) => Err(error),
                    };
                }
                PathAt::Was { node, state, next } => {
                    if !matches!(state.content, Content::Live(_)) {
                        return Ok(Past::Was(state));
                    }
                    // The next change left the content alone: it is where the file is after that.
                    let after = self.core.store.operation(next)?.and_then(|operation| {
                        let change =
                            operation.changes.into_iter().rev().find(|c| c.node == node && c.after.is_some())?;
                        self.place(change.source, &change.path)
                    });
                    match after {
                        Some(new_path) if next > op => (path, op) = (new_path, next),
                        Some(_) | None => return Ok(Past::Was(state)),
                    }
                }
            }
        }
    }

    /// The bytes of a regular file at an earlier moment, at most `limit`.
    ///
    /// # Errors
    /// `NotFound` if there was none; `VersionPruned`, `TooLarge`.
    pub fn past_bytes(&self, path: &ViewPath, at: &At, limit: u64) -> Result<(Vec<u8>, Hash)> {
        self.core.catch_up();
        let op = self.moment(at)?;
        let bytes = self.past_bytes_at(path, op, limit)?;
        let hash = Hash::of(&bytes);
        Ok((bytes, hash))
    }

    pub(crate) fn past_bytes_at(&self, path: &ViewPath, op: OpId, limit: u64) -> Result<Vec<u8>> {
        let _tree = self.core.tree.read();
        self.past_bytes_locked(path, op, limit)
    }

    /// As `past_bytes_at`, with the tree lock held.
    pub(crate) fn past_bytes_locked(&self, path: &ViewPath, op: OpId, limit: u64) -> Result<Vec<u8>> {
        match self.past_locked(path, op)? {
            Past::Absent => Err(ViewError::NotFound(path.clone())),
            Past::Now(found) => self.live_bytes(&found, limit),
            Past::Was(state) => self.state_bytes(path, &state, limit),
        }
    }

    /// The bytes of a file that is there now.
    pub(crate) fn live_bytes(&self, found: &Found, limit: u64) -> Result<Vec<u8>> {
        if found.attr.kind == Kind::Symlink {
            return self.target_of(found);
        }
        let reading = self.reading(&found.node, found.path.clone())?;
        match crate::host::read_whole(reading.fd.as_fd(), limit) {
            Ok((bytes, _)) => Ok(bytes),
            Err(Errno::FBIG) => Err(ViewError::TooLarge { path: found.path.clone(), size: reading.attr.size, limit }),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of a recorded state.
    pub(crate) fn state_bytes(&self, path: &ViewPath, state: &State, limit: u64) -> Result<Vec<u8>> {
        let lost = |reason| ViewError::VersionPruned { what: path.to_string(), reason };
        match &state.content {
            Content::Blob(_) | Content::Aside(_) | Content::Target(_) => {
                if state.size > limit {
                    return Err(ViewError::TooLarge { path: path.clone(), size: state.size, limit });
                }
                Ok(self.core.store.read_all(&state.content, limit)?)
            }
            Content::Lost(reason) => Err(lost(*reason)),
            // Recorded as live, and no later record tells where it went: somebody changed it beside us.
            Content::Live(_) => Err(lost(Loss::External)),
            Content::None if state.kind == Kind::Dir => Err(ViewError::IsADirectory(path.clone())),
            Content::None => Err(ViewError::NotAFile(path.clone())),
        }
    }

    /// The bytes of one side of a change in `op`, at most `limit`; follows a content that was live when it was recorded.
    ///
    /// # Errors
    /// `VersionPruned`, `TooLarge`; the store's.
    pub fn bytes_of(&self, op: OpId, change: &ViewChange, after: bool, limit: u64) -> Result<Vec<u8>> {
        let state = if after { change.after.as_ref() } else { change.before.as_ref() };
        let state = state.ok_or_else(|| ViewError::NotFound(change.path.clone()))?;
        match &state.content {
            // Live before means that the change did not touch it, so it is what it was after it.
            Content::Live(_) if change.after.is_some() => self.past_bytes_at(&change.path, op, limit),
            Content::Live(_)
            | Content::None
            | Content::Target(_)
            | Content::Blob(_)
            | Content::Aside(_)
            | Content::Lost(_) => self.state_bytes(&change.path, state, limit),
        }
    }

    /// A content that the store keeps whole; none if it does not.
    pub fn kept(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.core.store.read_all(&Content::Blob(*hash), super::core::WHOLE_COPY_MAX).ok()
    }

    /// Names this moment.
    ///
    /// # Errors
    /// The store's.
    pub fn checkpoint(&self, name: &str, note: Option<&str>, actor: &Actor) -> Result<Checkpoint> {
        self.core.record_all_so_far()?;
        Ok(self.core.store.checkpoint(name, note, actor)?)
    }
}
