//! FUSE requests, one by one: arguments in, a call of the room, the answer out. A panic in one answers EIO and no more.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fuser::{
    AccessFlags, CopyFileRangeFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::{Condvar, Mutex};

use super::{
    backings::Backings,
    convert::{access, caller, dots, file_attr, file_type, long_rdev, name, nothing, past_dots, set_time, sized},
    errno::errno_of,
};
use crate::{
    host::{AllocateMode, RenameMode, Whence, XattrMode},
    types::Ino,
    view::{Entry, Fh, NodeAttr, NodeSpec, OpenMode, Opened, SetAttr, View, ViewError},
};

/// Copies and reads are answered in pieces below what a reply can count.
const LENGTH_MAX: u64 = (1 << 32) - (1 << 16);

/// The kernel's door to a view.
pub(super) struct Door {
    view: Arc<View>,
    ttl: Duration,
    privileged: bool,
    backings: Backings,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Door {
    pub fn new(view: Arc<View>, ttl: Duration, privileged: bool, ended: Arc<(Mutex<bool>, Condvar)>) -> Self {
        Door { view, ttl, privileged, backings: Backings::default(), ended }
    }

    /// Runs a request; a panic answers EIO.
    fn run<T>(&self, work: impl FnOnce(&View) -> Result<T, ViewError>) -> Result<T, Errno> {
        match catch_unwind(AssertUnwindSafe(|| work(&self.view))) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(errno_of(&error)),
            Err(_) => {
                tracing::error!("a request panicked; it is answered with an I/O error");
                Err(Errno::EIO)
            }
        }
    }

