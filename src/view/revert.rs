//! Taking changes back: the net effect of what is to be undone, path by path, checked against what stands there now.

use super::history::At;
use super::{Conflict, Done, Request, Result, View};
use crate::{
    types::{OpId, ViewPath},
    versions::ActorFilter,
};

/// What to take back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RevertTarget {
    /// One path (and all below it): to the state before its last change, or to an earlier moment.
    Path {
        /// The path.
        path: ViewPath,
        /// The moment; `None` is just before the last operation that touched it.
        to: Option<At>,
    },
    /// One operation.
    Operation(OpId),
    /// All that matching actors did after a moment.
    Actor {
        /// Whose.
        actor: ActorFilter,
        /// After it; `None` is the beginning.
        since: Option<At>,
    },
    /// All changes of this view after a moment.
    To(At),
}

/// What to do where somebody changed a path later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnConflict {
    /// Refuse the whole revert.
    #[default]
    Fail,
    /// Leave those paths alone.
    Skip,
    /// Three-way merge of texts; what does not merge cleanly is a conflict.
    Merge,
    /// Put the old state back all the same (the present one is kept in history).
    Force,
    /// Write the old content beside it as `NAME.OP.reverted`.
    Aside,
}

/// What a revert did, or would do.
#[derive(Clone, Debug, Default)]
pub struct Reverted {
    /// What was changed.
    pub done: Done,
    /// What was left alone.
    pub conflicts: Vec<Conflict>,
    /// Operations that were taken back.
    pub operations: Vec<OpId>,
    /// Given by a dry run: a revert of more than 100 paths wants it back.
    pub confirm_token: Option<String>,
}

impl View {
    /// Takes changes back as one operation.
    ///
    /// # Errors
    /// `RevertConflict` under `Fail`; `VersionNotFound`, `VersionPruned`; the host's; the store's.
    pub fn revert(
        &self,
        request: &Request,
        target: &RevertTarget,
        on_conflict: OnConflict,
        confirm_token: Option<&str>,
    ) -> Result<Reverted> {
        todo!()
    }
}
