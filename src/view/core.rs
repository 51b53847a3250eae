//! What all views of one daemon share: the store, the files with their locks, the tree lock, the background storer.

use std::{
    collections::HashSet,
    os::fd::AsFd,
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    Result, View, actors::Actors, file::FileTable, finisher::Finisher, outside::Outside, recorded::UnderWay,
    recover::Pending, storer::Storer,
};
use crate::{
    host::{self, Fs, HostRef},
    types::{EntryName, Timestamp},
    versions::Store,
};

/// Contents up to this size are kept whole in the log.
pub(crate) const WHOLE_COPY_MAX: u64 = 1 << 20;
/// Contents above this size are kept only by reflink or by moving the inode aside.
pub(crate) const COPY_MAX: u64 = 64 << 20;

/// Shared by all views of a daemon.
pub struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) files: FileTable,
    /// Write: a directory changes its place, so that paths change below it. Read: any other change of names.
    pub(crate) tree: RwLock<()>,
    pub(crate) actors: Actors,
    pub(crate) storer: Storer,
    pub(crate) finisher: Finisher,
    pub(crate) under_way: UnderWay,
    /// When it began to serve.
    pub(super) started: Timestamp,
    pub(super) outside: Outside,
    /// When an open last found its file replaced, in nanoseconds, and whose it was; 0 once that one has opened something.
    pub(super) lost: super::lost::Lost,
    pub(super) filesystems: Mutex<Vec<Arc<Fs>>>,
    /// What a crash left, as far as it is not finished.
    pub(super) pending: Mutex<Pending>,
    views: Mutex<Vec<Weak<View>>>,
    next_view: AtomicU32,
}

impl Core {
    /// Over an open store.
    pub fn new(store: Arc<Store>) -> Arc<Core> {
        let pending = Mutex::new(Pending::of(store.recovered()));
        let core = Arc::new(Core {
            pending,
            storer: Storer::new(),
            finisher: Finisher::default(),
            under_way: UnderWay::default(),
            started: Timestamp::now(),
            outside: Outside::default(),
            store,
            files: FileTable::default(),
            tree: RwLock::new(()),
            actors: Actors::default(),
            lost: super::lost::Lost::default(),
            filesystems: Mutex::new(Vec::new()),
            views: Mutex::new(Vec::new()),
            next_view: AtomicU32::new(1),
        });
        core.storer.start(&core);
        core.finisher.start(&core);
        core
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The views that live.
    pub fn views(&self) -> Vec<Arc<View>> {
        self.views.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Brings the log up to date: with what was changed beside us, and with what open files hold.
    pub(super) fn record_all_so_far(&self) -> Result<()> {
        self.catch_up();
        self.views().iter().try_for_each(|view| view.seal_open())
    }

    /// Stops the background work, after what waits is stored.
    pub fn shutdown(&self) {
        self.outside.stop();
        self.storer.stop();
        self.finisher.stop();
    }

    pub(super) fn next_view(&self) -> u32 {
        self.next_view.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn register(&self, view: &Arc<View>) {
        let mut views = self.views.lock();
        views.retain(|view| view.strong_count() > 0);
        views.push(Arc::downgrade(view));
    }

    pub(super) fn open_root(&self, path: &Path) -> Result<(Arc<Fs>, HostRef)> {
        let mut known = self.filesystems.lock();
        let (fs, root) = Fs::open_root(path, &known)?;
        if !known.iter().any(|other| Arc::ptr_eq(other, &fs)) {
            known.push(Arc::clone(&fs));
        }
        Ok((fs, root))
    }

    /// True if files of `fs` can be linked and renamed into the store: same device, same mount.
    pub(super) fn shares_mount(&self, fs: &Fs) -> Result<bool> {
        let (dev, mount) = host::place(self.store.aside_dir())?;
        Ok(dev == fs.dev() && mount == fs.mount_id())
    }

    pub(super) fn can_reflink(&self) -> bool {
        host::probe_reflink(self.store.tmp_dir()).unwrap_or(false)
    }

    /// The directories of the store that no view shows.
    pub(super) fn store_inodes(&self) -> Result<HashSet<(u64, u64)>> {
        let (_, root) = Fs::open_root(self.store.path(), &self.filesystems.lock())?;
        let attr = root.attr()?;
        Ok(HashSet::from([(attr.dev, attr.ino)]))
    }

    /// An empty directory of our own that stands for the root of a view of several sources.
    pub(super) fn placeholder(&self, view: &str) -> Result<Arc<HostRef>> {
        let (_, tmp) = self.open_root(&self.store.path().join("tmp"))?;
        let name = EntryName::new(format!("root-{view}").as_bytes())
            .map_err(|e| super::ViewError::InvalidArgument(format!("view name {view:?}: {e}")))?;
        let dir = tmp.path_fd()?;
        match host::make_dir(dir.as_fd(), &name, 0o555) {
            Ok(()) | Err(host::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let (root, _) = tmp.fs().adopt(host::open_child(dir.as_fd(), &name)?)?;
        root.pin()?;
        Ok(Arc::new(root))
    }
}
