//! Taking changes back: which changes, what stands in the way, and what follows for the caller.

use std::collections::HashSet;

use super::{
    Conflict, Done, HunkSelection, LastStep, Request, Result, ReviewSelection, View, ViewError,
    history::{At, Past, ViewChange, ViewOperation, ViewQuery},
    lookup::STAGE_PREFIX,
    net::Net,
    plan::Plan,
    resolve::Follow,
    restore::Settled,
};
use crate::{
    types::{Channel, Hash, Kind, OpId, ViewPath},
    versions::{ActorFilter, Bound, ChangeKind, Content, State},
};

/// Going back to a moment may remove so many paths without being asked for with a token.
const REMOVES_UNASKED: usize = 100;
/// And no more than one path in so many of all there are.
const SHARE_UNASKED: usize = 10;

/// Steps of one save are no further apart than this.
pub(super) const SAVE_GAP_NANOS: i64 = 1_000_000_000;

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
    /// The last step: a change, or a taking back.
    Last(LastStep),
    /// What nobody has accepted yet.
    Pending(ReviewSelection),
    /// Parts of it.
    Hunks(HunkSelection),
}

/// What to do where somebody changed a path later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnConflict {
    /// Refuse the whole revert.
    #[default]
    Fail,
    /// Leave those paths alone.
    Skip,
    /// Three-way merge of texts; what does not merge cleanly refuses the whole revert.
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
    /// Of a dry run: the conflicts stop the revert itself.
    pub refused: bool,
    /// Operations that were taken back.
    pub operations: Vec<OpId>,
    /// Of a dry run: stands for exactly this plan on the tree as it is, if it removes more than 100 paths or a tenth of the tree.
    pub confirm_token: Option<String>,
}

/// What must hold for a revert to be done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Guard<'a> {
    /// The plan is that of the dry run that gave this token.
    pub confirm_token: Option<&'a str>,
    /// Nothing was recorded in this view after this operation.
    pub if_head: Option<OpId>,
}

/// What a target comes to.
#[derive(Default)]
pub(crate) struct Selected {
    /// All that is taken back.
    pub net: Net,
    /// By these operations, newest first.
    pub operations: Vec<OpId>,
    /// Every later change is among them, so that what is found different was done beside us, and is put back too.
    pub all: bool,
    /// The operations by whose numbers the revert is an undo; none if there are too many to name.
    pub undoes: Vec<OpId>,
}

impl Selected {
    /// The next older operation.
    pub fn take(&mut self, operation: &ViewOperation) {
        for change in operation.changes.iter().rev() {
            self.net.undo(operation.op, change);
        }
        self.operations.push(operation.op);
    }
}

impl View {
    /// Takes changes back as one operation.
    ///
    /// # Errors
    /// `RevertConflict` under `Fail` and `Merge`; `ConfirmationNeeded`; `MovedOn`; `VersionNotFound`, `VersionPruned`; the host's; the store's.
    pub fn revert(
        &self,
        request: &Request,
        target: &RevertTarget,
        on_conflict: OnConflict,
        guard: Guard<'_>,
    ) -> Result<Reverted> {
        self.core.record_all_so_far()?;
        self.core.storer.drain();
        let mut request = request.clone();
        request.actor.channel = Channel::Revert;
        let mut reverted = Reverted::default();
        let done = self.guarded_while(|waits| {
            let _tree = self.core.tree.write();
            if let Some(head) = guard.if_head {
                self.nothing_since(head)?;
            }
            let mut passed = HashSet::new();
            loop {
                let selected = self.select(target, &passed)?;
                let plan = self.plan_revert(&request, &selected, on_conflict, waits, &mut reverted)?;
                if plan.steps.is_empty() && reverted.conflicts.is_empty() && matches!(target, RevertTarget::Last(_)) {
                    // It is as it was before already: the step before it is meant.
                    passed.extend(selected.undoes);
                    continue;
                }
                self.confirm(&request, target, &plan, guard, &mut reverted)?;
                if request.dry_run || plan.steps.is_empty() {
                    return Ok((plan.unapplied(self), Vec::new()));
                }
                let undoes = selected.undoes.into_iter().chain(passed).collect();
                return self.commit(&request, crate::versions::OpKind::Revert, undoes, plan, None);
            }
        })?;
        reverted.done = done;
        Ok(reverted)
    }

