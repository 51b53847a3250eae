//! How long history is kept, and how much of it.

use std::{path::Path, time::Duration};

use super::{StoreError, error::failed};

const DAY: u64 = 24 * 60 * 60;
const GIB: u64 = 1 << 30;
/// The quota, if none is chosen, is at most so much, and at most these parts of the file system and of what is free on it.
const QUOTA_MAX: u64 = 10 * GIB;
const OF_ALL: u64 = 10;
const OF_FREE: u64 = 4;
/// So much of the file system is left free, at least: a part of it, or this if the disk is large.
const LEFT_FREE: u64 = 50;
const LEFT_FREE_MAX: u64 = GIB;

/// What happens when the store is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFull {
    /// The oldest history is dropped, with rows that say so.
    #[default]
    DropOldest,
    /// Changes that need their old content kept are refused with EDQUOT.
    Refuse,
}

/// What is kept, for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Every version for this long after it was superseded.
    pub full: Duration,
    /// Then the first and the last of each session, of each file, up to this age.
    pub sessions: Duration,
    /// Then the last of each session, up to this age; then nothing.
    pub age: Duration,
    /// Bytes of one file's history; none for no bound.
    pub per_file: Option<u64>,
    /// Names of directories below which history is kept shortly, and dropped first.
    pub short: Vec<String>,
    /// For how long.
    pub short_age: Duration,
    /// And how many bytes of it in all.
    pub short_bytes: u64,
    /// Bytes of the whole store; none for a part of the disk.
    pub bytes: Option<u64>,
    /// What happens when they are used up.
    pub on_full: OnFull,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            full: Duration::from_secs(DAY),
            sessions: Duration::from_secs(7 * DAY),
            age: Duration::from_secs(30 * DAY),
            per_file: None,
            short: ["target", "node_modules", ".venv", "dist", "build", "__pycache__"].map(str::to_owned).to_vec(),
            short_age: Duration::from_secs(DAY),
            short_bytes: 2 * GIB,
            bytes: None,
            on_full: OnFull::DropOldest,
        }
    }
}

impl Retention {
    /// Is a path of the class that is kept shortly?
    pub(super) fn is_short(&self, path: &[u8]) -> bool {
        path.split(|byte| *byte == b'/').any(|part| self.short.iter().any(|name| name.as_bytes() == part))
    }
}

/// A file system's size and what is free of it for us, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Disk {
    pub size: u64,
    pub free: u64,
}

impl Disk {
    /// The disk that a directory is on.
    pub fn of(path: &Path) -> Result<Disk, StoreError> {
        let stat = rustix::fs::statvfs(path).map_err(|e| failed(path, e.into()))?;
        Ok(Disk { size: stat.f_blocks * stat.f_frsize, free: stat.f_bavail * stat.f_frsize })
    }

    /// The quota if none is chosen; `used` is what the store takes already.
    pub fn quota(&self, used: u64) -> u64 {
        QUOTA_MAX.min(self.size / OF_ALL).min((self.free + used) / OF_FREE)
    }

    /// How much of it must stay free: 2 %, and on disks that have it, 1 GiB.
    pub fn left_free(&self) -> u64 {
        (self.size / LEFT_FREE).max(LEFT_FREE_MAX.min(self.size / OF_ALL / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_by_the_names_of_directories() {
        let check =
            |path: &str, expected| assert_eq!(Retention::default().is_short(path.as_bytes()), expected, "{path}");
        check("target/debug/a", true);
        check("a/node_modules/b/c", true);
        check("src/targets/a", false);
        check("src/my target/a", false);
        check("", false);
    }

    #[test]
    fn the_quota_is_a_part_of_the_disk() {
        let check = |size, free, used, expected| {
            assert_eq!(Disk { size, free }.quota(used), expected, "{size} {free} {used}");
        };
        check(1000 * GIB, 900 * GIB, 0, 10 * GIB);
        check(50 * GIB, 40 * GIB, 0, 5 * GIB);
        check(50 * GIB, 8 * GIB, 0, 2 * GIB);
        check(50 * GIB, 7 * GIB, GIB, 2 * GIB);
        let left = |size| Disk { size, free: 0 }.left_free();
        assert_eq!(left(1000 * GIB), 20 * GIB);
        assert_eq!(left(40 * GIB), GIB);
        assert_eq!(left(GIB), GIB / 20);
    }
}