    fn entry(&self, found: Result<Entry, Errno>, reply: ReplyEntry) {
        match found {
            Ok(entry) => reply.entry(&self.ttl, &file_attr(&entry.node), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn empty(done: Result<(), Errno>, reply: ReplyEmpty) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, found: Result<NodeAttr, Errno>, reply: ReplyAttr) {
        match found {
            Ok(node) => reply.attr(&self.ttl, &file_attr(&node)),
            Err(error) => reply.error(error),
        }
    }

    /// Flags of an open that goes past us.
    fn past_flags(opened: &Opened) -> FopenFlags {
        match opened.mode {
            // Nothing to flush for a reader: its close needs no answer.
            OpenMode::Passthrough if opened.fh == Fh(0) => FopenFlags::FOPEN_NOFLUSH,
            OpenMode::PassthroughWritesSeen => FopenFlags::FOPEN_DIRECT_IO,
            OpenMode::Passthrough | OpenMode::Through => FopenFlags::empty(),
        }
    }
}

impl Filesystem for Door {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_NO_EXPORT_SUPPORT,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_ABORT_ERROR,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        // One by one: the library takes all or none of what it is given at once.
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                tracing::debug!(?flag, "the kernel does not offer this");
            }
        }
        if self.privileged && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() {
            let deep_enough = config.set_max_stack_depth(1).is_ok();
            self.view.set_passthrough(deep_enough);
        }
        // A smaller value than we ask for is as good: the kernel says what it takes.
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        let _ = config.set_congestion_threshold(48);
        Ok(())
    }

    fn destroy(&mut self) {
        *self.ended.0.lock() = true;
        self.ended.1.notify_all();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEntry) {
        match self.run(|view| view.lookup(Ino(parent.0), &name(child)?)) {
            // Node 0 is how the kernel is told to remember that there is nothing.
            Err(error) if error.code() == libc::ENOENT => {
                reply.entry(&self.ttl, &file_attr(&nothing()), Generation(0));
            }
            found => self.entry(found, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        let gone = self.run(|view| Ok(view.forget(Ino(ino.0), count)));
        if gone.unwrap_or(false) {
            self.backings.forget(Ino(ino.0));
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(self.run(|view| view.getattr(Ino(ino.0), fh.map(|fh| Fh(fh.0)))), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr { mode, uid, gid, size, atime: atime.map(set_time), mtime: mtime.map(set_time) };
        let caller = caller(request);
        self.attr(self.run(|view| view.setattr(&caller, Ino(ino.0), fh.map(|fh| Fh(fh.0)), &set)), reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.run(|view| view.readlink(Ino(ino.0))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        child: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let spec = NodeSpec { mode, rdev: long_rdev(rdev) };
        self.entry(self.run(|view| view.mknod(&caller(request), Ino(parent.0), &name(child)?, spec)), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, child: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.entry(self.run(|view| view.mkdir(&caller(request), Ino(parent.0), &name(child)?, mode)), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.unlink(&caller(request), Ino(parent.0), &name(child)?)), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.rmdir(&caller(request), Ino(parent.0), &name(child)?)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, child: &OsStr, target: &std::path::Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        self.entry(self.run(|view| view.symlink(&caller(request), Ino(parent.0), &name(child)?, target)), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        child: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = if flags.is_empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameMode::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameMode::Exchange
        } else {
            // A whiteout is an overlay's mark in its own upper layer; we are no such layer.
            return reply.error(Errno::EINVAL);
        };
        let done = self.run(|view| {
            let (from, to) = (name(child)?, name(new_name)?);
            view.rename(&caller(request), (Ino(parent.0), &from), (Ino(new_parent.0), &to), mode)
        });
        Self::empty(done, reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let made = self.run(|view| view.link(&caller(request), Ino(ino.0), Ino(new_parent.0), &name(new_name)?));
        self.entry(made, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = match self.run(|view| view.open(&caller(request), Ino(ino.0), access(flags.0))) {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        if opened.mode == OpenMode::Through {
            return reply.opened(FileHandle(opened.fh.0), FopenFlags::empty());
        }
        match self.backings.get(opened.ino, || reply.open_backing(&*opened.backing)) {
            Some(backing) => reply.opened_passthrough(FileHandle(opened.fh.0), Self::past_flags(&opened), &backing),
            None => {
                self.view.set_passthrough(false);
                reply.opened(FileHandle(opened.fh.0), FopenFlags::empty());
            }
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = usize::try_from(size).unwrap_or(0);
        match self.run(|view| view.read(Ino(ino.0), Fh(fh.0), offset, size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.run(|view| view.write(Ino(ino.0), Fh(fh.0), offset, data, kill)) {
            Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.flush(Fh(fh.0))), reply);
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        Self::empty(self.run(|view| view.release(Fh(fh.0))), reply);
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.fsync(Ino(ino.0), Fh(fh.0), data_only)), reply);
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Never asked again: directories are opened without us, and listed by node.
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.run(|view| {
            for dot in dots(view, Ino(ino.0), offset)? {
                if reply.add(INodeNo(dot.node.ino.0), dot.next, FileType::Directory, OsStr::new(dot.name)) {
                    return Ok(());
                }
            }
            view.readdir(Ino(ino.0), past_dots(offset), &mut |item| {
                !reply.add(INodeNo(item.ino), item.next, file_type(item.kind), item.name.as_os_str())
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.run(|view| {
            // The kernel takes no reference for these two.
            for dot in dots(view, Ino(ino.0), offset)? {
                let attr = file_attr(&dot.node);
                if reply.add(attr.ino, dot.next, OsStr::new(dot.name), &self.ttl, &attr, Generation(0)) {
                    return Ok(());
                }
            }
            view.readdirplus(Ino(ino.0), past_dots(offset), &mut |plus| {
                // An entry without a node is listed, and looked up when somebody wants it.
                let Some(entry) = &plus.entry else { return true };
                let attr = file_attr(&entry.node);
                !reply.add(attr.ino, plus.item.next, plus.item.name.as_os_str(), &self.ttl, &attr, Generation(0))
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.fsync_dir(Ino(ino.0), data_only)), reply);
    }

    fn statfs(&self, _request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.run(|view| view.statfs(Ino(ino.0))) {
            Ok(s) => reply.statfs(s.blocks, s.bfree, s.bavail, s.files, s.ffree, s.bsize, s.namelen, s.frsize),
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        key: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        let done = self.run(|view| view.set_xattr(&caller(request), Ino(ino.0), key.as_bytes(), value, mode));
        Self::empty(done, reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, key: &OsStr, size: u32, reply: ReplyXattr) {
        sized(self.run(|view| view.get_xattr(Ino(ino.0), key.as_bytes())), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let listed = self.run(|view| view.list_xattr(Ino(ino.0)));
        let joined = listed.map(|names| names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect());
        sized(joined, size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, key: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.run(|view| view.remove_xattr(&caller(request), Ino(ino.0), key.as_bytes())), reply);
    }

    fn access(&self, _request: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // With default_permissions the kernel decides by mode and owner, and never asks.
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        child: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let exclusive = flags & libc::O_EXCL != 0;
        let made = self
            .run(|view| view.create(&caller(request), Ino(parent.0), &name(child)?, mode, access(flags), exclusive));
        let (entry, opened) = match made {
            Ok(made) => made,
            Err(error) => return reply.error(error),
        };
        let (attr, fh) = (file_attr(&entry.node), FileHandle(opened.fh.0));
        if opened.mode == OpenMode::Through {
            return reply.created(&self.ttl, &attr, Generation(0), fh, FopenFlags::empty());
        }
        match self.backings.get(opened.ino, || reply.open_backing(&*opened.backing)) {
            Some(backing) => {
                reply.created_passthrough(&self.ttl, &attr, Generation(0), fh, Self::past_flags(&opened), &backing);
            }
            None => {
                self.view.set_passthrough(false);
                reply.created(&self.ttl, &attr, Generation(0), fh, FopenFlags::empty());
            }
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = AllocateMode::Raw(mode.cast_unsigned());
        Self::empty(self.run(|view| view.fallocate(Ino(ino.0), Fh(fh.0), mode, offset, length)), reply);
    }

    fn lseek(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let whence = match whence {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.run(|view| view.lseek(Ino(ino.0), offset, whence)) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let from = (Ino(ino_in.0), Fh(fh_in.0), offset_in);
        let to = (Ino(ino_out.0), Fh(fh_out.0), offset_out);
        match self.run(|view| view.copy_range(from, to, length.min(LENGTH_MAX))) {
            Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }
}
