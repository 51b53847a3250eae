//! The past as a view may see it: operations, contents and states at earlier moments, filtered by the policy of today.

use super::{Found, Result, View, ViewError};
use crate::{
    types::{Actor, Hash, NodeId, OpId, Timestamp, ViewPath},
    versions::{ActorFilter, Bound, Change, ChangeKind, Checkpoint, Loss, OpKind, State},
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
    /// What it takes back.
    pub undoes: Option<OpId>,
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

impl View {
    /// Operations that touch what this view shows.
    ///
    /// # Errors
    /// The store's.
    pub fn history(&self, query: &ViewQuery) -> Result<ViewHistory> {
        todo!()
    }

    /// One operation, if this view may see any of it.
    ///
    /// # Errors
    /// `VersionNotFound`.
    pub fn operation(&self, op: OpId) -> Result<ViewOperation> {
        todo!()
    }

    /// The operation number that a moment means.
    ///
    /// # Errors
    /// `VersionNotFound`.
    pub fn moment(&self, at: &At) -> Result<OpId> {
        todo!()
    }

    /// What stood at a path.
    ///
    /// # Errors
    /// `VersionNotFound`; the store's.
    pub fn past(&self, path: &ViewPath, at: &At) -> Result<Past> {
        todo!()
    }

    /// The bytes of a regular file at an earlier moment, at most `limit`.
    ///
    /// # Errors
    /// `NotFound` if there was none; `VersionPruned`, `TooLarge`.
    pub fn past_bytes(&self, path: &ViewPath, at: &At, limit: u64) -> Result<(Vec<u8>, Hash)> {
        todo!()
    }

    /// The bytes of one side of a change in `op`, at most `limit`; follows a content that was live when it was recorded.
    ///
    /// # Errors
    /// `VersionPruned`, `TooLarge`; the store's.
    pub fn bytes_of(&self, op: OpId, change: &ViewChange, after: bool, limit: u64) -> Result<Vec<u8>> {
        todo!()
    }

    /// Names this moment.
    ///
    /// # Errors
    /// The store's.
    pub fn checkpoint(&self, name: &str, note: Option<&str>, actor: &Actor) -> Result<Checkpoint> {
        todo!()
    }
}
