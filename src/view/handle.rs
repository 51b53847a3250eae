//! Open files: what the kernel holds between OPEN and RELEASE, and the data that comes past us.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use rustix::fs::OFlags;

use super::{
    Entry, Result, View, ViewError, core::WHOLE_COPY_MAX, names::Made, node::Node, plan::new_state, record::changed,
};
use crate::{
    crash_point,
    host::{self, AllocateMode, Errno, Whence},
    types::{Attr, Caller, EntryName, Ino, Kind},
    versions::{ChangeKind, Content, OpKind},
};

/// A handle's number; 0 stands for "none": readers past us need none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fh(pub u64);

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Each write goes to the end.
    pub append: bool,
    /// Its content goes at the open.
    pub truncate: bool,
}

/// The way of the data of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// The kernel reads and writes the host's file itself.
    Passthrough,
    /// Reads and mappings go past us; each write comes through us.
    PassthroughWritesSeen,
    /// All comes through us, with the page cache.
    Through,
}

/// A file that was opened.
pub struct Opened {
    /// Its handle.
    pub fh: Fh,
    /// The way of its data.
    pub mode: OpenMode,
    /// The host's inode, for the kernel to open itself (O_PATH).
    pub backing: Arc<OwnedFd>,
    /// The node.
    pub ino: Ino,
}

/// An open file of ours.
pub(crate) struct Handle {
    node: Arc<Node>,
    fd: OwnedFd,
    access: Access,
}

impl Handle {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn writes(&self) -> bool {
        self.access.write
    }
}

/// All open handles of a view.
#[derive(Default)]
pub(crate) struct HandleTable {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<Handle>>>,
}

impl HandleTable {
    pub fn get(&self, fh: Fh) -> Option<Arc<Handle>> {
        self.open.read().get(&fh.0).cloned()
    }

