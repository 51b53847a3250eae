//! Attributes, times, types and device numbers, between the room's terms and the protocol's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

use crate::{
    host::SetTime,
    types::{Ino, Kind, Timestamp},
    view::NodeAttr,
};

/// A node's attributes as replies carry them.
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
        rdev: short_rdev(attr.rdev),
        blksize: attr.blksize,
        flags: 0,
    }
}

/// Only a number and a type: for `.` and `..`, of which the kernel takes no more, and with number 0 for "nothing there".
pub(super) fn bare_attr(ino: Ino) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The type as replies carry it.
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

fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    if time.secs >= 0 { UNIX_EPOCH + whole + nanos } else { UNIX_EPOCH - whole + nanos }
}

/// What `utimensat` asked for.
pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(asked(time)),
    }
}

/// fuser makes `UNIX_EPOCH - (seconds + nanoseconds)` of a time before 1970, although the kernel's nanoseconds always
/// count upwards; read back the same way, nothing is lost.
fn asked(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { secs: after.as_secs().cast_signed(), nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Timestamp { secs: before.as_secs().cast_signed().wrapping_neg(), nanos: before.subsec_nanos() }
        }
    }
}

/// The protocol's device number (`new_encode_dev` of the kernel): 12 bits of major, 20 of minor number.
fn short_rdev(rdev: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}

/// The device number that [`short_rdev`] shortened.
pub(super) fn long_rdev(rdev: u32) -> u64 {
    rustix::fs::makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_out_and_in() {
        for (secs, nanos) in [(0, 0), (0, 1), (5, 999_999_999), (-1, 0), (-1, 1), (-1, 999_999_999), (-86_400, 5)] {
            let time = Timestamp { secs, nanos };
            let out = system_time(time);
            let offset = i128::from(secs) * 1_000_000_000 + i128::from(nanos);
            let expected = match out.duration_since(UNIX_EPOCH) {
                Ok(after) => i128::try_from(after.as_nanos()).unwrap(),
                Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap(),
            };
            assert_eq!(offset, expected, "{time:?}");
            // As the library reads it from the kernel.
            let raw = Duration::new(secs.unsigned_abs(), nanos);
            let read = if secs >= 0 { UNIX_EPOCH + raw } else { UNIX_EPOCH - raw };
            assert_eq!(asked(read), time, "{time:?}");
        }
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for secs in [i64::MIN, i64::MAX] {
            system_time(Timestamp { secs, nanos: 999_999_999 });
        }
    }

    #[test]
    fn device_numbers_survive_both_ways() {
        for (major, minor) in [(0, 0), (1, 3), (8, 17), (259, 1), (4095, 0xf_ffff), (10, 229)] {
            let rdev = rustix::fs::makedev(major, minor);
            assert_eq!(long_rdev(short_rdev(rdev)), rdev, "{major}:{minor}");
        }
        assert_eq!(short_rdev(rustix::fs::makedev(1, 3)), 0x103);
    }
}
