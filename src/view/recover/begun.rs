//! Operations of names and metadata that were announced and not recorded: did the host carry them out? Then they are recorded
//! as what they were, by whom they were; else they never were.

use super::{Recovery, Standing, standing, standing_from};
use crate::{
    crash_point,
    types::{Kind, Timestamp},
    versions::{Change, ChangeKind, Content, Loss, Operation, State},
    view::{Result, Source},
};

/// A file's time is taken from a coarser clock than an announcement's.
const CLOCK_SLACK_NANOS: i64 = 1_000_000_000;

impl Recovery<'_> {
    pub(super) fn look_what_came_of(&mut self, operation: Operation) -> Result<()> {
        let Some(last) = operation.changes.last() else { return Ok(()) };
        let (op, path) = (operation.op, last.path.clone());
        let found = self.found_done(&operation);
        match found {
            Ok(Some(changes)) => {
                let note = Some("recovered after a crash".into());
                self.core.store.append(&Operation { changes, note, ..operation })?;
                crash_point!("recovery-begun-recorded");
                self.notes.push(format!("{path}: was changed just before the crash; operation {op} records it"));
            }
            Ok(None) => {
                self.core.store.aborted(op)?;
            }
            Err(error) => self.notes.push(format!("{path}: could not be looked at after the crash: {error}")),
        }
        Ok(())
    }

    /// The changes as they came out; none if nothing came of them. What a rename displaced went if the rename was made.
    fn found_done(&self, operation: &Operation) -> Result<Option<Vec<Change>>> {
        let Some(last) = operation.changes.last() else { return Ok(None) };
        let Some(source) = self.source(last.source) else { return Ok(None) };
        if !self.is_done(&source, last, operation.time)? {
            return Ok(None);
        }
        operation.changes.iter().map(|change| self.as_it_came_out(&source, change)).collect::<Result<_>>().map(Some)
    }

    fn is_done(&self, source: &Source, change: &Change, announced: Timestamp) -> Result<bool> {
        let now = standing(source, &change.path)?;
        Ok(match (change.kind, now) {
            (ChangeKind::Create, Some(now)) => {
                // Somebody beside us may have been faster: then it is not ours to take back.
                let kind = change.after.as_ref().is_some_and(|after| after.kind == now.attr.kind);
                let fresh = now.attr.ctime.as_nanos() >= announced.as_nanos() - CLOCK_SLACK_NANOS;
                kind && fresh && self.core.store.head(&now.key())?.is_none()
            }
            (ChangeKind::Remove, now) => !now.is_some_and(|now| now.is(change.key.as_ref())),
            (ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link, Some(now)) => now.is(change.key.as_ref()),
            (ChangeKind::Write | ChangeKind::Meta, Some(now)) => {
                now.is(change.key.as_ref()) && self.differs(change, &now)?
            }
            (
                ChangeKind::Create
                | ChangeKind::Rename
                | ChangeKind::Exchange
                | ChangeKind::Link
                | ChangeKind::Write
                | ChangeKind::Meta,
                None,
            ) => false,
        })
    }

    fn differs(&self, change: &Change, now: &Standing) -> Result<bool> {
        let Some(before) = &change.before else { return Ok(false) };
        let after = self.state_of(now)?;
        Ok(!before.is_current(&now.attr) || before.xattrs != after.xattrs || before.mtime != after.mtime)
    }

    fn as_it_came_out(&self, source: &Source, change: &Change) -> Result<Change> {
        let mut change = change.clone();
        match change.kind {
            ChangeKind::Remove => {
                if let Some(before) = &mut change.before
                    && let Content::Aside(name) = &before.content
                    && !self.core.store.has_aside(name)
                {
                    before.content = Content::Lost(Loss::External);
                }
            }
            ChangeKind::Create => {
                if let Some(now) = standing(source, &change.path)? {
                    change.node = self.core.store.next_node();
                    change.key = Some(now.key());
                    change.after = Some(self.state_of(&now)?);
                }
            }
            ChangeKind::Write | ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Link => {
                if let Some(now) = standing(source, &change.path)? {
                    let mut after = self.state_of(&now)?;
                    // Its content stayed, and is known.
                    if let Some(before) = &change.before
                        && change.kind != ChangeKind::Write
                        && matches!(after.content, Content::Live(_))
                    {
                        after.content.clone_from(&before.content);
                    }
                    change.after = Some(after);
                }
            }
            ChangeKind::Exchange => {
                change.before = self.moved(standing(source, &change.path)?)?;
                change.after = self.moved(standing_from(source, &change)?)?;
            }
        }
        Ok(change)
    }

    /// The state of something that only moved.
    fn moved(&self, now: Option<Standing>) -> Result<Option<State>> {
        let Some(now) = now else { return Ok(None) };
        let known = self.core.store.head(&now.key())?.and_then(|(_, state)| state);
        let mut state = self.state_of(&now)?;
        if let Some(known) = known.filter(|known| known.kind == Kind::File && matches!(state.content, Content::Live(_)))
        {
            state.content = known.content;
        }
        Ok(Some(state))
    }
}
