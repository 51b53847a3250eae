//! Review: which changes through a view nobody has accepted yet, and what a person does about them. Accepting moves the base
//! from which changes are pending and touches no file; rejecting is a revert of what is pending, and moves the base, too.

mod gather;
mod hunks;
mod rows;

pub use hunks::{HunkSelection, Patch};
pub use rows::{Interleaved, PendingChange, PendingPath};

use std::collections::BTreeSet;

use super::{Guard, OnConflict, Request, Result, RevertTarget, Reverted, View, ViewError, revert::Selected};
use crate::{
    types::{NodeId, OpId, Timestamp, ViewPath},
    versions::{Mark, Review, ReviewStep, Whose},
};
use gather::Step;

/// So many operations are gone through only for somebody who asks what they come to.
const COUNTED_MAX: usize = 5_000;

/// Pending changes that are meant. Empty: all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReviewSelection {
    /// Whose.
    pub whose: Whose,
    /// These paths, and what is below them; empty for all.
    pub paths: Vec<ViewPath>,
}

/// What is pending in a view.
#[derive(Debug)]
pub struct Pending {
    /// Up to where it was looked.
    pub mark: Mark,
    /// By whose it is.
    pub sessions: Vec<PendingSession>,
}

/// What is pending of one session, or of those without one.
#[derive(Debug)]
pub struct PendingSession {
    /// Whose it is; never everybody's.
    pub whose: Whose,
    /// Path by path.
    pub paths: Vec<PendingPath>,
}

impl Pending {
    /// Everything that is pending, with whose it is.
    pub fn paths(&self) -> impl Iterator<Item = (&Whose, &PendingPath)> {
        self.sessions.iter().flat_map(|session| session.paths.iter().map(|path| (&session.whose, path)))
    }
}

impl View {
    /// Turns review on or off. From when is recorded; what was pending when it is turned off stays pending.
    ///
    /// # Errors
    /// The store's.
    pub fn set_review(&self, on: bool) -> Result<()> {
        if self.core.store.reviewed(&self.name)?.is_on() == on {
            return Ok(());
        }
        self.core.record_all_so_far()?;
        let step = if on { ReviewStep::Begins } else { ReviewStep::Ends };
        self.record_review(step, &Whose::All, None, self.core.store.now(), None)
    }

    /// Is review on, or was it, with changes of that time that were never all accepted?
    ///
    /// # Errors
    /// The store's.
    pub fn has_review(&self) -> Result<bool> {
        Ok(self.core.store.reviewed(&self.name)?.is_any())
    }

    /// What is pending.
    ///
    /// # Errors
    /// The store's; the host's.
    pub fn pending(&self, selection: &ReviewSelection) -> Result<Pending> {
        self.core.record_all_so_far()?;
        self.core.storer.drain();
        let _tree = self.core.tree.read();
        self.pending_locked(selection)
    }

    /// How many paths of how many sessions are pending, as far as that is recorded by now; none if there are so many
    /// operations since the base that it takes long to tell.
    ///
    /// # Errors
    /// The store's; the host's.
    pub fn pending_count(&self) -> Result<Option<(usize, usize)>> {
        let floor = self.core.store.reviewed(&self.name)?.floor();
        let since = floor.map(|floor| self.core.store.recorded_from(floor.position)).transpose()?;
        if since.is_some_and(|since| since.len() > COUNTED_MAX) {
            return Ok(None);
        }
        let _tree = self.core.tree.read();
        let pending = self.pending_locked(&ReviewSelection { whose: Whose::All, paths: Vec::new() })?;
        Ok(Some((pending.paths().count(), pending.sessions.len())))
    }

    /// As `pending`, with the tree lock held.
    fn pending_locked(&self, selection: &ReviewSelection) -> Result<Pending> {
        let mark = self.core.store.now();
        let reviewed = self.core.store.reviewed(&self.name)?;
        let steps = self.review_steps(&reviewed)?;
        let mut sessions = self.pending_rows(&reviewed, &steps)?;
        sessions.retain(|session| selection.whose.includes(&session.whose));
        for session in &mut sessions {
            session.paths.retain(|path| selection.paths.is_empty() || selection.paths.iter().any(|at| path.is_at(at)));
        }
        sessions.retain(|session| !session.paths.is_empty());
        Ok(Pending { mark, sessions })
    }

