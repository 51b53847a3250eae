//! A file: one inode of the host, with the one lock that all views, names and doors share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{Result, node::Node, session::Session};
use crate::{
    host::{FileKey, HostRef},
    policy::Class,
    types::{Actor, Attr, EntryName, Hash, Kind, Lsn, NodeId, OpId},
    versions::{NodeKey, State},
};

/// One inode of the host.
pub(crate) struct File {
    pub host: Arc<HostRef>,
    pub kind: Kind,
    /// The one lock. Held across system calls on this file, and on names in it if it is a directory.
    pub state: Mutex<FileState>,
    /// Its nodes: one for each view and class by which it is reached.
    pub nodes: Mutex<Vec<(u32, Class, Weak<Node>)>>,
    /// Our own links to it in `aside/`, not shown in its link count.
    aside_links: AtomicU32,
    /// A tool put another inode in its place: who still knows this one must look the name up again.
    replaced: AtomicBool,
    /// The log has to be on disk up to here before the content is destroyed, for it is kept there.
    kept: AtomicU64,
    table: Weak<Shards>,
}

/// What the log knows of a file.
pub(crate) struct FileState {
    pub head: Head,
    /// Open for writing through a mount.
    pub session: Option<Session>,
    /// The operation that last recorded it, since the start.
    pub last_op: OpId,
    /// The operation that made it, and who did, if nothing else was recorded of it.
    pub born: Option<(OpId, Actor)>,
    /// Its hash, and the attributes between which it was taken.
    pub hashed: Option<(Attr, Hash)>,
}

impl Default for FileState {
    fn default() -> Self {
        FileState { head: Head::Unloaded, session: None, last_op: OpId(0), born: None, hashed: None }
    }
}

/// The last recorded state.
#[derive(Default)]
pub(crate) enum Head {
    /// The store was not asked yet.
    #[default]
    Unloaded,
    /// The log has nothing, or only that it was removed; its number, if it has one.
    Unknown(Option<NodeId>),
    /// As the log has it.
    Known(NodeId, State),
}

type Shards = RwLock<HashMap<FileKey, Weak<File>>>;

/// All files that a node, a handle or a running operation refers to.
#[derive(Default)]
pub(crate) struct FileTable {
    files: Arc<Shards>,
}

impl FileTable {
    /// The file of an inode: the one that is known, or a new one.
    pub fn adopt(&self, host: Arc<HostRef>) -> Result<Arc<File>> {
        let attr = host.attr()?;
        Ok(self.get_or_insert(host, &attr))
    }

    /// The file of a key, if somebody refers to it.
    pub fn get(&self, key: &FileKey) -> Option<Arc<File>> {
        self.files.read().get(key).and_then(Weak::upgrade)
    }

    /// All files that somebody refers to.
    pub fn all(&self) -> Vec<Weak<File>> {
        self.files.read().values().cloned().collect()
    }

    /// As `adopt`, with attributes at hand.
    pub fn get_or_insert(&self, host: Arc<HostRef>, attr: &Attr) -> Arc<File> {
        let known = self.files.read().get(host.key()).and_then(Weak::upgrade);
        if let Some(file) = known {
            return file;
        }
        let mut files = self.files.write();
        if let Some(file) = files.get(host.key()).and_then(Weak::upgrade) {
            return file;
        }
        let key = host.key().clone();
        let file = Arc::new(File {
            host,
            kind: attr.kind,
            state: Mutex::default(),
            nodes: Mutex::default(),
            aside_links: AtomicU32::new(0),
            replaced: AtomicBool::new(false),
            kept: AtomicU64::new(0),
            table: Arc::downgrade(&self.files),
        });
        files.insert(key, Arc::downgrade(&file));
        file
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut files = table.write();
        // Another one may have taken the place between our last reference and here.
        if files.get(self.host.key()).is_some_and(|file| file.strong_count() == 0) {
            files.remove(self.host.key());
        }
    }
}

impl File {
    /// Its identity in the log.
    pub fn stable_key(&self) -> NodeKey {
        NodeKey(self.host.stable_key())
    }

    /// Its hard links, without our own.
    pub fn links(&self, attr: &Attr) -> u32 {
        attr.nlink.saturating_sub(self.aside_links.load(Ordering::Relaxed))
    }

    /// A tool put another inode in its place.
    pub fn was_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// A tool is putting another inode in its place.
    pub fn set_replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// Its content is kept, and named by a record before this position of the log.
    pub fn kept_until(&self, position: Lsn) {
        self.kept.fetch_max(position.0, Ordering::Relaxed);
    }

    /// Its content was kept; a record that names it has to follow.
    pub fn kept_unnamed(&self) {
        self.kept.store(u64::MAX, Ordering::Relaxed);
    }

    /// Up to where the log has to be on disk for the content to be kept.
    pub fn needs_log(&self) -> Lsn {
        Lsn(self.kept.load(Ordering::Relaxed))
    }

    /// As `needs_log`, of a file whose content is about to be safe in the log, or moved aside.
    pub fn take_needed_log(&self) -> Lsn {
        Lsn(self.kept.swap(0, Ordering::Relaxed))
    }

    /// One of its links is ours, in `aside/`.
    pub fn went_aside(&self) {
        self.aside_links.store(1, Ordering::Relaxed);
    }

    /// `name` in `dir` is not this file any more, in no view.
    pub fn lost_name(&self, dir: &File, name: &EntryName) {
        for node in self.live_nodes() {
            node.names.lock().retain(|(parent, known)| !(std::ptr::eq(&*parent.file, dir) && known == name));
        }
    }

    /// `name` in `dir` is this file now, in every view that shows the directory.
    pub fn got_name(&self, dir: &File, name: &EntryName) {
        let parents = dir.live_nodes();
        for node in self.live_nodes() {
            if let Some(parent) = parents.iter().find(|parent| parent.view() == node.view()) {
                node.named(parent, name);
            }
        }
    }

    /// The nodes that live, in all views.
    pub fn live_nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().iter().filter_map(|(_, _, node)| node.upgrade()).collect()
    }
}

impl FileState {
    /// The last recorded state, if it is loaded and known.
    pub fn known(&self) -> Option<&State> {
        match &self.head {
            Head::Known(_, state) => Some(state),
            Head::Unloaded | Head::Unknown(_) => None,
        }
    }
}