    /// Refuses if this view has a record of anything after an operation.
    pub(super) fn nothing_since(&self, head: OpId) -> Result<()> {
        let since = Some(Bound::Op(self.moment(&At::Op(head))?));
        let later = self.history(&ViewQuery { since, limit: 1, ..ViewQuery::default() })?;
        match later.operations.first() {
            Some(newest) => Err(ViewError::MovedOn { head, newest: newest.op }),
            None => Ok(()),
        }
    }

    /// Refuses a plan that removes much if it was not asked for by its token, and any plan that is not the token's.
    fn confirm(
        &self,
        request: &Request,
        target: &RevertTarget,
        plan: &Plan,
        guard: Guard<'_>,
        reverted: &mut Reverted,
    ) -> Result<()> {
        let removes = plan.steps.iter().filter(|step| step.change.kind == ChangeKind::Remove).count();
        let much = || -> Result<bool> {
            Ok(removes > REMOVES_UNASKED || (removes > 0 && !self.holds(removes * SHARE_UNASKED)?))
        };
        if request.dry_run {
            reverted.confirm_token = much()?.then(|| token_of(target, plan));
            return Ok(());
        }
        let of_much =
            matches!(target, RevertTarget::To(_) | RevertTarget::Path { to: Some(_), .. } | RevertTarget::Pending(_));
        let refused = match guard.confirm_token {
            // The tree may have moved on since the dry run.
            Some(given) => given != token_of(target, plan),
            None => of_much && much()?,
        };
        if refused {
            return Err(ViewError::ConfirmationNeeded { removes, stale: guard.confirm_token.is_some() });
        }
        Ok(())
    }

