//! After a crash: what was recorded is finished on the served files or taken back, what was announced and what was open is
//! looked at, and nothing that a user wrote is deleted.
//!
//! All of it can be cut off and begun again: each step looks at what stands before it does anything.

mod begun;
mod intents;
mod lately;
mod marks;
mod orphans;

use std::{
    os::fd::AsFd,
    sync::{Arc, Weak},
};

use rustix::fs::OFlags;

use super::{
    Core, Result, Source, ViewError,
    apply::dir_of,
    core::{COPY_MAX, WHOLE_COPY_MAX},
    xattr::all_of,
};
use crate::{
    host::{self, Errno, HostRef},
    types::{Attr, EntryName, Hash, Kind, SourceId, ViewPath},
    versions::{Change, Content, NodeKey, OpenMark, Operation, Recovered, State},
};

/// What is left to finish, and the sources that are known so far.
pub(crate) struct Pending {
    withdrawn: Vec<Operation>,
    intents: Vec<Operation>,
    begun: Vec<Operation>,
    open: Vec<OpenMark>,
    orphans: Vec<EntryName>,
    sources: Vec<Weak<Source>>,
}

impl Pending {
    /// All that opening the store found.
    pub fn of(found: &Recovered) -> Pending {
        Pending {
            withdrawn: found.withdrawn.clone(),
            intents: found.intents.clone(),
            begun: found.begun.clone(),
            open: found.open.clone(),
            orphans: found.orphans.clone(),
            sources: Vec::new(),
        }
    }
}

/// One recovery: the sources at hand, and what is told of it.
struct Recovery<'a> {
    core: &'a Core,
    sources: Vec<Arc<Source>>,
    notes: Vec<String>,
}

/// What stands at a path of a source.
struct Standing {
    host: HostRef,
    attr: Attr,
}

impl Core {
    /// Finishes what the log says was begun, as far as it lies in these sources and those given before. What is finished is
    /// not looked at again, however often this is called. Returns what was found, one sentence each.
    ///
    /// # Errors
    /// The store's; trouble with one file becomes a sentence.
    pub fn recover(&self, sources: &[Arc<Source>]) -> Result<Vec<String>> {
        let mut pending = self.pending.lock();
        pending.sources.extend(sources.iter().map(Arc::downgrade));
        let known: Vec<Arc<Source>> = pending.sources.iter().filter_map(Weak::upgrade).collect();
        let mut recovery = Recovery { core: self, sources: known, notes: self.store.recovered().notes.clone() };
        // Guarded mutations first: their paths were under locks. Then single names, then contents.
        let mutations: Vec<Operation> =
            pending.intents.iter().chain(&pending.withdrawn).chain(&pending.begun).cloned().collect();
        for operation in due(&mut pending.withdrawn, |operation| recovery.has_all(operation)) {
            recovery.take_back(&operation)?;
        }
        for operation in due(&mut pending.intents, |operation| recovery.has_all(operation)) {
            recovery.roll_forward(&operation, &mutations)?;
        }
        for operation in due(&mut pending.begun, |operation| recovery.has_all(operation)) {
            recovery.look_what_came_of(operation)?;
        }
        for mark in due(&mut pending.open, |mark| recovery.source(mark.source).is_some()) {
            recovery.look_again(&mark)?;
        }
        let orphans = std::mem::take(&mut pending.orphans);
        for name in orphans {
            if !recovery.adopt_orphan(&name)? {
                pending.orphans.push(name);
            }
        }
        if recovery.after_power_cut() {
            recovery.distrust_times(sources)?;
        }
        Ok(recovery.notes)
    }
}

/// Takes out of a list what can be dealt with now.
fn due<T>(list: &mut Vec<T>, can: impl Fn(&T) -> bool) -> Vec<T> {
    let (now, later) = std::mem::take(list).into_iter().partition(can);
    *list = later;
    now
}

impl Recovery<'_> {
    fn source(&self, id: SourceId) -> Option<Arc<Source>> {
        self.sources.iter().find(|source| source.id == id).cloned()
    }

    /// Only what a machine loses that stops is missing on the disk; after the end of the daemon alone, somebody changed it.
    fn after_power_cut(&self) -> bool {
        self.core.store.recovered().other_boot
    }

    fn has_all(&self, operation: &Operation) -> bool {
        operation.changes.iter().all(|change| self.source(change.source).is_some())
    }

    /// The state of what stands, with its content kept if it is small.
    fn state_of(&self, standing: &Standing) -> Result<State> {
        let (host, mut attr) = (&standing.host, standing.attr);
        let content = match attr.kind {
            Kind::File if attr.size <= WHOLE_COPY_MAX => {
                let fd = host.open(OFlags::RDONLY)?;
                match host::read_whole(fd.as_fd(), WHOLE_COPY_MAX) {
                    Ok((bytes, steady)) => {
                        attr = steady;
                        Content::Blob(self.core.store.put_blob(&bytes)?.0)
                    }
                    // Somebody is writing to it.
                    Err(Errno::AGAIN | Errno::FBIG) => Content::Live(None),
                    Err(error) => return Err(error.into()),
                }
            }
            Kind::File => Content::Live(None),
            Kind::Symlink => Content::Target(host::read_link(host.path_fd()?.as_fd())?),
            Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => Content::None,
        };
        let mut state = State::of(&attr, content);
        state.xattrs = all_of(host.path_fd()?.as_fd())?;
        Ok(state)
    }
}

impl Standing {
    fn key(&self) -> NodeKey {
        NodeKey(self.host.stable_key())
    }

    fn is(&self, key: Option<&NodeKey>) -> bool {
        key.is_some_and(|key| self.key() == *key)
    }

    /// The hash of a file's content; none if it is no file, or too large to look at.
    fn content_hash(&self) -> Result<Option<Hash>> {
        if self.attr.kind != Kind::File {
            return Ok(None);
        }
        let fd = self.host.open(OFlags::RDONLY)?;
        match host::read_whole(fd.as_fd(), COPY_MAX) {
            Ok((bytes, _)) => Ok(Some(Hash::of(&bytes))),
            Err(Errno::FBIG | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What stands at a path.
fn standing(source: &Source, path: &ViewPath) -> Result<Option<Standing>> {
    let dir = match dir_of(source, path) {
        Ok(dir) => dir,
        Err(ViewError::Host(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(name) = path.file_name() else { return Ok(None) };
    match host::open_child(dir.as_fd(), &name) {
        Ok(fd) => {
            let (host, attr) = source.fs.adopt(fd)?;
            Ok(Some(Standing { host, attr }))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file that still has a name: by its key, else at a path.
fn still_there(source: &Source, key: &NodeKey, path: &ViewPath) -> Result<Option<HostRef>> {
    if let Ok(host) = source.open_key(key) {
        return Ok(host.attr().is_ok_and(|attr| attr.nlink > 0).then_some(host));
    }
    Ok(standing(source, path)?.filter(|found| found.is(Some(key))).map(|found| found.host))
}

/// What stands at the path that a change moved something away from.
fn standing_from(source: &Source, change: &Change) -> Result<Option<Standing>> {
    match &change.from {
        Some(from) => standing(source, from),
        None => Ok(None),
    }
}
