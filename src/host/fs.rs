//! One served file system: how its inodes are named by handle, opened again, and kept within the descriptor limit.

use std::{
    hash::{Hash, Hasher},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FsWord, Mode, OFlags, Statx, StatxFlags, fcntl_getfl, fcntl_setfl, fstatfs, fstatvfs, openat,
    readlink, statx,
};

use super::{
    Errno, Result,
    cache::{FdCache, Slot, with_room},
    creds, meta, sys,
};
use crate::types::{Attr, EntryName, Kind};

/// Where there is no handle, the key's bytes begin with this instead of a handle type.
const NO_HANDLE: [u8; 4] = [0xff; 4];

/// What a caller cannot ask of an open: the file is there already, buffers are not aligned, and O_NOATIME is the owner's.
const STRIPPED: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::DIRECT)
    .union(OFlags::NOATIME)
    .union(OFlags::PATH)
    .union(OFlags::TMPFILE.difference(OFlags::DIRECTORY));

/// An inode's identity on one file system for as long as it exists: the kernel's file handle (with generation)
/// where the file system gives one, else inode number and birth time.
///
/// Two keys are the same if file system and handle are: the handle says which inode it is.
#[derive(Clone, Debug)]
pub struct FileKey {
    /// Which served file system, by order of opening in this process.
    pub fs: u32,
    /// The host's inode number; 0 in a key that was made of a handle alone.
    pub ino: u64,
    /// `handle_type` (4 bytes, little endian) and the handle's bytes; where there is none, four bytes 255, inode
    /// number and birth time.
    pub handle: Box<[u8]>,
}

impl PartialEq for FileKey {
    fn eq(&self, other: &Self) -> bool {
        (self.fs, &self.handle) == (other.fs, &other.handle)
    }
}

impl Eq for FileKey {}

impl Hash for FileKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fs.hash(state);
        self.handle.hash(state);
    }
}

/// What one file system can do, probed at opening.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsCaps {
    /// `open_by_handle_at` works here and for us.
    pub handles: bool,
    /// FICLONE works (probed by the version store, false until then).
    pub reflink: bool,
    /// Name of its type as in `/proc/self/mountinfo` (`ext4`, `xfs`, `btrfs`, `tmpfs`, `overlay`, `fuse.…`).
    pub fs_type: String,
}

/// One served file system (a mount of it), shared by all sources on it.
pub struct Fs {
    id: u32,
    dev: u64,
    mount_id: u64,
    /// `f_fsid`.
    fsid: [u8; 8],
    /// The same, or another id where that one is only the number of a device.
    lasting: [u8; 8],
    /// Handles are opened relative to it; it keeps the mount, so that its id stays ours.
    mount: OwnedFd,
    caps: FsCaps,
    cache: &'static FdCache,
    /// A [`super::Watch`] tells of its changes.
    watched: AtomicBool,
}

/// One inode: reopened when needed, by its handle or by a name under which it was reached, or pinned by a descriptor.
///
/// Where it can be opened by neither (handles do not work, nobody called [`HostRef::reached`] or the file system knows no
/// birth time that tells a number used again) it pins a descriptor for its whole life: nothing can give way, and `adopt`
/// answers EMFILE at the limit less 1,024.
///
/// A cached descriptor keeps a file alive that others remove on the host, until it gives way or [`HostRef::attr`] sees
/// that the last link is gone.
pub struct HostRef {
    fs: Arc<Fs>,
    key: FileKey,
    kind: Kind,
    again: Again,
    slot: Arc<Slot>,
}

/// How an inode is opened once more.
enum Again {
    ByHandle,
    /// By the latest of these names that still leads to it (an unprivileged daemon may not open by handle).
    ByName(Mutex<Vec<(Arc<HostRef>, EntryName)>>),
    Never,
}

/// Names of one inode that are remembered to open it again.
const MOST_NAMES: usize = 8;

