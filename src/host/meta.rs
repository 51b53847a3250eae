//! Attributes, times, extended attributes and symlink targets of one inode by descriptor (O_PATH is enough).

use std::os::fd::BorrowedFd;

use super::Result;
use crate::types::{Attr, EntryName, Timestamp};

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
    todo!()
}

/// `statx` of one entry, symlinks not followed.
///
/// # Errors
/// ENOENT; the host's.
pub fn stat_child(dir: BorrowedFd<'_>, name: &EntryName) -> Result<Attr> {
    todo!()
}

/// `fchmodat2(AT_EMPTY_PATH)`, or by /proc/self/fd on kernels without it.
///
/// # Errors
/// The host's.
pub fn chmod(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    todo!()
}

/// `fchownat(AT_EMPTY_PATH)`; `None` keeps.
///
/// # Errors
/// The host's.
pub fn chown(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    todo!()
}

/// `utimensat(AT_EMPTY_PATH)`.
///
/// # Errors
/// The host's.
pub fn set_times(fd: BorrowedFd<'_>, atime: SetTime, mtime: SetTime) -> Result<()> {
    todo!()
}

/// `readlinkat(fd, "")` of an O_PATH descriptor.
///
/// # Errors
/// The host's.
pub fn read_link(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    todo!()
}

/// One extended attribute (through /proc/self/fd where the descriptor is O_PATH; for symlinks by l*xattr on it).
///
/// # Errors
/// ENODATA, EOPNOTSUPP; the host's.
pub fn get_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    todo!()
}

/// All names.
///
/// # Errors
/// The host's.
pub fn list_xattr(fd: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    todo!()
}

/// Sets one.
///
/// # Errors
/// The host's.
pub fn set_xattr(fd: BorrowedFd<'_>, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    todo!()
}

/// Removes one.
///
/// # Errors
/// ENODATA; the host's.
pub fn remove_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    todo!()
}

/// `fstatvfs`.
///
/// # Errors
/// The host's.
pub fn statfs(fd: BorrowedFd<'_>) -> Result<StatFs> {
    todo!()
}

pub fn probe_reflink_stub(dir: BorrowedFd<'_>) -> Result<bool> {
    todo!()
}
