//! Questions about the host that are not about one inode: where a descriptor lies, who a process is, what a caller may do.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Access, AtFlags, Mode, OFlags, StatxFlags, openat},
    io::Errno,
};

use super::{Result, cache::with_room, file, meta};
use crate::types::Timestamp;

/// Pairs of write and `statx` in [`probe_fine_ctime`].
const PAIRS: u8 = 50;
/// Less than any kernel's tick: times that are closer don't come from a coarse clock.
const TICK: i64 = 900_000;

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

/// May the thread, as the user it acts as, do this with a directory? The host's ACLs decide.
///
/// # Errors
/// EACCES; the host's.
pub fn access(dir: BorrowedFd<'_>, access: Access) -> Result<()> {
    rustix::fs::accessat(dir, c".", access, AtFlags::EACCESS)
}

/// As [`access`], of any inode (an O_PATH descriptor is enough).
///
/// # Errors
/// EACCES; the host's.
pub fn access_of(fd: BorrowedFd<'_>, access: Access) -> Result<()> {
    rustix::fs::accessat(rustix::fs::CWD, meta::proc_path(fd.as_raw_fd()), access, AtFlags::EACCESS)
}

/// Does FICLONE work in this directory? Tried with two nameless files.
///
/// # Errors
/// EROFS, EACCES, ENOSPC; the host's. A file system without O_TMPFILE or FICLONE answers false.
pub fn probe_reflink(dir: BorrowedFd<'_>) -> Result<bool> {
    let (Some(from), Some(to)) = (nameless(dir)?, nameless(dir)?) else { return Ok(false) };
    file::write_at(from.as_fd(), &[1; 4096], 0)?;
    match file::reflink(from.as_fd(), to.as_fd()) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::XDEV | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Does every write that follows a `statx` get a ctime of its own here (multigrain time stamps, Linux 6.13)? Then equal
/// (size, ctime) prove that nobody has called `write` in between. Costs 50 small writes to a nameless file.
///
/// # Errors
/// EROFS, EACCES, ENOSPC; the host's. A file system without O_TMPFILE answers false.
pub fn probe_fine_ctime(dir: BorrowedFd<'_>) -> Result<bool> {
    let Some(file) = nameless(dir)? else { return Ok(false) };
    let mut times = Vec::with_capacity(PAIRS.into());
    for byte in 0..PAIRS {
        file::write_at(file.as_fd(), &[byte], 0)?;
        times.push(meta::stat(file.as_fd())?.ctime);
    }
    Ok(are_fine(&times))
}

/// All rise, and most by less than a tick: a slow machine alone also makes different times.
fn are_fine(times: &[Timestamp]) -> bool {
    let steps: Vec<i64> = times.windows(2).map(|pair| pair[1].as_nanos() - pair[0].as_nanos()).collect();
    let close = steps.iter().filter(|step| **step < TICK).count();
    steps.iter().all(|step| *step > 0) && close * 2 > steps.len()
}

/// A file without a name, or `None` where the file system has none.
fn nameless(dir: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match with_room(|| openat(dir, c".", flags, Mode::from_raw_mode(0o600))) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::everywhere;

    #[test]
    fn reflinks_work_where_the_file_system_has_them() {
        everywhere(|served| {
            let expected = matches!(served.fs.caps().fs_type.as_str(), "btrfs" | "xfs" | "bcachefs");
            assert_eq!(probe_reflink(served.fd().as_fd()), Ok(expected));
            assert_eq!(std::fs::read_dir(served.dir.path()).unwrap().count(), 0, "nothing is left behind");
        });
    }

    #[test]
    fn fine_times_rise_with_each_write() {
        let times = |steps: &[i64]| {
            let mut at = 0;
            let all = steps.iter().map(|step| {
                at += step;
                Timestamp::from_nanos(at)
            });
            all.collect::<Vec<_>>()
        };
        for (steps, expected) in [
            (vec![2000; 50], true),
            (vec![0; 50], false),
            (vec![4_000_000; 50], false),
            ([vec![2000; 40], vec![4_000_000; 10]].concat(), true),
            ([vec![2000; 49], vec![0]].concat(), false),
        ] {
            assert_eq!(are_fine(&times(&steps)), expected, "{steps:?}");
        }
    }

    #[test]
    fn this_kernel_gives_fine_times_from_6_13_on() {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        everywhere(|served| {
            let multigrain = matches!(served.fs.caps().fs_type.as_str(), "ext4" | "btrfs" | "xfs" | "tmpfs");
            assert_eq!(probe_fine_ctime(served.fd().as_fd()), Ok(multigrain && version >= (6, 13)));
        });
    }
}