impl Fs {
    /// Opens the directory at `path` (symlinks followed: the human named it) as a source's root: its file system (the
    /// one in `known` with the same mount, else a new one) and a pinned reference to the directory.
    ///
    /// # Errors
    /// The host's; ENOTDIR if it is no directory.
    pub fn open_root(path: &Path, known: &[Arc<Fs>]) -> Result<(Arc<Fs>, HostRef)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::adopt_root(with_room(|| openat(CWD, path, flags, Mode::empty()))?, known)
    }

    /// As [`Fs::open_root`], of a directory that is open already (O_PATH is enough).
    ///
    /// # Errors
    /// The host's; ENOTDIR if it is no directory.
    pub fn adopt_root(dir: OwnedFd, known: &[Arc<Fs>]) -> Result<(Arc<Fs>, HostRef)> {
        Self::root_with(dir, known, FdCache::of_process())
    }

    fn root_with(dir: OwnedFd, known: &[Arc<Fs>], cache: &'static FdCache) -> Result<(Arc<Fs>, HostRef)> {
        let found = stat_mount(dir.as_fd())?;
        let fs = match known.iter().find(|fs| fs.mount_id == found.stx_mnt_id) {
            Some(fs) => Arc::clone(fs),
            None => Arc::new(Self::new(dir.as_fd(), &found, cache)?),
        };
        let (root, attr) = fs.adopt(dir)?;
        if attr.kind != Kind::Dir {
            return Err(Errno::NOTDIR);
        }
        root.pin()?;
        Ok((fs, root))
    }

    fn new(dir: BorrowedFd<'_>, found: &Statx, cache: &'static FdCache) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A directory that we may pass through but not read has no handles for us; O_PATH keeps the mount all the same.
        let open = |flags| with_room(|| openat(dir, c".", flags | OFlags::CLOEXEC, Mode::empty()));
        let mount = open(OFlags::RDONLY | OFlags::DIRECTORY).or_else(|_| open(OFlags::PATH))?;
        let handles = sys::name_to_handle(dir)
            .and_then(|handle| sys::open_by_handle(mount.as_fd(), &handle, OFlags::PATH))
            .and_then(|again| meta::stat(again.as_fd()))
            .is_ok_and(|again| again.ino == found.stx_ino);
        let fsid = fstatvfs(&mount)?.f_fsid;
        Ok(Fs {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            mount_id: found.stx_mnt_id,
            fsid: fsid.to_le_bytes(),
            lasting: lasting_id(mount.as_fd(), (found.stx_dev_major, found.stx_dev_minor), fsid),
            mount,
            caps: FsCaps { handles, reflink: false, fs_type: type_of_mount(found.stx_mnt_id, dir)? },
            cache,
            watched: AtomicBool::new(false),
        })
    }

    /// Process-wide number, the `fs` of every key on it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// `st_dev` of the file system.
    pub fn dev(&self) -> u64 {
        self.dev
    }

    /// The kernel's number of the mount (`stx_mnt_id`, as in `/proc/self/mountinfo`); not reused while this `Fs` lives.
    pub fn mount_id(&self) -> u64 {
        self.mount_id
    }

    /// What it can do.
    pub fn caps(&self) -> &FsCaps {
        &self.caps
    }

    /// The file system's own id, as events name it.
    pub fn fsid(&self) -> [u8; 8] {
        self.fsid
    }

    /// True while a [`super::Watch`] tells of every change here, whoever makes it.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    pub(super) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Release);
    }

    pub(super) fn mount_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }

    /// The key of an inode that an event names by its handle.
    pub fn key_of(&self, handle: &[u8]) -> FileKey {
        FileKey { fs: self.id, ino: 0, handle: handle.into() }
    }

    /// The path by which the kernel shows a directory at this moment, from the root of its mount on: a hint, to be looked up
    /// anew from a source's root.
    ///
    /// # Errors
    /// ESTALE if it is gone; the host's.
    pub fn path_hint(&self, handle: &[u8]) -> Result<Vec<u8>> {
        let fd = with_room(|| sys::open_by_handle(self.mount.as_fd(), handle, OFlags::PATH | OFlags::DIRECTORY))?;
        path_hint(fd.as_fd())
    }

    /// A reference to the inode behind `fd` (an O_PATH or other descriptor on this file system), and its attributes.
    /// Takes the descriptor: it goes into the cache, or is pinned where handles do not work.
    ///
    /// # Errors
    /// EXDEV if it lies on another mount (nested mounts are not served); EMFILE if it must be pinned and pinned
    /// descriptors use up the limit; the host's.
    pub fn adopt(self: &Arc<Self>, fd: OwnedFd) -> Result<(HostRef, Attr)> {
        let found = stat_mount(fd.as_fd())?;
        if found.stx_mnt_id != self.mount_id {
            return Err(Errno::XDEV);
        }
        let attr = meta::attr_of(&found)?;
        let (handle, again) = match sys::name_to_handle(fd.as_fd()) {
            Ok(handle) if self.caps.handles => (Some(handle), Again::ByHandle),
            Ok(handle) => (Some(handle), Again::ByName(Mutex::default())),
            // Whole file systems have none, and single inodes: overlayfs does so with directories that it cannot find again.
            Err(Errno::OPNOTSUPP | Errno::OVERFLOW) if attr.btime.is_some() => (None, Again::ByName(Mutex::default())),
            Err(Errno::OPNOTSUPP | Errno::OVERFLOW) => (None, Again::Never),
            Err(error) => return Err(error),
        };
        let key = FileKey { fs: self.id, ino: attr.ino, handle: handle.unwrap_or_else(|| key_without_handle(&attr)) };
        // A descriptor for I/O in the cache would hold write access.
        let is_path = fcntl_getfl(&fd)?.contains(OFlags::PATH);
        let slot = match (&again, is_path) {
            (Again::ByHandle, _) => self.cache.slot(is_path.then_some(fd)),
            (Again::ByName(_) | Again::Never, true) => self.cache.forced(fd)?,
            (Again::ByName(_) | Again::Never, false) => self.cache.forced(reopen(fd.as_fd(), OFlags::PATH)?)?,
        };
        Ok((HostRef { fs: Arc::clone(self), key, kind: attr.kind, again, slot }, attr))
    }

    /// The inode of a [`HostRef::stable_key`], if it still exists.
    ///
    /// # Errors
    /// ESTALE if it is gone, lies on another file system, or has no handle; the host's.
    pub fn open_stable(self: &Arc<Self>, key: &[u8]) -> Result<HostRef> {
        let (fsid, handle) = key.split_first_chunk::<8>().ok_or(Errno::STALE)?;
        if *fsid != self.lasting || !self.caps.handles || handle.starts_with(&NO_HANDLE) {
            return Err(Errno::STALE);
        }
        let fd = with_room(|| sys::open_by_handle(self.mount.as_fd(), handle, OFlags::PATH | OFlags::NOFOLLOW))?;
        Ok(self.adopt(fd)?.0)
    }
}