    /// Does the view show at least so many paths?
    fn holds(&self, count: usize) -> Result<bool> {
        let mut seen = 0;
        let mut dirs = vec![ViewPath::root()];
        while let Some(dir) = dirs.pop() {
            let found = match self.find_locked(&dir, Follow::No) {
                Ok(found) if found.attr.kind == Kind::Dir => found,
                Ok(_) | Err(ViewError::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            self.list_node(&found.node, &mut |name, kind| {
                seen += 1;
                if kind == Kind::Dir {
                    dirs.push(dir.join(&name));
                }
            })?;
            if seen >= count {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is to be done, and what is left alone. Nothing is done if a conflict stops it.
    fn plan_revert(
        &self,
        request: &Request,
        selected: &Selected,
        on_conflict: OnConflict,
        waits: bool,
        reverted: &mut Reverted,
    ) -> Result<Plan> {
        reverted.operations.clone_from(&selected.operations);
        let mut restore = super::restore::Restore::new(self, request, &selected.net, on_conflict, waits);
        let Settled { mut left, stops } = restore.settle(selected.all)?;
        let (plan, unmet) = if stops { Default::default() } else { restore.plan()? };
        let stops = stops || (!unmet.is_empty() && matches!(on_conflict, OnConflict::Fail | OnConflict::Merge));
        left.extend(unmet);
        if stops && !request.dry_run {
            return Err(ViewError::RevertConflict(left));
        }
        (reverted.conflicts, reverted.refused) = (left, stops);
        Ok(if stops { Plan::default() } else { plan })
    }

    /// The operations that a target means, each with the changes that belong to it.
    fn select(&self, target: &RevertTarget, passed: &HashSet<OpId>) -> Result<Selected> {
        let mut selected = Selected::default();
        match target {
            RevertTarget::Last(last) => return self.select_last(last, passed),
            RevertTarget::Pending(selection) => return self.select_pending(selection),
            RevertTarget::Hunks(selection) => return self.select_hunks(selection),
            RevertTarget::Operation(op) => selected.take(&self.operation(*op)?),
            RevertTarget::Actor { actor, since } => {
                let since = since.as_ref().map(|at| self.moment(at)).transpose()?;
                let query = ViewQuery { actor: actor.clone(), since: since.map(Bound::Op), ..ViewQuery::default() };
                self.each_operation(query, &mut |operation| selected.take(&operation))?;
            }
            RevertTarget::To(at) => {
                let since = Some(Bound::Op(self.moment(at)?));
                let query = ViewQuery { since, ..ViewQuery::default() };
                self.each_operation(query, &mut |operation| selected.take(&operation))?;
                selected.all = true;
            }
            RevertTarget::Path { path, to } => {
                let (since, all) = match to {
                    Some(at) => (self.moment(at)?, true),
                    None => (self.before_last_change(path)?, false),
                };
                let query =
                    ViewQuery { path: Some(path.clone()), since: Some(Bound::Op(since)), ..ViewQuery::default() };
                self.each_operation(query, &mut |mut operation| {
                    let op = operation.op;
                    let changes = std::mem::take(&mut operation.changes);
                    operation.changes =
                        changes.into_iter().filter_map(|change| self.within(path, op, change)).collect();
                    if !operation.changes.is_empty() {
                        selected.take(&operation);
                    }
                })?;
                selected.all = all;
            }
        }
        if let [only] = selected.operations.as_slice() {
            selected.undoes = vec![*only];
        }
        Ok(selected)
    }

    /// A page at a time: a long history does not fit into memory.
    pub(super) fn each_operation(&self, mut query: ViewQuery, each: &mut dyn FnMut(ViewOperation)) -> Result<()> {
        query.limit = 2000;
        loop {
            let page = self.history(&query)?;
            let last = page.operations.last().map(|operation| operation.op);
            page.operations.into_iter().for_each(&mut *each);
            match last {
                Some(last) if page.more => query.until = Some(Bound::Op(OpId(last.0.saturating_sub(1)))),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// The moment before a path got the state it has: editors save in several steps, and between them the name may have been
    /// away.
    fn before_last_change(&self, path: &ViewPath) -> Result<OpId> {
        let query = ViewQuery { path: Some(path.clone()), limit: 64, ..ViewQuery::default() };
        let operations = self.history(&query)?.operations;
        let newest =
            operations.first().ok_or_else(|| ViewError::VersionNotFound(format!("{path} has no recorded change")))?;
        let before = |op: OpId| OpId(op.0.saturating_sub(1));
        let Ok(now) = self.find_locked(path, Follow::No) else { return Ok(before(newest.op)) };
        if now.attr.kind == Kind::Dir {
            return Ok(before(newest.op));
        }
        // One save may be several steps: a name moved away, another made, its mode set. They follow each other closely.
        let mut last = newest.time;
        let mut metadata = None;
        for operation in &operations {
            let close = last.as_nanos() - operation.time.as_nanos() < SAVE_GAP_NANOS;
            if metadata.is_some() && !close {
                break;
            }
            last = operation.time;
            match self.past_locked(path, before(operation.op))? {
                Past::Absent | Past::Now(_) => {}
                Past::Was(state) if self.is_as(&state, None, &now)? => {
                    metadata.get_or_insert(before(operation.op));
                }
                Past::Was(_) => return Ok(before(operation.op)),
            }
        }
        if let Some(metadata) = metadata {
            return Ok(metadata);
        }
        // It was never there before: it is taken back to nothing.
        Ok(operations.last().map_or(before(newest.op), |oldest| before(oldest.op)))
    }

    /// A change as far as it concerns `scope`: what came in from outside was created for it, what went out was removed.
    fn within(&self, scope: &ViewPath, op: OpId, mut change: ViewChange) -> Option<ViewChange> {
        let inside = change.path.starts_with(scope);
        let from_inside = change.from.as_ref().is_some_and(|from| from.starts_with(scope));
        match (change.kind, inside, from_inside) {
            (ChangeKind::Rename | ChangeKind::Exchange, true, true) | (ChangeKind::Link, true, _) => Some(change),
            (ChangeKind::Rename, true, false) => {
                change.kind = ChangeKind::Create;
                change.from = None;
                change.before = None;
                Some(change)
            }
            (ChangeKind::Rename, false, true) => {
                let path = change.from.take()?;
                let before = change.before.as_mut()?;
                if before.kind == Kind::File && matches!(before.content, Content::Live(_)) {
                    // It lives on outside the scope; a copy of it comes back.
                    let bytes = self.past_bytes_locked(&change.path, op, super::core::COPY_MAX).ok()?;
                    let (hash, _) = self.core.store.put_blob(&bytes).ok()?;
                    before.content = Content::Blob(hash);
                }
                change.path = path;
                change.kind = ChangeKind::Remove;
                change.after = None;
                Some(change)
            }
            (ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link, _, _) => None,
            (ChangeKind::Create | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove, _, _) => {
                inside.then_some(change)
            }
        }
    }

    /// Is what was found still as a state says? Metadata does not count.
    pub(super) fn is_as(
        &self,
        state: &State,
        at: Option<(OpId, crate::types::NodeId)>,
        found: &super::Found,
    ) -> Result<bool> {
        let attr = found.node.file.host.attr()?;
        if state.kind != attr.kind {
            return Ok(false);
        }
        if state.is_current(&attr) || state.kind == Kind::Dir {
            return Ok(true);
        }
        if state.kind == Kind::Symlink {
            return Ok(matches!(&state.content, Content::Target(target) if *target == self.target_of(found)?));
        }
        if state.kind != Kind::File {
            return Ok(state.rdev == attr.rdev);
        }
        if state.size != attr.size {
            return Ok(false);
        }
        let content = match (&state.content, at) {
            (Content::Live(_), Some((op, node))) => self.core.store.content_of(node, op)?,
            (content, _) => content.clone(),
        };
        let wanted = match &content {
            Content::Blob(hash) | Content::Live(Some(hash)) => *hash,
            Content::Aside(_) if attr.size <= super::core::COPY_MAX => {
                Hash::of(&self.core.store.read_all(&content, super::core::COPY_MAX)?)
            }
            // Nothing to compare with but the times: a move or another mode leaves those of the content alone.
            Content::Live(None) | Content::Aside(_) => return Ok(state.mtime == attr.mtime),
            Content::None | Content::Target(_) | Content::Lost(_) => return Ok(false),
        };
        let reading = self.reading(&found.node, found.path.clone())?;
        Ok(self.hash(&reading)? == wanted)
    }
}

/// Stands for a plan on the tree as it is. Once it is carried out, no such plan is possible again: what it removed has
/// another time of change when it is back.
fn token_of(target: &RevertTarget, plan: &Plan) -> String {
    let mut text = format!("{target:?}\n");
    for step in &plan.steps {
        let change = &step.change;
        let before = change.before.as_ref().map(|state| (state.kind, state.size, state.mtime, state.ctime));
        let after = change.after.as_ref().map(|state| (state.kind, state.size, state.mode));
        let named = |path: &ViewPath| match path.file_name() {
            // A name in between is another one in each plan.
            Some(name) if name.as_bytes().starts_with(STAGE_PREFIX) => String::new(),
            Some(_) | None => format!("{path:?}"),
        };
        let (path, from) = (named(&change.path), change.from.as_ref().map(named));
        text += &format!("{:?} {path} {from:?} {before:?} {after:?}\n", change.kind);
    }
    Hash::of(text.as_bytes()).hex()[..16].to_owned()
}
