//! The room: one node table, one lock per file, one policy check, one recorder, for both doors.
//!
//! Lock order, outermost first: the tree lock (`Core::tree`), directories' file locks in the order of their
//! keys, files' locks in the order of their keys, the node table, the handle table, the store's own. A file's lock is
//! held across system calls on that file alone. Nothing here ever touches a mount of ours.

mod actors;
mod apply;
mod attr;
mod batch;
mod capture;
mod commit;
mod content;
mod core;
mod dirs;
mod error;
mod file;
mod finisher;
mod git;
mod handle;
mod history;
mod lookup;
mod lost;
mod moves;
mod mutate;
mod names;
mod net;
mod node;
mod notify;
mod outside;
mod past_walk;
mod places;
mod plan;
mod record;
mod recorded;
mod recover;
mod reload;
mod rename;
mod resolve;
mod restore;
mod revert;
mod review;
mod session;
mod source;
mod storer;
mod transaction;
mod transient;
mod undo;
mod walk;
mod xattr;

pub use actors::command_of;
pub use attr::{Entry, NodeAttr, SetAttr};
pub use batch::{Done, Expect, NewContent, Request, Rewrite, Side, Touched, WriteFile};
pub use content::Reading;
pub use core::Core;
pub use dirs::{DirItem, DirItemPlus};
pub use error::{Conflict, ConflictCode, Result, ViewError};
pub use handle::{Access, Fh, OpenMode, Opened};
pub use history::{At, Past, ViewChange, ViewHistory, ViewOperation, ViewQuery};
pub use names::NodeSpec;
pub use notify::{Invalidate, Notify};
pub use outside::OutsideStats;
pub use past_walk::{MetThen, PastFile, Then};
pub use recorded::Recorded;
pub use resolve::{Follow, Found};
pub use revert::{Guard, OnConflict, RevertTarget, Reverted};
pub use review::{
    HunkSelection, Interleaved, Patch, Pending, PendingChange, PendingPath, PendingSession, ReviewSelection,
};
pub use source::{Source, SourceSpec};
pub use transaction::Step;
pub use undo::LastStep;
pub use walk::{MetFile, WalkControl, WalkEntry, WalkOptions, Walked};

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32},
    },
};

use parking_lot::RwLock;

use crate::{
    policy::{Class, Policy},
    types::{EntryName, ViewPath},
};

/// What a view is made of.
pub struct ViewSpec {
    /// Its name: in the log, and to tell views of one daemon apart.
    pub name: String,
    /// One: its root is the view's root. Several: they are directories of the root.
    pub sources: Vec<Arc<Source>>,
    /// The policy.
    pub policy: Policy,
}

/// One policy over one or more sources.
pub struct View {
    core: Arc<Core>,
    id: u32,
    name: String,
    sources: Vec<Arc<Source>>,
    policy: RwLock<Arc<Policy>>,
    nodes: node::NodeTable,
    handles: handle::HandleTable,
    repositories: git::Repositories,
    /// Inodes that no view shows, by device and number: stores, and our own mountpoints.
    hidden: RwLock<HashSet<(u64, u64)>>,
    /// Set by the mount: content of opened files goes past us.
    passthrough: AtomicBool,
    /// The process that wakes watchers through the mount: what it does is not done.
    nudger: AtomicU32,
    notify: OnceLock<Arc<dyn Notify>>,
    /// Absolute paths that stand for the root.
    roots: RwLock<Vec<Vec<u8>>>,
    /// The control socket, for `user.wardfs.socket`.
    socket: OnceLock<std::path::PathBuf>,
}

impl View {
    /// Opens a view on `core`.
    ///
    /// # Errors
    /// The host's, when a source's root cannot be read.
    pub fn new(core: &Arc<Core>, spec: ViewSpec) -> Result<Arc<View>> {
        let (root, multi) = match spec.sources.as_slice() {
            [] => return Err(ViewError::InvalidArgument("a view needs at least one source".into())),
            [only] => (core.files.adopt(Arc::clone(&only.root))?, false),
            [_, _, ..] => (core.files.adopt(core.placeholder(&spec.name)?)?, true),
        };
        let id = core.next_view();
        let class = spec.policy.class(&ViewPath::root(), true).unwrap_or(Class { read_only: true, unversioned: false });
        let class = if multi { Class { read_only: true, unversioned: false } } else { class };
        let view = Arc::new(View {
            core: Arc::clone(core),
            id,
            name: spec.name,
            sources: spec.sources,
            policy: RwLock::new(Arc::new(spec.policy)),
            nodes: node::NodeTable::new(root, class, id),
            handles: handle::HandleTable::default(),
            repositories: git::Repositories::default(),
            hidden: RwLock::new(core.store_inodes()?),
            passthrough: AtomicBool::new(false),
            nudger: AtomicU32::new(0),
            notify: OnceLock::new(),
            roots: RwLock::default(),
            socket: OnceLock::new(),
        });
        core.register(&view);
        Ok(view)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its control socket is, for `user.wardfs.socket`. Only the first call counts.
    pub fn set_socket(&self, path: std::path::PathBuf) {
        // A view has one socket in its life, so a second call cannot happen.
        let _ = self.socket.set(path);
    }

    /// What it shares with all views of this daemon.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Its sources, in order.
    pub fn sources(&self) -> &[Arc<Source>] {
        &self.sources
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    /// Hides one inode from the view: a mountpoint of ours inside a source.
    pub fn hide(&self, dev: u64, ino: u64) {
        self.hidden.write().insert((dev, ino));
    }

    /// True if there are several sources, each a directory of a root of our own.
    pub(crate) fn is_multi(&self) -> bool {
        self.sources.len() > 1
    }

    /// The source at a path, and the path in it; `None` for the root of several sources and for names that are none.
    pub fn locate(&self, path: &ViewPath) -> Option<(&Arc<Source>, ViewPath)> {
        if !self.is_multi() {
            return self.sources.first().map(|source| (source, path.clone()));
        }
        let name: EntryName = path.components().next()?;
        let source = self.sources.iter().find(|source| source.name == name)?;
        let mut base = ViewPath::root();
        base.push(&name);
        path.strip_prefix(&base).map(|below| (source, below))
    }

    /// The path in this view of a path in a source; `None` if the source is not in it.
    pub fn place(&self, source: crate::types::SourceId, path: &ViewPath) -> Option<ViewPath> {
        let source = self.sources.iter().find(|s| s.id == source)?;
        if !self.is_multi() {
            return Some(path.clone());
        }
        let mut base = ViewPath::root();
        base.push(&source.name);
        Some(base.join_path(path))
    }
}