    /// Accepts what is pending of a selection. Gives what that was.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing of it is pending; `MovedOn`; the store's.
    pub fn accept(&self, selection: &ReviewSelection, if_head: Option<OpId>) -> Result<Pending> {
        let pending = self.pending(selection)?;
        if let Some(head) = if_head {
            self.nothing_since(head)?;
        }
        // Even where nothing is seen to be pending, all may be accepted: what was taken back since is held no longer.
        if pending.sessions.is_empty() && !selection.paths.is_empty() {
            return Err(nothing_pending());
        }
        self.settle_pending(selection, &pending, &BTreeSet::new())?;
        Ok(pending)
    }

    /// Takes back what is pending of a selection, as one operation; what was in conflict and left alone stays pending. The
    /// request is a person's, whose actor has no view: what he does is no change through one, and so never pending.
    ///
    /// # Errors
    /// As `revert`; `InvalidArgument`: nothing of it is pending.
    pub fn reject(
        &self,
        request: &Request,
        selection: &ReviewSelection,
        on_conflict: OnConflict,
        guard: Guard<'_>,
    ) -> Result<Reverted> {
        let pending = self.pending(selection)?;
        if pending.sessions.is_empty() {
            return Err(nothing_pending());
        }
        let target = RevertTarget::Pending(selection.clone());
        let reverted = self.revert(request, &target, on_conflict, guard)?;
        if request.dry_run {
            return Ok(reverted);
        }
        if let Some(op) = reverted.done.op {
            let mark = Mark { op, ..self.core.store.now() };
            self.record_review(ReviewStep::Rejected, &Whose::All, None, mark, None)?;
        }
        // Of what only its metadata was left alone the content is taken back.
        let left: BTreeSet<ViewPath> = reverted
            .conflicts
            .iter()
            .filter(|conflict| conflict.code != super::ConflictCode::Meta)
            .map(|conflict| conflict.path.clone())
            .collect();
        self.settle_pending(selection, &pending, &left)?;
        Ok(reverted)
    }

    /// Moves the base of what was pending, but for paths that were left alone.
    fn settle_pending(&self, selection: &ReviewSelection, pending: &Pending, left: &BTreeSet<ViewPath>) -> Result<()> {
        let stays = |path: &PendingPath| left.iter().any(|left| path.is_at(left));
        let any_stays = pending.paths().any(|(_, path)| stays(path));
        if selection.paths.is_empty() && !any_stays {
            return self.record_review(ReviewStep::Accepted, &selection.whose, None, pending.mark, None);
        }
        for session in &pending.sessions {
            let kept: BTreeSet<NodeId> =
                session.paths.iter().filter(|path| stays(path)).flat_map(|path| path.nodes.clone()).collect();
            let nodes: BTreeSet<NodeId> =
                session.paths.iter().flat_map(|path| path.nodes.clone()).filter(|node| !kept.contains(node)).collect();
            if !nodes.is_empty() {
                let nodes = Some(nodes.into_iter().collect());
                self.record_review(ReviewStep::Accepted, &session.whose, nodes, pending.mark, None)?;
            }
        }
        Ok(())
    }

    fn record_review(
        &self,
        step: ReviewStep,
        whose: &Whose,
        nodes: Option<Vec<NodeId>>,
        upto: Mark,
        content: Option<crate::types::Hash>,
    ) -> Result<()> {
        let (view, time) = (self.name.clone(), Timestamp::now());
        Ok(self.core.store.review(&Review { view, step, whose: whose.clone(), nodes, upto, content, time })?)
    }

    /// What a rejection takes back. The tree lock is held.
    pub(super) fn select_pending(&self, selection: &ReviewSelection) -> Result<Selected> {
        let reviewed = self.core.store.reviewed(&self.name)?;
        let steps = self.review_steps(&reviewed)?;
        let nodes = if selection.paths.is_empty() {
            None
        } else {
            let pending = self.pending_locked(selection)?;
            Some(pending.paths().flat_map(|(_, path)| path.nodes.clone()).collect::<BTreeSet<NodeId>>())
        };
        let meant = |step: &&Step| {
            step.is_of(&selection.whose) && nodes.as_ref().is_none_or(|nodes| nodes.contains(&step.change.node))
        };
        let meant: Vec<&Step> = steps.iter().filter(meant).collect();
        let net = self.review_net(&reviewed, &meant)?;
        let mut operations: Vec<OpId> = meant.iter().rev().map(|step| step.op).collect();
        operations.dedup();
        Ok(Selected { net, operations, ..Selected::default() })
    }
}

fn nothing_pending() -> ViewError {
    ViewError::InvalidArgument("nothing of this is pending; `wardfs review list` tells what is".into())
}
