//! Attributes, times, extended attributes and symlink targets of one inode by descriptor (O_PATH is enough).

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::{
    buffer::spare_capacity,
    fs::{
        AtFlags, CWD, FileType, Mode, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
        XattrFlags, chmodat, chownat, fstatvfs, getxattr, listxattr, makedev, readlinkat, removexattr, setxattr, statx,
        utimensat,
    },
    process::{Gid, Uid},
};

use super::{Errno, Result, sys};
use crate::types::{Attr, EntryName, Kind, Timestamp};

/// Linux's bound on one value, and on the list of names.
const XATTR_MOST: usize = 64 << 10;

/// What `utimensat` sets one time to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// UTIME_OMIT.
    Keep,
    /// UTIME_NOW.
    Now,
    /// This time.
    At(Timestamp),
}

/// `setxattr(2)` flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Create or replace.
    Set,
    /// EEXIST if it is there.
    Create,
    /// ENODATA if it is not.
    Replace,
}

/// `statfs(2)` of the file system, in the units FUSE wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Blocks of `frsize`.
    pub blocks: u64,
    /// Free.
    pub bfree: u64,
    /// Free for users.
    pub bavail: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Preferred block size.
    pub bsize: u32,
    /// Longest name.
    pub namelen: u32,
    /// Fragment size.
    pub frsize: u32,
}

/// `statx(AT_EMPTY_PATH)`.
///
/// # Errors
/// The host's.
pub fn stat(fd: BorrowedFd<'_>) -> Result<Attr> {
    attr_of(&statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?)
}

/// `statx` of one entry, symlinks not followed.
///
/// # Errors
/// ENOENT; the host's.
pub fn stat_child(dir: BorrowedFd<'_>, name: &EntryName) -> Result<Attr> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    attr_of(&statx(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted)?)
}

/// `fchmodat2(AT_EMPTY_PATH)`, or by /proc/self/fd on kernels without it.
///
/// # Errors
/// EOPNOTSUPP for a symlink; the host's.
pub fn chmod(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    match sys::chmod_fd(fd, mode & 0o7777) {
        Err(Errno::NOSYS) => {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            chmodat(CWD, proc_path(fd.as_raw_fd()), mode, AtFlags::empty())
        }
        done => done,
    }
}

/// `fchownat(AT_EMPTY_PATH)`; `None` keeps.
///
/// # Errors
/// The host's.
pub fn chown(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    chownat(fd, c"", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
}

/// `utimensat(AT_EMPTY_PATH)`.
///
/// # Errors
/// The host's.
pub fn set_times(fd: BorrowedFd<'_>, atime: SetTime, mtime: SetTime) -> Result<()> {
    let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
    utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)
}

/// `readlinkat(fd, "")` of an O_PATH descriptor.
///
/// # Errors
/// The host's.
pub fn read_link(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    Ok(readlinkat(fd, c"", Vec::new())?.into_bytes())
}

/// One extended attribute, through /proc/self/fd since the calls refuse O_PATH descriptors. The link in `/proc` is followed
/// to the inode itself, so that a symlink answers for itself and not for its target.
///
/// # Errors
/// ENODATA, EOPNOTSUPP; the host's.
pub fn get_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let path = proc_path(fd.as_raw_fd());
    grow(|buf| getxattr(&path, name, buf))
}

