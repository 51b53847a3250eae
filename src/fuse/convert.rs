//! What FUSE says in our words, and ours in FUSE's.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyXattr, Request, TimeOrNow};

use crate::{
    host::SetTime,
    types::{Caller, EntryName, Ino, Kind, PathError, Timestamp},
    view::{Access, NodeAttr, View, ViewError},
};

pub(super) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

pub(super) fn name(name: &OsStr) -> Result<EntryName, ViewError> {
    EntryName::new(name.as_bytes()).map_err(|error| {
        ViewError::Host(match error {
            PathError::TooLong => rustix::io::Errno::NAMETOOLONG,
            PathError::NotAName | PathError::BadByte | PathError::Escapes => rustix::io::Errno::INVAL,
        })
    })
}

pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    if time.secs >= 0 { UNIX_EPOCH + whole + nanos } else { UNIX_EPOCH - whole + nanos }
}

pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { secs: after.as_secs().cast_signed(), nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let secs = before.as_secs().cast_signed();
            match before.subsec_nanos() {
                0 => Timestamp { secs: -secs, nanos: 0 },
                nanos => Timestamp { secs: -secs - 1, nanos: 1_000_000_000 - nanos },
            }
        }
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(timestamp(time)),
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

pub(super) fn file_attr(node: &NodeAttr) -> FileAttr {
    let attr = &node.attr;
    FileAttr {
        ino: INodeNo(node.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: attr.btime.map_or(UNIX_EPOCH, system_time),
        kind: file_type(attr.kind),
        perm: u16::try_from(attr.mode & 0o7777).expect("twelve bits"),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        // FUSE carries the kernel's short form, which old device numbers fit.
        rdev: u32::try_from(short_rdev(attr.rdev)).unwrap_or(0),
        blksize: attr.blksize,
        flags: 0,
    }
}

/// The kernel's `new_encode_dev` of a glibc device number.
pub(super) fn short_rdev(rdev: u64) -> u64 {
    let (major, minor) = (u64::from(rustix::fs::major(rdev)), u64::from(rustix::fs::minor(rdev)));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse of [`short_rdev`].
pub(super) fn long_rdev(rdev: u32) -> u64 {
    rustix::fs::makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00))
}

pub(super) fn access(flags: i32) -> Access {
    let mode = flags & libc::O_ACCMODE;
    Access {
        read: mode != libc::O_WRONLY,
        write: mode != libc::O_RDONLY,
        append: flags & libc::O_APPEND != 0,
        truncate: flags & libc::O_TRUNC != 0,
    }
}

/// Where a listing goes on after `.` and after `..`: no host gives such cookies.
const AFTER_DOT: u64 = 0x7fff_ffd0_7d07_0001;
const AFTER_DOTS: u64 = 0x7fff_ffd0_7d07_0002;

pub(super) struct Dot {
    pub name: &'static str,
    pub node: NodeAttr,
    pub next: u64,
}

/// `.` and `..`, as far as they come at or after an offset.
pub(super) fn dots(view: &View, ino: Ino, offset: u64) -> Result<Vec<Dot>, ViewError> {
    let mut dots = Vec::new();
    if offset == 0 {
        dots.push(Dot { name: ".", node: view.getattr(ino, None)?, next: AFTER_DOT });
    }
    if offset == 0 || offset == AFTER_DOT {
        dots.push(Dot { name: "..", node: view.getattr(view.parent(ino)?, None)?, next: AFTER_DOTS });
    }
    Ok(dots)
}

pub(super) fn past_dots(offset: u64) -> u64 {
    if offset == AFTER_DOT || offset == AFTER_DOTS { 0 } else { offset }
}

/// What stands for "nothing there".
pub(super) fn nothing() -> NodeAttr {
    NodeAttr {
        ino: Ino(0),
        attr: crate::types::Attr {
            ino: 0,
            dev: 0,
            kind: Kind::File,
            mode: 0,
            nlink: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            blksize: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: None,
        },
    }
}

/// The protocol of extended attributes: size 0 asks how much there is, a smaller one than that is ERANGE.
pub(super) fn sized(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    let value = match value {
        Ok(value) => value,
        Err(error) => return reply.error(error),
    };
    let Ok(length) = u32::try_from(value.len()) else { return reply.error(Errno::E2BIG) };
    match size {
        0 => reply.size(length),
        room if length > room => reply.error(Errno::ERANGE),
        _ => reply.data(&value),
    }
}
