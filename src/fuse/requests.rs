//! How often the kernel asked for what: what it believes without asking shows in what is not counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Lookup,
    Forget,
    Getattr,
    Setattr,
    Readlink,
    Mknod,
    Mkdir,
    Unlink,
    Rmdir,
    Symlink,
    Rename,
    Link,
    Open,
    Read,
    Write,
    Flush,
    Release,
    Fsync,
    Opendir,
    Readdir,
    Readdirplus,
    Fsyncdir,
    Statfs,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
    Access,
    Create,
    Ioctl,
    Fallocate,
    Lseek,
    CopyFileRange,
}

/// All kinds, in the order of [`Asked`].
const NAMES: [&str; 33] = [
    "lookup",
    "forget",
    "getattr",
    "setattr",
    "readlink",
    "mknod",
    "mkdir",
    "unlink",
    "rmdir",
    "symlink",
    "rename",
    "link",
    "open",
    "read",
    "write",
    "flush",
    "release",
    "fsync",
    "opendir",
    "readdir",
    "readdirplus",
    "fsyncdir",
    "statfs",
    "setxattr",
    "getxattr",
    "listxattr",
    "removexattr",
    "access",
    "create",
    "ioctl",
    "fallocate",
    "lseek",
    "copy_file_range",
];

/// The requests of one mount since its start.
pub(super) struct Requests([AtomicU64; NAMES.len()]);

impl Default for Requests {
    fn default() -> Self {
        Requests(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Requests {
    /// One more.
    pub fn count(&self, asked: Asked) {
        if let Some(count) = self.0.get(asked as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many of each kind, without those that never came.
    pub fn told(&self) -> Vec<(&'static str, u64)> {
        let counted = NAMES.iter().zip(&self.0).map(|(name, count)| (*name, count.load(Ordering::Relaxed)));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_their_names() {
        let requests = Requests::default();
        for asked in [Asked::Lookup, Asked::CopyFileRange, Asked::Lookup] {
            requests.count(asked);
        }
        assert_eq!(requests.told(), [("lookup", 2), ("copy_file_range", 1)]);
    }
}