impl HostRef {
    /// Its identity.
    pub fn key(&self) -> &FileKey {
        &self.key
    }

    /// Its identity over restarts: 8 bytes for the file system (`f_fsid`, or its UUID where that is the device's number) and
    /// the key's handle.
    pub fn stable_key(&self) -> Box<[u8]> {
        [&self.fs.lasting[..], &self.key.handle].concat().into()
    }

    /// The path by which the kernel shows it at this moment: a hint.
    ///
    /// # Errors
    /// ESTALE if it is gone; the host's.
    pub fn path_hint(&self) -> Result<Vec<u8>> {
        path_hint(self.path_fd()?.as_fd())
    }

    /// Its file system.
    pub fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// Its type; an inode never changes it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// An O_PATH descriptor of it, from the cache or by handle; also while the thread acts as a caller.
    ///
    /// # Errors
    /// ESTALE once the inode is gone; EMFILE never as long as a cached descriptor can give way.
    pub fn path_fd(&self) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = self.slot.get() {
            return Ok(fd);
        }
        let fd = match &self.again {
            Again::ByHandle => creds::with_read_search(|| self.open_by_handle(OFlags::PATH | OFlags::NOFOLLOW))?,
            Again::ByName(names) => self.open_by_name(names)?,
            // Its descriptor never goes.
            Again::Never => return Err(Errno::STALE),
        };
        Ok(self.slot.fill(fd))
    }

    /// It was found under this name: where handles do not work it is opened by it again, so that its descriptor can give
    /// way.
    pub fn reached(&self, dir: &Arc<HostRef>, name: &EntryName) {
        let Again::ByName(names) = &self.again else { return };
        let mut names = names.lock();
        if names.last().is_some_and(|(last, known)| Arc::ptr_eq(last, dir) && known == name) {
            return;
        }
        // A directory has no other.
        names.retain(|(other, known)| self.kind != Kind::Dir && !(Arc::ptr_eq(other, dir) && known == name));
        if names.len() == MOST_NAMES {
            names.remove(0);
        }
        names.push((Arc::clone(dir), name.clone()));
        drop(names);
        self.slot.ease();
    }

    fn open_by_name(&self, names: &Mutex<Vec<(Arc<HostRef>, EntryName)>>) -> Result<OwnedFd> {
        let names = names.lock().clone();
        for (dir, name) in names.iter().rev() {
            match Self::dir_fd(dir).and_then(|dir| self.open_as(&dir, name)) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::XDEV) => {}
                done => return done,
            }
        }
        Err(Errno::STALE)
    }

    /// `path_fd` of a directory; a loop, since a tree may be deeper than the stack.
    fn dir_fd(dir: &Arc<HostRef>) -> Result<Arc<OwnedFd>> {
        let mut missing = Vec::new();
        let mut top = Arc::clone(dir);
        let mut fd = loop {
            if let Some(fd) = top.slot.get() {
                break fd;
            }
            let Again::ByName(names) = &top.again else { break top.path_fd()? };
            let (above, name) = names.lock().last().cloned().ok_or(Errno::STALE)?;
            missing.push((top, name));
            top = above;
        };
        while let Some((dir, name)) = missing.pop() {
            fd = dir.slot.fill(dir.open_as(&fd, &name)?);
        }
        Ok(fd)
    }

    /// Opens it under a name; ESTALE if something else stands there by now.
    fn open_as(&self, dir: &OwnedFd, name: &EntryName) -> Result<OwnedFd> {
        let fd = super::open_child(dir.as_fd(), name)?;
        if self.is(fd.as_fd())? { Ok(fd) } else { Err(Errno::STALE) }
    }

    /// `fd` leads to the same inode.
    fn is(&self, fd: BorrowedFd<'_>) -> Result<bool> {
        let found = stat_mount(fd)?;
        if found.stx_mnt_id != self.fs.mount_id || found.stx_ino != self.key.ino {
            return Ok(false);
        }
        Ok(if self.key.handle.starts_with(&NO_HANDLE) {
            key_without_handle(&meta::attr_of(&found)?) == self.key.handle
        } else {
            sys::name_to_handle(fd)? == self.key.handle
        })
    }

    /// Opens it for I/O. Only regular files and directories are ever opened; other kinds answer ENXIO. O_CLOEXEC,
    /// O_NOFOLLOW and O_NONBLOCK-for-the-open are added; O_CREAT, O_EXCL, O_DIRECT and O_NOATIME are stripped.
    /// While the thread acts as a caller, the caller's permissions decide.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        match self.kind {
            Kind::File | Kind::Dir => {}
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                return Err(Errno::NXIO);
            }
        }
        let wanted = flags - STRIPPED;
        let flags = wanted | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Opening by handle passes by the permissions to read and to search.
        let fd = if matches!(self.again, Again::ByHandle) && !creds::acting() {
            self.open_by_handle(flags | OFlags::NOFOLLOW)?
        } else {
            reopen(self.path_fd()?.as_fd(), flags - OFlags::NOFOLLOW)?
        };
        fcntl_setfl(&fd, wanted - OFlags::NONBLOCK)?;
        Ok(fd)
    }

    /// Keeps a descriptor for as long as the `HostRef` lives (open files, unlinked files). Idempotent.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn pin(&self) -> Result<()> {
        if self.slot.pin() {
            return Ok(());
        }
        self.path_fd().map(drop).inspect_err(|_| self.slot.unpin())
    }

    /// Lets a pinned descriptor go back to the cache, where handles work.
    pub fn unpin(&self) {
        self.slot.unpin();
    }

    /// `statx` of it. If its last link is gone and it is not pinned, the cached descriptor is let go.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn attr(&self) -> Result<Attr> {
        let attr = meta::stat(self.path_fd()?.as_fd())?;
        if attr.nlink == 0 {
            self.slot.release();
        }
        Ok(attr)
    }

    #[cfg(test)]
    pub(super) fn forget_descriptor(&self) {
        self.slot.release();
    }

    fn open_by_handle(&self, flags: OFlags) -> Result<OwnedFd> {
        with_room(|| sys::open_by_handle(self.fs.mount.as_fd(), &self.key.handle, flags))
    }
}

