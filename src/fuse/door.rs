//! FUSE requests, one by one: arguments in, a call of the room, the answer out. A panic in one answers EIO and no more.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use fuser::{
    AccessFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::{
    attr::{long_rdev, set_time},
    init::{self, Passing},
    pool::Pool,
    requests::{Asked, Requests},
    serve::{Serve, empty, written},
};
use crate::{
    host::{AllocateMode, RenameMode, Whence, XattrMode},
    types::{Caller, EntryName, Ino, PathError},
    versions::Mode,
    view::{Access, Fh, NodeSpec, SetAttr, ViewError},
};

/// Longer copies are answered in pieces below what a reply can count.
const COPY_MAX: u64 = (1 << 32) - (1 << 16);

/// The kernel's door to a view.
pub(super) struct Door {
    serve: Arc<Serve>,
    /// Declared after what its work uses: what waits in it is finished when the door goes.
    pool: Pool,
    passing: Passing,
    /// A removed file's content may have to be copied first: the store of some source lies on another file system.
    removals_copy: bool,
    requests: Arc<Requests>,
}

impl Door {
    pub fn new(serve: Serve, passing: Passing, requests: Arc<Requests>) -> Self {
        let removals_copy = serve.view.sources().iter().any(|source| source.mode == Mode::Copying);
        Door { serve: Arc::new(serve), pool: Pool::default(), passing, removals_copy, requests }
    }

