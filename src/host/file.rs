//! Content of regular files, by descriptor and offset.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::Result;
use crate::types::Attr;

/// `fallocate(2)` modes that the mount carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateMode {
    /// The raw `FALLOC_FL_*` bits.
    Raw(u32),
}

/// `lseek(2)` into data and holes; plain seeks never reach a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// SEEK_DATA.
    Data,
    /// SEEK_HOLE.
    Hole,
}

/// One `pread`; short only at the end of the file. EINTR is retried.
///
/// # Errors
/// The host's.
pub fn read_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
    todo!()
}

/// Fills `buf` or stops at the end of the file; returns how much was read.
///
/// # Errors
/// The host's.
pub fn read_exact_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
    todo!()
}

/// Writes all of `data`, or fails; on a failure after some bytes returns the short count.
///
/// # Errors
/// The host's, if nothing was written.
pub fn write_at(fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize> {
    todo!()
}

/// `ftruncate`.
///
/// # Errors
/// The host's.
pub fn truncate(fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    todo!()
}

/// `fsync`, or `fdatasync` if `data_only`.
///
/// # Errors
/// The host's; the page that failed is lost (never retry).
pub fn fsync(fd: BorrowedFd<'_>, data_only: bool) -> Result<()> {
    todo!()
}

/// `fallocate`.
///
/// # Errors
/// The host's.
pub fn fallocate(fd: BorrowedFd<'_>, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
    todo!()
}

/// SEEK_DATA or SEEK_HOLE on a private description (`fd` is not shared).
///
/// # Errors
/// ENXIO past the last data; the host's.
pub fn lseek(fd: BorrowedFd<'_>, offset: u64, whence: Whence) -> Result<u64> {
    todo!()
}

/// `copy_file_range`; at most `len` bytes; falls back to reading and writing on EXDEV, EINVAL and EOPNOTSUPP.
///
/// # Errors
/// The host's.
pub fn copy_range(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<u64> {
    todo!()
}

/// FICLONE of the whole file.
///
/// # Errors
/// EOPNOTSUPP, EXDEV, EINVAL where the file system cannot.
pub fn reflink(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    todo!()
}

/// Reads a whole file of at most `limit` bytes between two `statx` calls that agree on size, mtime and ctime: the
/// content and the attributes that belong to it. Three tries, then EAGAIN (the file never stood still);
/// EFBIG over the limit.
///
/// # Errors
/// EAGAIN, EFBIG; the host's.
pub fn read_whole(fd: BorrowedFd<'_>, limit: u64) -> Result<(Vec<u8>, Attr)> {
    todo!()
}

/// True if both descriptors name the same inode.
///
/// # Errors
/// The host's.
pub fn is_same_inode(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    todo!()
}