/// Opens the inode behind a descriptor again, with the thread's permissions; never a symlink's target, since the link
/// in `/proc` leads to the inode itself.
fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    let path = meta::proc_path(fd.as_raw_fd());
    with_room(|| openat(CWD, &path, flags | OFlags::CLOEXEC, Mode::empty()))
}

fn path_hint(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    Ok(readlink(meta::proc_path(fd.as_raw_fd()), Vec::new())?.into_bytes())
}

fn stat_mount(fd: BorrowedFd<'_>) -> Result<Statx> {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID)
}

/// What a file system is known by after the machine was started anew, when its device may have another number: XFS has that
/// number for its id. Both halves of its UUID take its place, where the kernel tells it.
fn lasting_id(mount: BorrowedFd<'_>, (major, minor): (u32, u32), fsid: u64) -> [u8; 8] {
    let (major, minor) = (u64::from(major), u64::from(minor));
    let number = minor & 0xff | major << 8 | (minor & !0xff) << 12;
    match sys::uuid(mount) {
        Ok(uuid) if fsid == number => std::array::from_fn(|at| uuid[at] ^ uuid[at + 8]),
        Ok(_) | Err(_) => fsid.to_le_bytes(),
    }
}

fn key_without_handle(attr: &Attr) -> Box<[u8]> {
    let birth = attr.btime.unwrap_or_default();
    [&NO_HANDLE[..], &attr.ino.to_le_bytes(), &birth.secs.to_le_bytes(), &birth.nanos.to_le_bytes()].concat().into()
}

/// What mountinfo says; what the file system itself says where the mount is not listed (below a changed root); else empty.
fn type_of_mount(id: u64, dir: BorrowedFd<'_>) -> Result<String> {
    let mounts = std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    match parse_mount_type(&String::from_utf8_lossy(&mounts), id) {
        Some(listed) => Ok(listed),
        None => Ok(type_of(dir)?.to_owned()),
    }
}

/// The type of the file system that holds a file, if it is one of those whose kinds of service differ; else empty.
///
/// # Errors
/// The host's.
pub fn type_of(file: BorrowedFd<'_>) -> Result<&'static str> {
    Ok(type_of_magic(fstatfs(file)?.f_type))
}

/// The types whose kinds of service differ, by statfs(2)'s number.
fn type_of_magic(magic: FsWord) -> &'static str {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x6573_5546 => "fuse",
        0x6969 => "nfs",
        _ => "",
    }
}

fn parse_mount_type(mountinfo: &str, id: u64) -> Option<String> {
    let line = mountinfo.lines().find(|line| line.split(' ').next().and_then(|n| n.parse().ok()) == Some(id))?;
    Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned())
}

#[cfg(test)]
mod tests;
