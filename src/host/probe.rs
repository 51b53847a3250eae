//! Questions about the host that are not about one inode: where a descriptor lies, who a process is, what a caller may do.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{Access, AtFlags, StatxFlags},
    io::Errno,
};

use super::Result;

/// Device and mount number of what a descriptor names: two with the same can be linked and renamed into each other.
///
/// # Errors
/// The host's.
pub fn place(fd: BorrowedFd<'_>) -> Result<(u64, u64)> {
    let found = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
    Ok((rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_mnt_id))
}

/// A small file of `/proc/<pid>/`.
///
/// # Errors
/// The host's; ESRCH or ENOENT once the process is gone.
pub fn process_file(pid: u32, name: &str) -> Result<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/{name}"))
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

/// May the thread, as the user it acts as, do this with the inode behind a descriptor? The host's ACLs decide.
///
/// # Errors
/// EACCES; the host's.
pub fn access(fd: BorrowedFd<'_>, access: Access) -> Result<()> {
    rustix::fs::accessat(fd, c"", access, AtFlags::EACCESS | AtFlags::EMPTY_PATH)
}
