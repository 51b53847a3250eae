//! Files in `aside/` that no record explains.

use std::os::fd::AsFd;

use super::{Recovery, standing};
use crate::{
    crash_point,
    host::{self, Errno},
    types::{Actor, Channel, EntryName, NodeId, Timestamp},
    versions::{Change, ChangeKind, Content, HistoryQuery, OpKind, Operation, State},
    view::Result,
};

impl Recovery<'_> {
    /// Deals with one: a second link is taken away, a removed file is recorded, and what nobody knows stays. False if a source
    /// that is not there yet may know it.
    pub(super) fn adopt_orphan(&mut self, name: &EntryName) -> Result<bool> {
        let store = &self.core.store;
        // It was found before what was announced was recorded.
        if std::str::from_utf8(name.as_bytes()).is_ok_and(|name| store.knows_aside(name).unwrap_or(false)) {
            return Ok(true);
        }
        let fd = match host::open_child(store.aside_dir(), name) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let attr = host::stat(fd.as_fd())?;
        if attr.nlink > 1 {
            // Linked, and the rename that should follow did not: the file still has its own name.
            host::remove_file(store.aside_dir(), name)?;
            crash_point!("recovery-aside-unlinked");
            return Ok(true);
        }
        let node = String::from_utf8_lossy(name.as_bytes()).split('-').next().and_then(|node| node.parse().ok());
        let last = match node.map(NodeId) {
            Some(node) => self.last_place(node)?,
            None => None,
        };
        let Some(last) = last else {
            // Perhaps a copy that was not finished, perhaps a file whose announcement a power cut took: nobody can tell.
            self.notes.push(format!("aside/{name} is in no record; it is kept"));
            return Ok(true);
        };
        let Some(source) = self.source(last.source) else { return Ok(false) };
        if standing(&source, &last.path)?.is_some_and(|now| now.is(last.key.as_ref())) {
            // A copy of a file that still stands.
            return Ok(true);
        }
        let mut before = State::of(&attr, Content::Aside(name.to_string()));
        before.nlink = 1;
        let op = store.next_op();
        self.notes.push(format!("{}: was removed just before the crash; operation {op} records it", last.path));
        store.append(&Operation {
            op,
            time: Timestamp::now(),
            actor: Actor::of(Channel::Recovery),
            kind: OpKind::Recovered,
            changes: vec![Change {
                kind: ChangeKind::Remove,
                from: None,
                before: Some(before),
                after: None,
                staged: None,
                coalesced: false,
                unversioned: None,
                ..last
            }],
            operation_id: None,
            request: None,
            note: Some("recovered after a crash".into()),
            undoes: Vec::new(),
            intent: false,
        })?;
        Ok(true)
    }

    /// The last change of a node, if it left it standing somewhere.
    fn last_place(&self, node: NodeId) -> Result<Option<Change>> {
        let query = HistoryQuery { node: Some(node), limit: 1, ..HistoryQuery::default() };
        let newest = self.core.store.history(&query)?.operations.into_iter().next();
        Ok(newest.and_then(|operation| {
            operation.changes.into_iter().rev().find(|change| change.node == node && change.after.is_some())
        }))
    }
}
