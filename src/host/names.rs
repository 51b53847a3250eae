//! Names: one component below an open directory, never a path, never through a symlink.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, linkat, mkdirat, mknodat, openat2, renameat_with,
    symlinkat, unlinkat,
};

use super::{Errno, Result, cache::with_room, meta::proc_path};
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
    open_entry(dir, name, OFlags::PATH, Mode::empty())
}

/// The directory of this name below `dir`, open for reading: for the store's own directories on the same mount.
///
/// # Errors
/// The host's.
pub fn open_dir_at(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// `openat(O_CREAT | O_EXCL | O_NOFOLLOW)`: a new regular file, open for reading and writing.
/// `mode` is used as it is: the process's umask is 0.
///
/// # Errors
/// EEXIST; the host's.
pub fn create_file(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode & 0o7777))
}

/// `mkdirat`.
///
/// # Errors
/// The host's.
pub fn make_dir(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<()> {
    mkdirat(dir, name.as_bytes(), Mode::from_raw_mode(mode & 0o7777))
}

/// `mknodat`: `mode` with its type bits (none means a regular file); regular files, FIFOs, sockets, devices.
///
/// # Errors
/// The host's.
pub fn make_node(dir: BorrowedFd<'_>, name: &EntryName, mode: u32, rdev: u64) -> Result<()> {
    let kind = match mode & libc::S_IFMT {
        0 => FileType::RegularFile,
        kind => FileType::from_raw_mode(kind),
    };
    if kind == FileType::Unknown {
        return Err(Errno::INVAL);
    }
    mknodat(dir, name.as_bytes(), kind, Mode::from_raw_mode(mode & 0o7777), rdev)
}

/// `symlinkat`; the target is stored as it is.
///
/// # Errors
/// The host's.
pub fn make_symlink(dir: BorrowedFd<'_>, name: &EntryName, target: &[u8]) -> Result<()> {
    symlinkat(target, dir, name.as_bytes())
}

/// `linkat` of the inode behind `fd` (AT_EMPTY_PATH, or by /proc/self/fd without the privilege).
///
/// # Errors
/// EXDEV across mounts, EMLINK, EPERM; the host's.
pub fn link(fd: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    match linkat(fd, c"", dir, name.as_bytes(), AtFlags::EMPTY_PATH) {
        // What the kernel says without CAP_DAC_READ_SEARCH; and of an inode without links, as it will again.
        Err(Errno::NOENT) => linkat(CWD, proc_path(fd.as_raw_fd()), dir, name.as_bytes(), AtFlags::SYMLINK_FOLLOW),
        done => done,
    }
}

/// `unlinkat` of anything but a directory.
///
/// # Errors
/// The host's.
pub fn remove_file(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    unlinkat(dir, name.as_bytes(), AtFlags::empty())
}

/// `unlinkat(AT_REMOVEDIR)`.
///
/// # Errors
/// ENOTEMPTY; the host's.
pub fn remove_dir(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    unlinkat(dir, name.as_bytes(), AtFlags::REMOVEDIR)
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
    let flags = match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
        RenameMode::Whiteout => RenameFlags::WHITEOUT,
    };
    renameat_with(from, name.as_bytes(), to, new_name.as_bytes(), flags)
}

fn open_entry(dir: BorrowedFd<'_>, name: &EntryName, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    loop {
        match with_room(|| openat2(dir, name.as_bytes(), flags, mode, resolve)) {
            // The tree changed during the walk.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
}
