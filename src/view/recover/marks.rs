//! Files that were open for writing when the daemon died: what was written to them is recorded now.

use super::{Recovery, Standing, still_there};
use crate::{
    crash_point,
    types::OpId,
    versions::{Change, ChangeKind, HistoryQuery, OpKind, OpenMark, Operation, State},
    view::Result,
};

impl Recovery<'_> {
    /// Looks at one. Trouble with it becomes a sentence, and the mark stays.
    pub(super) fn look_again(&mut self, mark: &OpenMark) -> Result<()> {
        match self.look(mark) {
            Ok(()) => {
                self.core.store.closed(mark.op)?;
            }
            Err(error) => self.notes.push(format!("{}: could not be looked at after the crash: {error}", mark.path)),
        }
        Ok(())
    }

    fn look(&mut self, mark: &OpenMark) -> Result<()> {
        let Some(source) = self.source(mark.source) else { return Ok(()) };
        // Newest first: all that is said of the inode since the open.
        let query = HistoryQuery { node: Some(mark.node), limit: 1000, ..HistoryQuery::default() };
        let mut since = self.core.store.history(&query)?.operations;
        since.retain(|operation| operation.op >= mark.op);
        let of_node = |operation: &Operation| operation.changes.iter().rev().find(|c| c.node == mark.node).cloned();
        if since.first().and_then(of_node).is_some_and(|change| change.kind == ChangeKind::Remove) {
            // Its last name went, after what was written was recorded.
            return Ok(());
        }
        let Some(host) = still_there(&source, &mark.key, &mark.path)? else { return Ok(()) };
        let now = Standing { attr: host.attr()?, host };
        // Of what the open file wrote, the last that was recorded.
        let wrote = |change: &Change| {
            change.node == mark.node && matches!(change.kind, ChangeKind::Write | ChangeKind::Create | ChangeKind::Meta)
        };
        let recorded = since.into_iter().find(|operation| operation.changes.iter().any(wrote));
        let known = recorded.as_ref().and_then(|operation| operation.changes.iter().find(|change| wrote(change)));
        let last = known.and_then(|change| change.after.clone()).unwrap_or_else(|| mark.before.clone());
        // A rename or another link changes ctime alone.
        let same = (last.size, last.mtime, last.mode, last.uid, last.gid)
            == (now.attr.size, now.attr.mtime, now.attr.mode, now.attr.uid, now.attr.gid);
        let after = State { nlink: now.attr.nlink, ..self.state_of(&now)? };
        let looks_same = last.is_current(&now.attr) || (same && last.xattrs == after.xattrs);
        // After a power cut new bytes may stand there under the old times.
        let rewritten = self.after_power_cut()
            && after.hash().is_some()
            && last.hash().is_some_and(|hash| after.hash() != Some(hash));
        if looks_same && !rewritten {
            return Ok(());
        }
        let mut operation = recorded.unwrap_or_else(|| first_of(mark));
        for change in operation.changes.iter_mut().filter(|change| wrote(change)) {
            change.after = Some(after.clone());
        }
        let (op, path) = (operation.op, mark.path.clone());
        self.core.store.append(&operation)?;
        crash_point!("recovery-open-recorded");
        self.notes.push(format!("{path}: was open for writing; what was written is operation {op}"));
        Ok(())
    }
}

/// The operation of an open file of which nothing was recorded yet.
fn first_of(mark: &OpenMark) -> Operation {
    let change = Change {
        source: mark.source,
        path: mark.path.clone(),
        kind: ChangeKind::Write,
        from: None,
        node: mark.node,
        key: Some(mark.key.clone()),
        before: Some(mark.before.clone()),
        after: None,
        staged: None,
        coalesced: false,
        unversioned: None,
    };
    Operation {
        op: OpId(mark.op.0),
        time: mark.time,
        actor: mark.actor.clone(),
        kind: OpKind::Write,
        changes: vec![change],
        operation_id: None,
        request: None,
        note: Some("recovered after a crash".into()),
        undoes: Vec::new(),
        intent: false,
    }
}
