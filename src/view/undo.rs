//! The last step: what `undo` takes back, and what `redo` puts back. A save that an editor makes in several steps (a
//! temporary file, a rename over, a mode set) is one step, and names that were never to stay do not come back.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::{
    Result, View, ViewError,
    history::{ViewChange, ViewOperation, ViewQuery},
    revert::{SAVE_GAP_NANOS, Selected},
};
use crate::{
    types::{Actor, Channel, OpId, ViewPath},
    versions::{ActorFilter, Bound, ChangeKind, OpKind},
};

/// Operations of one save, at most.
const STEPS_MAX: usize = 64;
/// Operations asked for at once.
const PAGE: usize = 100;

/// The last thing that was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LastStep {
    /// The last change that holds, by a matching actor: what was not taken back, or put back since.
    Change(ActorFilter),
    /// The last taking back that holds.
    Undo,
}

impl View {
    /// The operations of the last step. Those in `passed` count as taken back.
    pub(super) fn select_last(&self, last: &LastStep, passed: &HashSet<OpId>) -> Result<Selected> {
        match last {
            LastStep::Undo => {
                let undo = last_undo(self.newest_first(), |op| Ok(self.operation(op)?.kind == OpKind::Revert))?;
                let undo = undo.ok_or_else(|| ViewError::NoStep("redo"))?;
                let mut selected = Selected { undoes: vec![undo.op], ..Selected::default() };
                selected.take(&undo);
                Ok(selected)
            }
            LastStep::Change(actor) => {
                let (mut passed, mut undoes) = (passed.clone(), Vec::new());
                loop {
                    let steps = last_steps(self.newest_first(), actor, &passed)?;
                    let mut steps = steps.ok_or_else(|| ViewError::NoStep("undo"))?;
                    steps.truncate(one_save(&steps));
                    let (changes_something, tidied) = self.without_tidying(&mut steps)?;
                    undoes.extend(steps.iter().map(|step| step.op).chain(tidied));
                    if changes_something {
                        let mut selected = Selected { undoes, ..Selected::default() };
                        steps.iter().for_each(|step| selected.take(step));
                        return Ok(selected);
                    }
                    // Only a temporary file came and went: it belongs to what was done before.
                    passed.extend(&undoes);
                }
            }
        }
    }

