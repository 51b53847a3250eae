//! A source: one host directory that is served, opened once and never looked up by path again.

use std::{collections::HashMap, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use rustix::fs::OFlags;

use super::{Core, Result};
use crate::{
    host::{self, DirStream, Errno, Fs, HostRef},
    types::{EntryName, Kind, SourceId, ViewPath},
    versions::{Mode, NodeKey},
};

/// A source as the human named it.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    /// The host directory.
    pub path: PathBuf,
    /// Its name in a view of several sources.
    pub name: EntryName,
    /// Nothing in it is changed through the view.
    pub read_only: bool,
}

/// A served directory.
pub struct Source {
    /// Its number in the log.
    pub id: SourceId,
    /// Its directory name in a view of several sources.
    pub name: EntryName,
    /// Where the human said it is; for messages only.
    pub path: PathBuf,
    /// Nothing in it is changed through the view.
    pub read_only: bool,
    /// Its file system.
    pub fs: Arc<Fs>,
    /// Its root directory.
    pub root: Arc<HostRef>,
    /// How displaced files reach the store.
    pub mode: Mode,
    /// FICLONE works between it and the store.
    pub reflink: bool,
}

impl Source {
    /// How changes beside us are noticed: `told` at once, or `timed` when somebody looks a second later.
    pub fn freshness(&self) -> &'static str {
        if self.fs.is_watched() { "told" } else { "timed" }
    }

    /// The identity in the log of what a descriptor in this source names.
    pub(crate) fn key_of(&self, fd: &OwnedFd) -> Result<NodeKey> {
        let fd = fd.try_clone().map_err(|_| Errno::MFILE)?;
        Ok(NodeKey(self.fs.adopt(fd)?.0.stable_key()))
    }

    /// The inode of an identity in the log, if it still exists and handles work here.
    pub(crate) fn open_key(&self, key: &NodeKey) -> Result<HostRef> {
        Ok(self.fs.open_stable(&key.0)?)
    }

    pub(crate) fn lives(&self, key: &NodeKey) -> bool {
        self.open_key(key).is_ok_and(|host| host.attr().is_ok_and(|attr| attr.nlink > 0))
    }

    /// The paths in the source of all files that have several names, by inode: how one is found where handles do not work.
    pub(crate) fn linked_names(&self) -> Result<HashMap<NodeKey, Vec<ViewPath>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut names: HashMap<NodeKey, Vec<ViewPath>> = HashMap::new();
        let mut waiting = vec![(self.root.open(flags)?, ViewPath::root())];
        while let Some((dir, below)) = waiting.pop() {
            let mut stream = DirStream::new(dir);
            for entry in stream.entries()? {
                let path = below.join(&entry.name);
                if !matches!(entry.kind, Kind::Dir | Kind::File) {
                    continue;
                }
                match host::open_child(stream.fd(), &entry.name).and_then(|fd| self.fs.adopt(fd)) {
                    Ok((dir, attr)) if attr.kind == Kind::Dir => match dir.open(flags) {
                        Ok(fd) => waiting.push((fd, path)),
                        // What may not be looked into has no names for us.
                        Err(Errno::ACCESS | Errno::PERM | Errno::STALE) => {}
                        Err(error) => return Err(error.into()),
                    },
                    Ok((file, attr)) if attr.nlink > 1 => {
                        names.entry(NodeKey(file.stable_key())).or_default().push(path);
                    }
                    Ok(_) | Err(Errno::NOENT | Errno::XDEV) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(names)
    }

    /// Opens a source for `core`: its root, its number in the log, and what its file system can do with the store.
    ///
    /// # Errors
    /// The host's, or the store's.
    pub fn open(core: &Core, spec: SourceSpec) -> Result<Arc<Source>> {
        let (fs, root) = core.open_root(&spec.path)?;
        let id = core.store.source(&NodeKey(root.stable_key()), &spec.path)?;
        let linked = core.shares_mount(&fs)?;
        Ok(Arc::new(Source {
            id,
            name: spec.name,
            read_only: spec.read_only,
            reflink: linked && core.can_reflink(),
            mode: if linked { Mode::Linked } else { Mode::Copying },
            path: spec.path,
            fs,
            root: Arc::new(root),
        }))
    }
}