/// All names.
///
/// # Errors
/// The host's.
pub fn list_xattr(fd: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    let path = proc_path(fd.as_raw_fd());
    let names = grow(|buf| listxattr(&path, buf))?;
    Ok(names.split(|b| *b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

/// Sets one.
///
/// # Errors
/// The host's.
pub fn set_xattr(fd: BorrowedFd<'_>, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    let flags = match mode {
        XattrMode::Set => XattrFlags::empty(),
        XattrMode::Create => XattrFlags::CREATE,
        XattrMode::Replace => XattrFlags::REPLACE,
    };
    setxattr(proc_path(fd.as_raw_fd()), name, value, flags)
}

/// Removes one.
///
/// # Errors
/// ENODATA; the host's.
pub fn remove_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    removexattr(proc_path(fd.as_raw_fd()), name)
}

/// `fstatvfs`.
///
/// # Errors
/// The host's.
pub fn statfs(fd: BorrowedFd<'_>) -> Result<StatFs> {
    let found = fstatvfs(fd)?;
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(StatFs {
        blocks: found.f_blocks,
        bfree: found.f_bfree,
        bavail: found.f_bavail,
        files: found.f_files,
        ffree: found.f_ffree,
        bsize: narrow(found.f_bsize),
        namelen: narrow(found.f_namemax),
        frsize: narrow(found.f_frsize),
    })
}

/// The attributes in a `statx` of at least STATX_BASIC_STATS.
pub(super) fn attr_of(found: &Statx) -> Result<Attr> {
    let kind = Kind::from_host(FileType::from_raw_mode(found.stx_mode.into())).ok_or(Errno::IO)?;
    let birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(Attr {
        ino: found.stx_ino,
        dev: makedev(found.stx_dev_major, found.stx_dev_minor),
        kind,
        mode: u32::from(found.stx_mode) & 0o7777,
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: makedev(found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        blocks: found.stx_blocks,
        blksize: found.stx_blksize,
        atime: timestamp(found.stx_atime),
        mtime: timestamp(found.stx_mtime),
        ctime: timestamp(found.stx_ctime),
        btime: birth.then(|| timestamp(found.stx_btime)),
    })
}

/// The link in `/proc` that leads to the inode behind a descriptor of this process.
pub(super) fn proc_path(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

fn timestamp(t: StatxTimestamp) -> Timestamp {
    Timestamp { secs: t.tv_sec, nanos: t.tv_nsec }
}

fn timespec(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::At(t) => Timespec { tv_sec: t.secs, tv_nsec: t.nanos.into() },
    }
}

/// Most values are short; one that is not is asked for again with the most room there can be.
fn grow(mut read: impl FnMut(rustix::buffer::SpareCapacity<'_, u8>) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buf = Vec::with_capacity(256);
    match read(spare_capacity(&mut buf)) {
        Err(Errno::RANGE) => {
            buf.reserve_exact(XATTR_MOST);
            read(spare_capacity(&mut buf))?;
        }
        done => _ = done?,
    }
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::host::testing::{everywhere, name};

    const NEVER: Timestamp = Timestamp { secs: 0, nanos: 0 };

    #[test]
    fn attributes_are_those_of_the_inode_itself() {
        everywhere(|served| {
            served.put("a", b"12345");
            std::os::unix::fs::symlink("a", served.dir.path().join("l")).unwrap();
            let root = served.fd();
            let (a, attr) = served.look_up("a");
            let fd = a.path_fd().unwrap();
            assert_eq!(stat(fd.as_fd()), Ok(attr));
            assert_eq!(stat_child(root.as_fd(), &name("a")), Ok(attr));
            assert_eq!((attr.size, attr.nlink, attr.kind), (5, 1, Kind::File));
            assert!(attr.btime.is_some_and(|birth| birth > NEVER && birth <= attr.ctime));
            let link = stat_child(root.as_fd(), &name("l")).unwrap();
            assert_eq!((link.kind, link.size), (Kind::Symlink, 1));
            assert_eq!(stat_child(root.as_fd(), &name("none")), Err(Errno::NOENT));
            let (l, _) = served.look_up("l");
            assert_eq!(read_link(l.path_fd().unwrap().as_fd()), Ok(b"a".to_vec()));
        });
    }

    #[test]
    fn targets_are_bytes_of_any_length() {
        everywhere(|served| {
            for target in [&b"\xff/\xfe"[..], &[b'x'; 4095]] {
                crate::host::make_symlink(served.fd().as_fd(), &name("l"), target).unwrap();
                let (l, _) = served.look_up("l");
                assert_eq!(read_link(l.path_fd().unwrap().as_fd()).unwrap(), target);
                crate::host::remove_file(served.fd().as_fd(), &name("l")).unwrap();
            }
        });
    }

    #[test]
    fn modes_change_and_symlinks_have_none() {
        everywhere(|served| {
            let target = served.put("a", b"");
            std::os::unix::fs::symlink(target, served.dir.path().join("l")).unwrap();
            let (a, _) = served.look_up("a");
            for mode in [0o6755, 0o1000, 0] {
                assert_eq!(chmod(a.path_fd().unwrap().as_fd(), mode), Ok(()));
                assert_eq!(a.attr().unwrap().mode, mode);
            }
            let (l, _) = served.look_up("l");
            assert_eq!(chmod(l.path_fd().unwrap().as_fd(), 0o777), Err(Errno::OPNOTSUPP));
            assert_eq!(a.attr().unwrap().mode, 0);
        });
    }

    #[test]
    fn owners_change_also_of_symlinks() {
        everywhere(|served| {
            served.put("a", b"");
            std::os::unix::fs::symlink("a", served.dir.path().join("l")).unwrap();
            let (a, before) = served.look_up("a");
            let (l, _) = served.look_up("l");
            let owner = |fd: &crate::host::HostRef| fd.attr().map(|attr| (attr.uid, attr.gid));
            let change = |fd: &crate::host::HostRef, uid, gid| chown(fd.path_fd().unwrap().as_fd(), uid, gid);
            assert_eq!(change(&a, None, None), Ok(()));
            if rustix::process::geteuid().is_root() {
                assert_eq!(change(&l, Some(7), Some(8)), Ok(()));
                assert_eq!((owner(&l), owner(&a)), (Ok((7, 8)), Ok((before.uid, before.gid))));
                assert_eq!(change(&l, None, Some(9)), Ok(()));
                assert_eq!(owner(&l), Ok((7, 9)));
            } else {
                assert_eq!(change(&l, Some(0), None), Err(Errno::PERM));
            }
        });
    }

    #[test]
    fn times_are_set_kept_or_now() {
        everywhere(|served| {
            served.put("a", b"");
            let (a, before) = served.look_up("a");
            let fd = a.path_fd().unwrap();
            let old = Timestamp { secs: -2, nanos: 250_000_000 };
            set_times(fd.as_fd(), SetTime::At(old), SetTime::Keep).unwrap();
            let attr = a.attr().unwrap();
            assert_eq!((attr.atime, attr.mtime), (old, before.mtime));
            assert!(attr.ctime >= before.ctime);
            set_times(fd.as_fd(), SetTime::Keep, SetTime::At(old)).unwrap();
            set_times(fd.as_fd(), SetTime::Now, SetTime::Keep).unwrap();
            let attr = a.attr().unwrap();
            assert_eq!(attr.mtime, old);
            assert!(attr.atime >= before.atime);
        });
    }

    #[test]
    fn extended_attributes_come_and_go() {
        everywhere(|served| {
            served.put("a", b"");
            let (a, _) = served.look_up("a");
            for found in [&a, &served.root] {
                let path_fd = found.path_fd().unwrap();
                let fd = path_fd.as_fd();
                assert_eq!(get_xattr(fd, b"user.x"), Err(Errno::NODATA));
                assert_eq!(set_xattr(fd, b"user.x", b"1", XattrMode::Replace), Err(Errno::NODATA));
                assert_eq!(set_xattr(fd, b"user.x", b"1", XattrMode::Create), Ok(()));
                assert_eq!(set_xattr(fd, b"user.x", b"1", XattrMode::Create), Err(Errno::EXIST));
                assert_eq!(set_xattr(fd, b"user.x", b"a\0b", XattrMode::Replace), Ok(()));
                assert_eq!(set_xattr(fd, b"user.\xff", &[5; 2000], XattrMode::Set), Ok(()));
                assert_eq!(set_xattr(fd, b"user.empty", b"", XattrMode::Set), Ok(()));
                assert_eq!(get_xattr(fd, b"user.x"), Ok(b"a\0b".to_vec()));
                assert_eq!(get_xattr(fd, b"user.\xff"), Ok(vec![5; 2000]));
                assert_eq!(get_xattr(fd, b"user.empty"), Ok(vec![]));
                let mut names = list_xattr(fd).unwrap();
                names.retain(|name| name.starts_with(b"user."));
                names.sort();
                assert_eq!(names, [&b"user.empty"[..], b"user.x", b"user.\xff"]);
                assert_eq!(remove_xattr(fd, b"user.x"), Ok(()));
                assert_eq!(remove_xattr(fd, b"user.x"), Err(Errno::NODATA));
                assert_eq!(get_xattr(fd, b"nowhere.x"), Err(Errno::OPNOTSUPP));
            }
        });
    }

    #[test]
    fn many_attributes_are_listed() {
        everywhere(|served| {
            served.put("a", b"");
            let (a, _) = served.look_up("a");
            let path_fd = a.path_fd().unwrap();
            for n in 0..20 {
                set_xattr(path_fd.as_fd(), format!("user.{n:030}").as_bytes(), b"", XattrMode::Create).unwrap();
            }
            let names = list_xattr(path_fd.as_fd()).unwrap();
            assert_eq!(names.iter().filter(|name| name.starts_with(b"user.")).count(), 20);
        });
    }

    #[test]
    fn a_symlink_answers_for_itself() {
        everywhere(|served| {
            let target = served.put("a", b"");
            std::os::unix::fs::symlink(target, served.dir.path().join("l")).unwrap();
            let ((a, _), (l, _)) = (served.look_up("a"), served.look_up("l"));
            let (a, l) = (a.path_fd().unwrap(), l.path_fd().unwrap());
            set_xattr(a.as_fd(), b"user.x", b"target", XattrMode::Set).unwrap();
            // Symlinks take no `user.` attributes.
            assert_eq!(set_xattr(l.as_fd(), b"user.x", b"", XattrMode::Set), Err(Errno::PERM));
            assert!(get_xattr(l.as_fd(), b"user.x").is_err());
            if rustix::process::geteuid().is_root() {
                assert_eq!(set_xattr(l.as_fd(), b"trusted.x", b"link", XattrMode::Set), Ok(()));
                assert_eq!(get_xattr(l.as_fd(), b"trusted.x"), Ok(b"link".to_vec()));
                assert_eq!(get_xattr(a.as_fd(), b"trusted.x"), Err(Errno::NODATA));
                assert!(list_xattr(l.as_fd()).unwrap().contains(&b"trusted.x".to_vec()));
                assert_eq!(remove_xattr(l.as_fd(), b"trusted.x"), Ok(()));
            }
        });
    }

    #[test]
    fn space_is_told_as_the_host_tells_it() {
        everywhere(|served| {
            let found = statfs(served.fd().as_fd()).unwrap();
            assert_eq!(found.namelen, 255);
            assert!(found.blocks > 0 && found.bavail <= found.bfree && found.bfree <= found.blocks);
            assert!(found.frsize >= 512 && found.bsize >= 512 && found.ffree <= found.files);
        });
    }
}
