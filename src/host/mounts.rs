//! Mount points on the way: what is mounted below a directory is not part of what is served.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read, Seek},
    os::fd::BorrowedFd,
};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, StatxAttributes, StatxFlags, statx},
};

use super::Errno;
use crate::types::EntryName;

/// The mounts that others stand on, by their ids, as they were when the kernel last told of a change.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

struct Table {
    mountinfo: File,
    carriers: HashSet<u64>,
}

/// May something be mounted on an entry of this directory? Costs two system calls, and none for each entry if not.
pub(super) fn may_be_below(dir: BorrowedFd<'_>) -> bool {
    let Ok(found) = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) else { return true };
    let mut table = TABLE.lock();
    // Where the table can't be read, each entry is asked.
    carries(&mut table, found.stx_mnt_id).unwrap_or(true)
}

/// Is something mounted on this entry? False if it is gone.
pub(super) fn is_mount_point(dir: BorrowedFd<'_>, name: &EntryName) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(dir, name.as_bytes(), flags, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn carries(table: &mut Option<Table>, mount: u64) -> io::Result<bool> {
    let known = match table {
        Some(known) => known,
        None => table.insert(Table { mountinfo: File::open("/proc/thread-self/mountinfo")?, carriers: HashSet::new() }),
    };
    let mut change = [PollFd::new(&known.mountinfo, PollFlags::PRI)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let changed = loop {
        match poll(&mut change, Some(&now)) {
            Err(Errno::INTR) => {}
            done => break done? > 0,
        }
    };
    if changed || known.carriers.is_empty() {
        known.mountinfo.rewind()?;
        let mut text = Vec::new();
        known.mountinfo.read_to_end(&mut text)?;
        known.carriers = parents(&String::from_utf8_lossy(&text));
    }
    Ok(known.carriers.contains(&mount))
}

/// The second field of each line: the mount it stands on.
fn parents(mountinfo: &str) -> HashSet<u64> {
    mountinfo.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_below_is_the_second_number() {
        let table = "36 35 98:0 /a /mnt rw,noatime - ext4 /dev/root rw\n40 36 0:5 / /mnt/proc rw - proc proc rw\n";
        assert_eq!(parents(table), HashSet::from([35, 36]));
        assert_eq!(parents("torn"), HashSet::new());
    }

    #[test]
    fn proc_is_a_mount_point_and_etc_is_none() {
        let root = File::open("/").unwrap();
        let root = std::os::fd::AsFd::as_fd(&root);
        let name = |text: &str| EntryName::new(text.as_bytes()).unwrap();
        assert!(may_be_below(root) && is_mount_point(root, &name("proc")));
        assert!(!is_mount_point(root, &name("etc")) && !is_mount_point(root, &name("no such name")));
    }
}
