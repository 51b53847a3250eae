//! What `stat` tells of a file, and the time stamps in it.

use rustix::fs::FileType;

/// Seconds and nanoseconds since 1970-01-01 UTC; `nanos` is always 0 to 999,999,999, also before 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub secs: i64,
    /// Nanoseconds after `secs`.
    pub nanos: u32,
}

/// A file's type (`S_IFMT`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// The attributes of one inode, read in one `statx`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// The host's inode number.
    pub ino: u64,
    /// The host's device number.
    pub dev: u64,
    /// The type.
    pub kind: Kind,
    /// Permission, setuid, setgid and sticky bits (`07777`).
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as `makedev(3)`.
    pub rdev: u64,
    /// Bytes.
    pub size: u64,
    /// 512-byte blocks in use.
    pub blocks: u64,
    /// Preferred size of I/O.
    pub blksize: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of anything; the kernel sets it, nobody else can.
    pub ctime: Timestamp,
    /// Birth, where the file system keeps it.
    pub btime: Option<Timestamp>,
}

impl Timestamp {
    /// The wall clock.
    #[must_use]
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Timestamp { secs: t.tv_sec, nanos: u32::try_from(t.tv_nsec).expect("the kernel gives less than a second") }
    }

    /// Nanoseconds since 1970, as the log stores times; saturates in the year 2262.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        self.secs.saturating_mul(1_000_000_000).saturating_add(i64::from(self.nanos))
    }

    /// The inverse of [`Timestamp::as_nanos`].
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Timestamp {
            secs: nanos.div_euclid(1_000_000_000),
            nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).expect("a remainder below 10^9"),
        }
    }

    /// RFC 3339 in UTC, as results carry times.
    #[must_use]
    pub fn rfc3339(self) -> String {
        i32::try_from(self.nanos)
            .ok()
            .and_then(|nanos| jiff::Timestamp::new(self.secs, nanos).ok())
            .map_or_else(|| format!("@{}.{:09}", self.secs, self.nanos), |t| t.to_string())
    }
}

impl Kind {
    /// From what `statx` or `getdents` says; `None` for a type Linux does not have.
    #[must_use]
    pub fn from_host(kind: FileType) -> Option<Self> {
        Some(match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Unknown => return None,
        })
    }

    /// The word results carry: file, directory, symlink, or other.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Dir => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let t = Timestamp { secs: -1, nanos: 250_000_000 };
        assert_eq!(Timestamp::from_nanos(t.as_nanos()), t);
        assert_eq!(t.rfc3339(), "1969-12-31T23:59:59.25Z");
    }
}
