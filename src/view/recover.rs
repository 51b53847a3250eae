//! After a crash: what was recorded is finished on the served files, what was open is looked at, and nothing that a user
//! wrote is deleted.

use std::{collections::HashMap, os::fd::AsFd, sync::Arc};

use rustix::fs::OFlags;

use super::{
    Core, Result, Source, ViewError,
    apply::{Applying, dir_of},
    core::WHOLE_COPY_MAX,
};
use crate::{
    crash_point,
    host::{self, Errno, HostRef},
    types::{Actor, Attr, Channel, EntryName, Hash, Kind, NodeId, Timestamp},
    versions::{Change, ChangeKind, Content, OpKind, OpenMark, Operation, State},
};

/// What stands at a path of a source.
struct Standing {
    host: HostRef,
    attr: Attr,
}

impl Core {
    /// Finishes what the log says was begun, for these sources. Doing it twice does nothing twice. Returns what was found,
    /// one sentence each.
    ///
    /// # Errors
    /// The store's; trouble with one file becomes a sentence.
    pub fn recover(&self, sources: &[Arc<Source>]) -> Result<Vec<String>> {
        let mut notes = self.store.recovered().notes.clone();
        for operation in &self.store.recovered().intents {
            self.roll_forward(sources, operation, &mut notes)?;
        }
        for mark in &self.store.recovered().open {
            if let Err(error) = self.look_again(sources, mark, &mut notes) {
                notes.push(format!("{}: could not be looked at after the crash: {error}", mark.path));
            }
        }
        for name in &self.store.recovered().orphans {
            self.adopt_orphan(sources, name, &mut notes)?;
        }
        Ok(notes)
    }

    fn roll_forward(&self, sources: &[Arc<Source>], operation: &Operation, notes: &mut Vec<String>) -> Result<()> {
        let bytes = HashMap::new();
        let applying = Applying { core: self, bytes: &bytes, times: operation.kind == OpKind::Revert };
        for change in &operation.changes {
            let Some(source) = sources.iter().find(|source| source.id == change.source) else { return Ok(()) };
            match self.is_due(source, change) {
                Ok(true) => match applying.apply(source, change) {
                    Ok(()) => {
                        crash_point!("recovery-step-applied");
                        notes.push(format!("{}: finished operation {}", change.path, operation.op));
                    }
                    Err(error) => notes
                        .push(format!("{}: operation {} could not be finished: {error}", change.path, operation.op)),
                },
                Ok(false) => {}
                Err(error) => notes.push(format!("{}: could not be looked at: {error}", change.path)),
            }
        }
        crash_point!("recovery-intent-finished");
        self.store.applied(operation.op)?;
        Ok(())
    }

