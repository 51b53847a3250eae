//! Names: one component below an open directory, never a path, never through a symlink.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::Result;
use crate::types::EntryName;

/// How `rename` treats an existing target (`renameat2(2)` flags).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// EEXIST.
    NoReplace,
    /// Swap both.
    Exchange,
    /// Replace, leave a whiteout device behind.
    Whiteout,
}

/// O_PATH | O_NOFOLLOW of one entry, by `openat2` with RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS.
///
/// # Errors
/// ENOENT; EXDEV for a mount point; the host's.
pub fn open_child(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    todo!()
}

/// The directory at a path below `dir`, for the store's own directories on the same mount.
///
/// # Errors
/// The host's.
pub fn open_dir_at(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    todo!()
}

/// `openat(O_CREAT | O_EXCL | O_NOFOLLOW)`: a new regular file, open for reading and writing.
/// `mode` is used as it is: the process's umask is 0.
///
/// # Errors
/// EEXIST; the host's.
pub fn create_file(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<OwnedFd> {
    todo!()
}

/// `mkdirat`.
///
/// # Errors
/// The host's.
pub fn make_dir(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<()> {
    todo!()
}

/// `mknodat`: `mode` with its type bits; regular files, FIFOs, sockets, devices.
///
/// # Errors
/// The host's.
pub fn make_node(dir: BorrowedFd<'_>, name: &EntryName, mode: u32, rdev: u64) -> Result<()> {
    todo!()
}

/// `symlinkat`; the target is stored as it is.
///
/// # Errors
/// The host's.
pub fn make_symlink(dir: BorrowedFd<'_>, name: &EntryName, target: &[u8]) -> Result<()> {
    todo!()
}

/// `linkat` of the inode behind `fd` (AT_EMPTY_PATH, or by /proc/self/fd without the privilege).
///
/// # Errors
/// EXDEV across mounts, EMLINK, EPERM; the host's.
pub fn link(fd: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    todo!()
}

/// `unlinkat` of anything but a directory.
///
/// # Errors
/// The host's.
pub fn remove_file(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    todo!()
}

/// `unlinkat(AT_REMOVEDIR)`.
///
/// # Errors
/// ENOTEMPTY; the host's.
pub fn remove_dir(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    todo!()
}

/// `renameat2`.
///
/// # Errors
/// The host's.
pub fn rename(
    from: BorrowedFd<'_>,
    name: &EntryName,
    to: BorrowedFd<'_>,
    new_name: &EntryName,
    mode: RenameMode,
) -> Result<()> {
    todo!()
}