    fn reserve(&self) -> Fh {
        Fh(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn put(&self, fh: Fh, handle: Handle) {
        self.open.write().insert(fh.0, Arc::new(handle));
    }

    fn take(&self, fh: Fh) -> Option<Arc<Handle>> {
        self.open.write().remove(&fh.0)
    }

    /// Is any of them open for writing?
    pub fn any_writes(&self) -> bool {
        self.open.read().values().any(|handle| handle.writes())
    }

    fn all(&self) -> Vec<Fh> {
        self.open.read().keys().map(|fh| Fh(*fh)).collect()
    }
}

impl Access {
    /// The permissions that it takes.
    fn wanted(self) -> rustix::fs::Access {
        let mut wanted = rustix::fs::Access::empty();
        wanted.set(rustix::fs::Access::READ_OK, self.read);
        wanted.set(rustix::fs::Access::WRITE_OK, self.write || self.truncate);
        wanted
    }

    fn flags(self) -> OFlags {
        let mut flags = match (self.read, self.write) {
            (_, false) => OFlags::RDONLY,
            // Old content is read through it when it must be kept.
            (_, true) => OFlags::RDWR,
        };
        if self.append {
            flags |= OFlags::APPEND;
        }
        flags
    }
}

impl View {
    /// Opened files go past us where they can.
    pub fn passes(&self) -> bool {
        self.passthrough.load(Ordering::Relaxed)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `ReadOnly`; EISDIR; the host's; the store's, when the old content cannot be kept.
    pub fn open(&self, caller: &Caller, ino: Ino, access: Access) -> Result<Opened> {
        let opened = self.open_now(caller, ino, access);
        match &opened {
            Ok(_) => self.core.lost.found(caller.pid),
            Err(ViewError::Host(Errno::STALE)) => self.core.lost.let_finish(),
            Err(_) => {}
        }
        opened
    }

    fn open_now(&self, caller: &Caller, ino: Ino, access: Access) -> Result<Opened> {
        let node = self.node(ino)?;
        match node.file.kind {
            Kind::File => {}
            Kind::Dir => return Err(ViewError::IsADirectory(node.path().unwrap_or_default())),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                return Err(Errno::NXIO.into());
            }
        }
        self.visible(&node)?;
        self.check_acl(caller, &node, access.wanted())?;
        if node.file.was_replaced() {
            // The kernel walks the path once more, and finds the new inode.
            self.lost_its_way(caller);
            return Err(Errno::STALE.into());
        }
        if !access.write && !access.truncate {
            let backing = node.file.host.path_fd()?;
            if self.passes() {
                return Ok(Opened { fh: Fh(0), mode: OpenMode::Passthrough, backing, ino });
            }
            let fd = node.file.host.open(access.flags())?;
            let fh = self.handles.reserve();
            self.handles.put(fh, Handle { node, fd, access });
            return Ok(Opened { fh, mode: OpenMode::Through, backing, ino });
        }
        let _tree = self.core.tree.read();
        self.writable(&node)?;
        let access = Access { write: true, ..access };
        let backing = node.file.host.path_fd()?;
        let fd = node.file.host.open(access.flags())?;
        let fh = self.handles.reserve();
        let mut state = node.file.state.lock();
        if node.file.was_replaced() {
            self.lost_its_way(caller);
            return Err(Errno::STALE.into());
        }
        let state = &mut *state;
        let mode = if self.is_nudger(caller) {
            self.mode_of(&node, None)
        } else {
            self.open_writer(caller, &node, state, fh, access, &fd)?
        };
        node.file.host.pin()?;
        self.handles.put(fh, Handle { node: Arc::clone(&node), fd, access });
        Ok(Opened { fh, mode, backing, ino })
    }

    /// Somebody opens a file that a tool has just replaced: he gets a moment to open the new one. The nudger does not need it,
    /// for it comes again for the change that was quicker.
    fn lost_its_way(&self, caller: &Caller) {
        if !self.is_nudger(caller) {
            self.core.lost.note(caller.pid);
        }
    }

    fn open_writer(
        &self,
        caller: &Caller,
        node: &Arc<Node>,
        state: &mut super::file::FileState,
        fh: Fh,
        access: Access,
        fd: &OwnedFd,
    ) -> Result<OpenMode> {
        let attr = node.file.host.attr()?;
        let reflink = self.recording_place(node).is_some_and(|place| place.source.reflink);
        let large = attr.size > WHOLE_COPY_MAX && !reflink && !node.class.unversioned;
        // What goes past us loses its setuid bits at the first write, which root's own writes must not.
        let keeps_suid = caller.uid == 0 && attr.mode & 0o6000 != 0;
        let seen = self.passes() && (large || keeps_suid);
        let mode = self.mode_of(node, Some(seen));
        let keep_now = access.truncate || mode == OpenMode::Passthrough;
        self.begin(node, state, fh, self.actor(caller), keep_now)?;
        if access.truncate {
            let _no_fsetid = (caller.uid != 0).then(host::without_fsetid);
            if let Err(error) = host::truncate(fd.as_fd(), 0) {
                self.end(node, state, fh)?;
                return Err(error.into());
            }
            crash_point!("truncated-at-open");
        }
        Ok(mode)
    }

    fn mode_of(&self, _node: &Node, writes_seen: Option<bool>) -> OpenMode {
        match (self.passes(), writes_seen) {
            (false, _) => OpenMode::Through,
            (true, Some(true)) => OpenMode::PassthroughWritesSeen,
            (true, Some(false) | None) => OpenMode::Passthrough,
        }
    }

    /// Creates a file and opens it; opens it if it is there, unless `exclusive`.
    ///
    /// # Errors
    /// `CreateDenied`, `ReadOnly`, EEXIST; the host's; the store's.
    pub fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &EntryName,
        mode: u32,
        access: Access,
        exclusive: bool,
    ) -> Result<(Entry, Opened)> {
        let parent_node = self.node(parent)?;
        match self.create_new(caller, &parent_node, name, mode, access) {
            Err(ViewError::Host(Errno::EXIST)) if !exclusive => {
                let entry = self.lookup(parent, name)?;
                match self.open(caller, entry.node.ino, access) {
                    Ok(opened) => Ok((entry, opened)),
                    Err(error) => {
                        self.forget(entry.node.ino, 1);
                        Err(error)
                    }
                }
            }
            other => other,
        }
    }

    fn create_new(
        &self,
        caller: &Caller,
        parent: &Arc<Node>,
        name: &EntryName,
        mode: u32,
        access: Access,
    ) -> Result<(Entry, Opened)> {
        let _tree = self.core.tree.read();
        let actor = self.actor(caller);
        let planned = new_state(Kind::File, mode & 0o7777, (caller.uid, caller.gid), 0, Content::Live(None));
        let mut created = None;
        let Made { node, attr, names: _names, announced, .. } =
            self.make(caller, &actor, parent, name, planned, |dir| {
                created = Some(host::create_file(dir, name, mode & 0o7777)?);
                Ok(())
            })?;
        let mut state = node.file.state.lock();
        let state = &mut *state;
        let access = Access { truncate: false, ..access };
        let fd = match created {
            // Whoever makes a file may write to it, even if its mode lets nobody open it again.
            Some(fd) if access.write => {
                if access.append {
                    host::set_append(fd.as_fd())?;
                }
                fd
            }
            created => match (node.file.host.open(access.flags()), created) {
                (Err(Errno::ACCESS), Some(fd)) => fd,
                (opened, _) => opened?,
            },
        };
        let fh = self.handles.reserve();
        if let Some((op, place)) = announced {
            let change = self.change(&place, &node, state, changed(ChangeKind::Create, None, Some(attr)))?;
            self.append(op, OpKind::Create, &actor, vec![change])?;
            crash_point!("creation-recorded");
            (state.last_op, state.born) = (op, Some((op, actor.clone())));
            if access.write {
                self.begin_created(&node, state, op, place, attr, fh, actor)?;
            }
        }
        if access.write {
            node.file.host.pin()?;
        }
        self.nodes.hold(&node);
        let entry = Entry { node: self.show(&node, attr) };
        let backing = node.file.host.path_fd()?;
        let ino = node.ino;
        let mode = self.mode_of(&node, Some(false));
        if !access.write && self.passes() {
            return Ok((entry, Opened { fh: Fh(0), mode, backing, ino }));
        }
        self.handles.put(fh, Handle { node: Arc::clone(&node), fd, access });
        Ok((entry, Opened { fh, mode, backing, ino }))
    }

    /// Some descriptor for I/O: the handle's, or one opened for this call (readers past us have none).
    fn with_fd<T>(
        &self,
        ino: Ino,
        fh: Fh,
        flags: OFlags,
        io: impl FnOnce(BorrowedFd<'_>) -> host::Result<T>,
    ) -> Result<T> {
        if let Some(handle) = self.handles.get(fh) {
            return Ok(io(handle.fd())?);
        }
        let fd = self.node(ino)?.file.host.open(flags)?;
        Ok(io(fd.as_fd())?)
    }

    /// Reads up to `size` bytes.
    ///
    /// # Errors
    /// The host's.
    pub fn read(&self, ino: Ino, fh: Fh, offset: u64, size: usize) -> Result<Vec<u8>> {
        let mut buf = vec![0; size];
        let got = self.with_fd(ino, fh, OFlags::RDONLY, |fd| host::read_exact_at(fd, &mut buf, offset))?;
        buf.truncate(got);
        Ok(buf)
    }

    /// Writes; the old content is kept first.
    ///
    /// # Errors
    /// EBADF without a handle open for writing; the host's; the store's.
    pub fn write(&self, ino: Ino, fh: Fh, offset: u64, data: &[u8], kill_suid: bool) -> Result<usize> {
        let handle = self.writer(ino, fh)?;
        self.about_to_write(&handle.node)?;
        let _no_fsetid = kill_suid.then(host::without_fsetid);
        crash_point!("write-let-through");
        let written = host::write_at(handle.fd(), data, offset)?;
        crash_point!("written");
        Ok(written)
    }

    fn writer(&self, _ino: Ino, fh: Fh) -> Result<Arc<Handle>> {
        self.handles.get(fh).filter(|handle| handle.writes()).ok_or(ViewError::Host(Errno::BADF))
    }

    fn about_to_write(&self, node: &Arc<Node>) -> Result<()> {
        self.writable(node)?;
        let mut state = node.file.state.lock();
        if state.session.as_ref().is_some_and(|session| !session.kept) {
            let attr = node.file.host.attr()?;
            self.keep_session(node, &mut state, &attr)?;
        }
        Ok(())
    }

    /// `close(2)` of one descriptor: what changed is recorded when this returns.
    ///
    /// # Errors
    /// The store's.
    pub fn flush(&self, fh: Fh) -> Result<()> {
        let Some(handle) = self.handles.get(fh).filter(|handle| handle.writes()) else { return Ok(()) };
        let _tree = self.core.tree.read();
        let mut state = handle.node.file.state.lock();
        let by = state.session.as_ref().and_then(|session| {
            session.writers.iter().find(|(writer, _)| *writer == fh).map(|(_, actor)| actor.clone())
        });
        match by {
            Some(by) => self.seal(&handle.node, &mut state, &by),
            None => Ok(()),
        }
    }

    /// The kernel is done with a handle.
    ///
    /// # Errors
    /// The store's; nobody waits for the answer.
    pub fn release(&self, fh: Fh) -> Result<()> {
        let Some(handle) = self.handles.take(fh) else { return Ok(()) };
        if !handle.writes() {
            return Ok(());
        }
        let _tree = self.core.tree.read();
        let mut state = handle.node.file.state.lock();
        let ended = self.end(&handle.node, &mut state, fh);
        if state.session.is_none() && handle.node.file.host.attr().is_ok_and(|attr| handle.node.file.links(&attr) > 0) {
            handle.node.file.host.unpin();
        }
        ended
    }

    /// Records what every open handle wrote so far, so that a question to the past or a revert sees it.
    ///
    /// # Errors
    /// The store's.
    pub fn seal_open(&self) -> Result<()> {
        for fh in self.handles.all() {
            self.flush(fh)?;
        }
        Ok(())
    }

    /// Seals and closes every open handle, at the end of a view.
    ///
    /// # Errors
    /// The first of the store's; the others are still tried.
    pub fn release_all(&self) -> Result<()> {
        let mut all = Ok(());
        for fh in self.handles.all() {
            all = all.and(self.release(fh));
        }
        all
    }

    /// `fsync`: the file, and the history that takes its change back.
    ///
    /// # Errors
    /// The host's; the store's.
    pub fn fsync(&self, ino: Ino, fh: Fh, data_only: bool) -> Result<()> {
        self.with_fd(ino, fh, OFlags::RDONLY, |fd| host::fsync(fd, data_only))?;
        self.core.store.sync_all()?;
        Ok(())
    }

    /// `fallocate`.
    ///
    /// # Errors
    /// As `write`; EOPNOTSUPP.
    pub fn fallocate(
        &self,
        caller: &Caller,
        ino: Ino,
        fh: Fh,
        mode: AllocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let handle = self.writer(ino, fh)?;
        self.about_to_write(&handle.node)?;
        // The kernel does not say whether setuid bits shall go.
        let _no_fsetid = (caller.uid != 0).then(host::without_fsetid);
        Ok(host::fallocate(handle.fd(), mode, offset, len)?)
    }

    /// `copy_file_range` between two open files of this view.
    ///
    /// # Errors
    /// As `write`.
    pub fn copy_range(&self, caller: &Caller, from: (Ino, Fh, u64), to: (Ino, Fh, u64), len: u64) -> Result<u64> {
        let target = self.writer(to.0, to.1)?;
        self.about_to_write(&target.node)?;
        let _no_fsetid = (caller.uid != 0).then(host::without_fsetid);
        self.with_fd(from.0, from.1, OFlags::RDONLY, |fd| host::copy_range(fd, from.2, target.fd(), to.2, len))
    }

    /// SEEK_DATA and SEEK_HOLE.
    ///
    /// # Errors
    /// ENXIO past the end; the host's.
    pub fn lseek(&self, ino: Ino, offset: u64, whence: Whence) -> Result<u64> {
        // A private description: the offset of a shared one would move under other threads.
        let fd = self.node(ino)?.file.host.open(OFlags::RDONLY)?;
        Ok(host::lseek(fd.as_fd(), offset, whence)?)
    }

    /// `fsync` of a directory.
    ///
    /// # Errors
    /// The host's; the store's.
    pub fn fsync_dir(&self, ino: Ino, data_only: bool) -> Result<()> {
        let fd = self.node(ino)?.file.host.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        host::fsync(fd.as_fd(), data_only)?;
        self.core.store.sync_all()?;
        Ok(())
    }

    /// Attributes of a node that was just made, and its file's lock held elsewhere.
    pub(crate) fn entry(&self, node: &Arc<Node>, attr: Attr) -> Entry {
        self.nodes.hold(node);
        Entry { node: self.show(node, attr) }
    }
}