    /// Is a recorded change not carried out yet? A path that holds neither the old nor the new state was changed by
    /// somebody since, and is left alone.
    fn is_due(&self, source: &Source, change: &Change) -> Result<bool> {
        let now = standing(source, change)?;
        let same_inode =
            |standing: &Standing| change.key.as_ref().is_none_or(|key| standing.host.stable_key() == key.0);
        Ok(match (change.kind, now) {
            (ChangeKind::Create | ChangeKind::Link, now) => now.is_none(),
            (ChangeKind::Remove, now) => now.is_some_and(|now| same_inode(&now)),
            (ChangeKind::Write, Some(now)) => {
                let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(false) };
                let hash = content_hash(&now)?;
                let is_new = after.hash().is_some() && hash == after.hash();
                let is_old = before.is_current(&now.attr) || (before.hash().is_some() && hash == before.hash());
                // Written in place and cut off: neither the one nor the other.
                !is_new && (is_old || before.nlink > 1)
            }
            (ChangeKind::Meta, Some(now)) => change.after.as_ref().is_some_and(|after| after.mode != now.attr.mode),
            (ChangeKind::Rename, now) => now.is_none(),
            (ChangeKind::Exchange, Some(now)) => !same_inode(&now),
            (ChangeKind::Write | ChangeKind::Meta | ChangeKind::Exchange, None) => false,
        })
    }

    /// A file that was open for writing when the daemon died: what was written to it is recorded now.
    fn look_again(&self, sources: &[Arc<Source>], mark: &OpenMark, notes: &mut Vec<String>) -> Result<()> {
        let Some(source) = sources.iter().find(|source| source.id == mark.source) else { return Ok(()) };
        let known = self.store.operation(mark.op)?;
        let last =
            known.as_ref().and_then(|operation| operation.changes.iter().find(|change| change.node == mark.node));
        let state = last.and_then(|change| change.after.as_ref()).unwrap_or(&mark.before);
        let Some(host) = self.still_there(source, mark)? else { return self.closed(mark) };
        let attr = host.attr()?;
        if state.is_current(&attr) {
            return self.closed(mark);
        }
        let mut after = State::of(&attr, Content::Live(None));
        if attr.kind == Kind::File && attr.size <= WHOLE_COPY_MAX {
            let fd = host.open(OFlags::RDONLY)?;
            let (bytes, _) = host::read_whole(fd.as_fd(), WHOLE_COPY_MAX)?;
            after.content = Content::Blob(self.store.put_blob(&bytes)?.0);
        }
        after.xattrs.clone_from(&state.xattrs);
        let mut operation = known.unwrap_or_else(|| Operation {
            op: mark.op,
            time: mark.time,
            actor: mark.actor.clone(),
            kind: OpKind::Write,
            changes: vec![Change {
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
            }],
            operation_id: None,
            request: None,
            note: Some("recovered after a crash".into()),
            undoes: None,
            intent: false,
        });
        for change in operation.changes.iter_mut().filter(|change| change.node == mark.node) {
            change.after = Some(after.clone());
        }
        self.store.append(&operation)?;
        crash_point!("recovery-open-recorded");
        notes.push(format!("{}: was open for writing; what was written is operation {}", mark.path, mark.op));
        self.closed(mark)
    }

    fn closed(&self, mark: &OpenMark) -> Result<()> {
        self.store.closed(mark.op)?;
        Ok(())
    }

    fn still_there(&self, source: &Source, mark: &OpenMark) -> Result<Option<HostRef>> {
        if let Ok(host) = source.open_key(&mark.key) {
            return Ok(Some(host));
        }
        let Ok(dir) = dir_of(source, &mark.path) else { return Ok(None) };
        let Some(name) = mark.path.file_name() else { return Ok(None) };
        match host::open_child(dir.as_fd(), &name) {
            Ok(fd) => {
                let (host, _) = source.fs.adopt(fd)?;
                Ok((host.stable_key() == mark.key.0).then_some(host))
            }
            Err(_) => Ok(None),
        }
    }

    /// A file that went aside just before the crash, without a record.
    fn adopt_orphan(&self, sources: &[Arc<Source>], name: &EntryName, notes: &mut Vec<String>) -> Result<()> {
        let fd = match host::open_child(self.store.aside_dir(), name) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let attr = host::stat(fd.as_fd())?;
        if attr.nlink > 1 {
            // Linked, and the rename that should follow did not: the file still has its own name.
            host::remove_file(self.store.aside_dir(), name)?;
            crash_point!("recovery-aside-unlinked");
            return Ok(());
        }
        let node =
            String::from_utf8_lossy(name.as_bytes()).split('-').next().and_then(|node| node.parse().ok()).map(NodeId);
        let place = match node {
            Some(node) => self.last_place(node)?,
            None => None,
        };
        let Some((last, source)) = place.and_then(|last| {
            let source = sources.iter().find(|source| source.id == last.source)?;
            Some((last, Arc::clone(source)))
        }) else {
            notes.push(format!(
                "aside/{name} holds a file that was removed just before the crash; its name is not known"
            ));
            return Ok(());
        };
        if standing(&source, &last)?
            .is_some_and(|now| Some(now.host.stable_key()) == last.key.as_ref().map(|key| key.0.clone()))
        {
            return Ok(());
        }
        let mut before = State::of(&attr, Content::Aside(name.to_string()));
        before.nlink = 1;
        let op = self.store.next_op();
        notes.push(format!("{}: was removed just before the crash; operation {op} records it", last.path));
        self.store.append(&Operation {
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
            undoes: None,
            intent: false,
        })?;
        Ok(())
    }

    /// The last change of a node that left it standing somewhere.
    fn last_place(&self, node: NodeId) -> Result<Option<Change>> {
        let query = crate::versions::HistoryQuery { node: Some(node), limit: 1, ..Default::default() };
        let newest = self.store.history(&query)?.operations.into_iter().next();
        Ok(newest.and_then(|operation| {
            operation.changes.into_iter().rev().find(|change| change.node == node && change.after.is_some())
        }))
    }
}

fn standing(source: &Source, change: &Change) -> Result<Option<Standing>> {
    let dir = match dir_of(source, &change.path) {
        Ok(dir) => dir,
        Err(ViewError::Host(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(name) = change.path.file_name() else { return Ok(None) };
    match host::open_child(dir.as_fd(), &name) {
        Ok(fd) => {
            let (host, attr) = source.fs.adopt(fd)?;
            Ok(Some(Standing { host, attr }))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn content_hash(standing: &Standing) -> Result<Option<Hash>> {
    if standing.attr.kind != Kind::File {
        return Ok(None);
    }
    let fd = standing.host.open(OFlags::RDONLY)?;
    match host::read_whole(fd.as_fd(), super::core::COPY_MAX) {
        Ok((bytes, _)) => Ok(Some(Hash::of(&bytes))),
        Err(Errno::FBIG) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