    /// Answers on the pool if the request may wait for a disk, else here.
    fn answer(&self, waits: bool, work: impl FnOnce(&Serve) + Send + 'static) {
        let serve = Arc::clone(&self.serve);
        if waits {
            self.pool.run(move || work(&serve));
        } else if catch_unwind(AssertUnwindSafe(|| work(&serve))).is_err() {
            // What was not answered was when its reply went.
            tracing::error!("a request panicked; it is answered with an I/O error");
        }
    }
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

fn name(name: &OsStr) -> Result<EntryName, ViewError> {
    EntryName::new(name.as_bytes()).map_err(|error| {
        ViewError::Host(match error {
            PathError::TooLong => crate::host::Errno::NAMETOOLONG,
            PathError::NotAName | PathError::BadByte | PathError::Escapes => crate::host::Errno::INVAL,
        })
    })
}

fn access(flags: i32) -> Access {
    let mode = flags & libc::O_ACCMODE;
    Access {
        read: mode != libc::O_WRONLY,
        write: mode != libc::O_RDONLY,
        append: flags & libc::O_APPEND != 0,
        truncate: flags & libc::O_TRUNC != 0,
    }
}

fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    if flags.is_empty() {
        Some(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Some(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Some(RenameMode::Exchange)
    } else {
        // A whiteout is an overlay's mark in its own upper layer; we are no such layer.
        None
    }
}

impl Filesystem for Door {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        init::agree(config, &self.serve.view, self.passing);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEntry) {
        self.requests.count(Asked::Lookup);
        self.serve.looked_up(self.serve.run(|view| view.lookup(Ino(parent.0), &name(child)?)), reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.requests.count(Asked::Forget);
        self.serve.forget(Ino(ino.0), count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        self.requests.count(Asked::Getattr);
        self.serve.attr(self.serve.run(|view| view.getattr(Ino(ino.0), fh.map(|fh| Fh(fh.0)))), reply);
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
        self.requests.count(Asked::Setattr);
        let set = SetAttr { mode, uid, gid, size, atime: atime.map(set_time), mtime: mtime.map(set_time) };
        let (caller, ino, fh) = (caller(request), Ino(ino.0), fh.map(|fh| Fh(fh.0)));
        self.answer(size.is_some(), move |serve| {
            serve.attr(serve.run(|view| view.setattr(&caller, ino, fh, &set)), reply);
        });
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.requests.count(Asked::Readlink);
        match self.serve.run(|view| view.readlink(Ino(ino.0))) {
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
        self.requests.count(Asked::Mknod);
        let spec = NodeSpec { mode, rdev: long_rdev(rdev) };
        let made = self.serve.run(|view| view.mknod(&caller(request), Ino(parent.0), &name(child)?, spec));
        self.serve.entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, child: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.requests.count(Asked::Mkdir);
        let made = self.serve.run(|view| view.mkdir(&caller(request), Ino(parent.0), &name(child)?, mode));
        self.serve.entry(made, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEmpty) {
        self.requests.count(Asked::Unlink);
        let (caller, parent, child) = (caller(request), Ino(parent.0), name(child));
        self.answer(self.removals_copy, move |serve| {
            empty(serve.run(|view| view.unlink(&caller, parent, &child?)), reply);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, child: &OsStr, reply: ReplyEmpty) {
        self.requests.count(Asked::Rmdir);
        empty(self.serve.run(|view| view.rmdir(&caller(request), Ino(parent.0), &name(child)?)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, child: &OsStr, target: &Path, reply: ReplyEntry) {
        self.requests.count(Asked::Symlink);
        let target = target.as_os_str().as_bytes();
        let made = self.serve.run(|view| view.symlink(&caller(request), Ino(parent.0), &name(child)?, target));
        self.serve.entry(made, reply);
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
        self.requests.count(Asked::Rename);
        let Some(mode) = rename_mode(flags) else { return reply.error(Errno::EINVAL) };
        let caller = caller(request);
        let (from, to) = ((Ino(parent.0), name(child)), (Ino(new_parent.0), name(new_name)));
        self.answer(self.removals_copy, move |serve| {
            let renamed = serve.run(|view| view.rename(&caller, (from.0, &from.1?), (to.0, &to.1?), mode));
            empty(renamed, reply);
        });
    }

    fn link(&self, request: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        self.requests.count(Asked::Link);
        let made = self.serve.run(|view| view.link(&caller(request), Ino(ino.0), Ino(new_parent.0), &name(new_name)?));
        self.serve.entry(made, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.requests.count(Asked::Open);
        let (caller, ino, access) = (caller(request), Ino(ino.0), access(flags.0));
        // Old content may have to be kept, on disk, before the answer.
        let writes = access.write || access.truncate;
        self.answer(writes, move |serve| {
            serve.opened(serve.run(|view| view.open(&caller, ino, access)), writes, reply);
        });
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
        self.requests.count(Asked::Read);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        match self.serve.run(|view| view.read(Ino(ino.0), Fh(fh.0), offset, size)) {
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
        self.requests.count(Asked::Write);
        // The data is in the loop's own buffer, so this is answered here.
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        written(self.serve.run(|view| Ok(view.write(Ino(ino.0), Fh(fh.0), offset, data, kill)? as u64)), reply);
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        self.requests.count(Asked::Flush);
        empty(self.serve.run(|view| view.flush(Fh(fh.0))), reply);
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
        self.requests.count(Asked::Release);
        self.serve.released(Fh(fh.0), reply);
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.requests.count(Asked::Fsync);
        let (ino, fh) = (Ino(ino.0), Fh(fh.0));
        self.answer(true, move |serve| empty(serve.run(|view| view.fsync(ino, fh, data_only)), reply));
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.requests.count(Asked::Opendir);
        // Never asked again: directories are opened without us, and listed by node.
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.requests.count(Asked::Readdir);
        self.serve.list(Ino(ino.0), offset, reply);
    }

    fn readdirplus(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        self.requests.count(Asked::Readdirplus);
        self.serve.list_plus(Ino(ino.0), offset, reply);
    }

    fn fsyncdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.requests.count(Asked::Fsyncdir);
        let ino = Ino(ino.0);
        self.answer(true, move |serve| empty(serve.run(|view| view.fsync_dir(ino, data_only)), reply));
    }

    fn statfs(&self, _request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.requests.count(Asked::Statfs);
        match self.serve.run(|view| view.statfs(Ino(ino.0))) {
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
        self.requests.count(Asked::Setxattr);
        let mode = match flags {
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        let key = key.as_bytes();
        empty(self.serve.run(|view| view.set_xattr(&caller(request), Ino(ino.0), key, value, mode)), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, key: &OsStr, size: u32, reply: ReplyXattr) {
        self.requests.count(Asked::Getxattr);
        let (ino, key) = (Ino(ino.0), key.to_owned());
        // Our own ones may read a whole file.
        let waits = key.as_bytes().starts_with(b"user.wardfs.");
        self.answer(waits, move |serve| {
            serve.sized(serve.run(|view| view.get_xattr(ino, key.as_bytes())), size, reply);
        });
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.requests.count(Asked::Listxattr);
        let listed = self.serve.run(|view| {
            let names = view.list_xattr(Ino(ino.0))?;
            Ok(names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect())
        });
        self.serve.sized(listed, size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, key: &OsStr, reply: ReplyEmpty) {
        self.requests.count(Asked::Removexattr);
        empty(self.serve.run(|view| view.remove_xattr(&caller(request), Ino(ino.0), key.as_bytes())), reply);
    }

    fn access(&self, _request: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        self.requests.count(Asked::Access);
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
        self.requests.count(Asked::Create);
        let (exclusive, access) = (flags & libc::O_EXCL != 0, access(flags));
        let made =
            self.serve.run(|view| view.create(&caller(request), Ino(parent.0), &name(child)?, mode, access, exclusive));
        self.serve.created(made, access.write, reply);
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
        self.requests.count(Asked::Ioctl);
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.requests.count(Asked::Fallocate);
        let (caller, ino, fh, mode) = (caller(request), Ino(ino.0), Fh(fh.0), AllocateMode::Raw(mode.cast_unsigned()));
        self.answer(true, move |serve| {
            empty(serve.run(|view| view.fallocate(&caller, ino, fh, mode, offset, length)), reply);
        });
    }

    fn lseek(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.requests.count(Asked::Lseek);
        let whence = match whence {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.serve.run(|view| view.lseek(Ino(ino.0), offset, whence)) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
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
        self.requests.count(Asked::CopyFileRange);
        let from = (Ino(ino_in.0), Fh(fh_in.0), offset_in);
        let to = (Ino(ino_out.0), Fh(fh_out.0), offset_out);
        let (caller, length) = (caller(request), length.min(COPY_MAX));
        self.answer(true, move |serve| written(serve.run(|view| view.copy_range(&caller, from, to, length)), reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_are_refused_with_the_kernels_numbers() {
        let errno = |bytes: &[u8]| name(OsStr::from_bytes(bytes)).map_err(|error| super::super::errno_of(&error));
        assert_eq!(errno(b"a").unwrap().as_bytes(), b"a");
        assert_eq!(errno(&[b'x'; 256]).unwrap_err(), crate::host::Errno::NAMETOOLONG);
        for bad in [&b""[..], b".", b"..", b"a/b"] {
            assert_eq!(errno(bad).unwrap_err(), crate::host::Errno::INVAL);
        }
    }

    #[test]
    fn open_flags_say_what_is_wanted() {
        let of = |flags| access(flags);
        let plain = Access { read: true, write: false, append: false, truncate: false };
        assert_eq!(of(libc::O_RDONLY | libc::O_DIRECT | libc::O_CLOEXEC), plain);
        assert_eq!(of(libc::O_WRONLY | libc::O_APPEND), Access { read: false, write: true, append: true, ..plain });
        assert_eq!(of(libc::O_RDWR | libc::O_TRUNC), Access { write: true, truncate: true, ..plain });
    }

    #[test]
    fn flags_of_a_rename_are_one_mode_or_none() {
        assert_eq!(rename_mode(RenameFlags::empty()), Some(RenameMode::Replace));
        assert_eq!(rename_mode(RenameFlags::RENAME_NOREPLACE), Some(RenameMode::NoReplace));
        assert_eq!(rename_mode(RenameFlags::RENAME_EXCHANGE), Some(RenameMode::Exchange));
        assert_eq!(rename_mode(RenameFlags::RENAME_WHITEOUT), None);
        assert_eq!(rename_mode(RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_NOREPLACE), None);
    }
}