    fn newest_first(&self) -> impl Iterator<Item = Result<ViewOperation>> {
        let mut query = ViewQuery { limit: PAGE, ..ViewQuery::default() };
        let (mut page, mut more) = (VecDeque::new(), true);
        std::iter::from_fn(move || {
            if page.is_empty() && more {
                match self.history(&query) {
                    Ok(next) => {
                        more = next.more;
                        query.until = next.operations.last().map(|last| Bound::Op(OpId(last.op.0.saturating_sub(1))));
                        page.extend(next.operations);
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            page.pop_front().map(Ok)
        })
    }

    /// Leaves out names that would come back and that the same process had made for itself long before (a swap file, a lock).
    /// Is anything left, and the operations that were about such a name alone.
    fn without_tidying(&self, steps: &mut [ViewOperation]) -> Result<(bool, Vec<OpId>)> {
        let (mut left, mut tidied, mut all) = (false, Vec::new(), Vec::new());
        let Some(oldest) = steps.last().map(|step| step.op) else { return Ok((false, tidied)) };
        let actor = steps[0].actor.clone();
        for (path, life) in lives(steps) {
            let own = if life.goes() { self.life_of(&path, &actor, oldest)? } else { None };
            match own {
                Some(operations) => {
                    tidied.extend(operations);
                    all.push(path);
                }
                None => left |= life.before || life.after,
            }
        }
        for step in steps {
            step.changes.retain(|change| !all.contains(&change.path));
        }
        Ok((left, tidied))
    }

    /// The operations before `before` by which a process made a name and wrote to it, if they were about nothing else.
    fn life_of(&self, path: &ViewPath, actor: &Actor, before: OpId) -> Result<Option<Vec<OpId>>> {
        if actor.pid.is_none() {
            return Ok(None);
        }
        let until = Some(Bound::Op(OpId(before.0.saturating_sub(1))));
        let query = ViewQuery { path: Some(path.clone()), until, limit: STEPS_MAX, ..ViewQuery::default() };
        let mut operations = Vec::new();
        for operation in self.history(&query)?.operations {
            let only = |change: &ViewChange| change.path == *path && change.from.is_none();
            if !same(&operation.actor, actor) || !operation.changes.iter().all(only) {
                return Ok(None);
            }
            operations.push(operation.op);
            if operation.changes.iter().any(|change| events(change).contains(&(path, Event::Made))) {
                return Ok(Some(operations));
            }
        }
        Ok(None)
    }
}

/// The last change that holds, and what the same process did just before it, newest first.
fn last_steps(
    newest_first: impl Iterator<Item = Result<ViewOperation>>,
    wanted: &ActorFilter,
    passed: &HashSet<OpId>,
) -> Result<Option<Vec<ViewOperation>>> {
    let mut steps: Vec<ViewOperation> = Vec::new();
    for operation in holding(newest_first, passed.clone()) {
        let operation = operation?;
        let Some(last) = steps.last() else {
            if !is_undo(&operation) && wanted.matches(&operation.actor) {
                steps.push(operation);
            }
            continue;
        };
        let one_call = matches!(last.actor.channel, Channel::Tool | Channel::Revert | Channel::Recovery);
        let close = last.time.as_nanos() - operation.time.as_nanos() < SAVE_GAP_NANOS;
        if one_call || !close || steps.len() == STEPS_MAX {
            break;
        }
        if !is_undo(&operation) && same(&operation.actor, &last.actor) {
            steps.push(operation);
        }
    }
    Ok((!steps.is_empty()).then_some(steps))
}

/// The last taking back that holds, if nothing else was done after it.
fn last_undo(
    newest_first: impl Iterator<Item = Result<ViewOperation>>,
    is_revert: impl Fn(OpId) -> Result<bool>,
) -> Result<Option<ViewOperation>> {
    for operation in holding(newest_first, HashSet::new()) {
        let operation = operation?;
        let Some(undone) = operation.undoes.first().filter(|_| is_undo(&operation)) else { return Ok(None) };
        // A redo is itself the undo of an undo: it is passed over.
        if !is_revert(*undone)? {
            return Ok(Some(operation));
        }
    }
    Ok(None)
}

/// Operations that were not taken back by one that holds itself.
fn holding(
    newest_first: impl Iterator<Item = Result<ViewOperation>>,
    mut undone: HashSet<OpId>,
) -> impl Iterator<Item = Result<ViewOperation>> {
    newest_first.filter(move |operation| {
        let Ok(operation) = operation else { return true };
        let holds = !undone.contains(&operation.op);
        if holds && is_undo(operation) {
            undone.extend(&operation.undoes);
        }
        holds
    })
}

/// A revert of one step. One of much more has no numbers to undo by; it is an operation as any other.
fn is_undo(operation: &ViewOperation) -> bool {
    operation.kind == OpKind::Revert && !operation.undoes.is_empty()
}

/// The same process, or as far as that is known.
fn same(a: &Actor, b: &Actor) -> bool {
    (a.channel, a.uid, a.pid, &a.session, &a.view) == (b.channel, b.uid, b.pid, &b.session, &b.view)
}

/// What a change does to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Made,
    Gone,
    Written,
    Meta,
}

fn events(change: &ViewChange) -> Vec<(&ViewPath, Event)> {
    let here = |event| (&change.path, event);
    let there = |event| change.from.as_ref().map(|from| (from, event));
    match change.kind {
        ChangeKind::Create | ChangeKind::Link => vec![here(Event::Made)],
        ChangeKind::Remove => vec![here(Event::Gone)],
        ChangeKind::Write => vec![here(Event::Written)],
        ChangeKind::Meta => vec![here(Event::Meta)],
        ChangeKind::Rename => there(Event::Gone).into_iter().chain([here(Event::Made)]).collect(),
        ChangeKind::Exchange => there(Event::Written).into_iter().chain([here(Event::Written)]).collect(),
    }
}

/// A name in the course of some steps.
#[derive(Clone, Copy)]
struct Life {
    /// Something stood there before them.
    before: bool,
    /// Something stands there after them.
    after: bool,
    /// Only metadata changed.
    meta: bool,
}

impl Life {
    /// Taking the steps back brings it back.
    fn goes(self) -> bool {
        self.before && !self.after
    }

    /// Taking the steps back removes it.
    fn comes(self) -> bool {
        !self.before && self.after
    }
}

fn lives(steps: &[ViewOperation]) -> BTreeMap<ViewPath, Life> {
    let mut lives = BTreeMap::new();
    for change in steps.iter().rev().flat_map(|step| &step.changes) {
        for (path, event) in events(change) {
            let new = Life { before: event != Event::Made, after: true, meta: true };
            let life: &mut Life = lives.entry(path.clone()).or_insert(new);
            life.after = event != Event::Gone;
            life.meta &= event == Event::Meta;
        }
    }
    lives
}

/// How many of the steps, newest first, make one whole: what they leave behind was not made for their own sake.
fn one_save(steps: &[ViewOperation]) -> usize {
    let mut count = 1.min(steps.len());
    loop {
        let (these, older) = steps.split_at(count);
        // The nearest older step that did such a thing to a name.
        let nearest = |path: &ViewPath, wanted: fn(Event) -> bool| {
            let did = |step: &ViewOperation| {
                step.changes.iter().flat_map(events).any(|(at, event)| at == path && wanted(event))
            };
            older.iter().position(did).map_or(0, |at| at + 1)
        };
        let lives = lives(these);
        let more = lives.iter().map(|(path, life)| {
            if life.goes() {
                nearest(path, |event| event == Event::Made)
            } else if life.comes() {
                nearest(path, |event| event == Event::Gone)
            } else if life.meta {
                nearest(path, |_| true)
            } else {
                0
            }
        });
        match more.max() {
            Some(more) if more > 0 => count += more,
            Some(_) | None => return count,
        }
    }
}

#[cfg(test)]
mod tests;
