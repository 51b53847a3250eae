//! One served file system: how its inodes are named by handle, opened again, and kept within the descriptor limit.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::fs::OFlags;

use super::Result;
use crate::types::Attr;

/// An inode's identity on one file system for as long as it exists: the kernel's file handle (with generation)
/// where the file system gives one, else inode number and birth time (and then the `HostRef` pins a descriptor).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FileKey {
    /// Which served file system, by order of opening in this process.
    pub fs: u32,
    /// The host's inode number.
    pub ino: u64,
    /// `handle_type` (4 bytes, little endian) and the handle's bytes; or birth time where there is none.
    pub handle: Box<[u8]>,
}

/// What one file system can do, probed at opening.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsCaps {
    /// `open_by_handle_at` works here and for us.
    pub handles: bool,
    /// FICLONE works (probed by the version store, false until then).
    pub reflink: bool,
    /// Name of its type as in `/proc/self/mountinfo` (`ext4`, `xfs`, `btrfs`, `tmpfs`, `overlay`, `fuse.…`).
    pub fs_type: String,
}

/// One served file system (a mount of it), shared by all sources on it.
pub struct Fs {
    // implementation: id, mount fd (O_RDONLY of the first source's root) for open_by_handle_at, st_dev, caps,
    // LRU of O_PATH descriptors
}

/// One inode: reopened by handle when needed, or pinned by a descriptor.
pub struct HostRef {
    // implementation
}

impl Fs {
    /// Opens the directory at `path` (symlinks followed: the human named it) as a source's root: its file system (the
    /// one in `known` with the same mount, else a new one) and a pinned reference to the directory.
    ///
    /// # Errors
    /// The host's; ENOTDIR if it is no directory.
    pub fn open_root(path: &Path, known: &[Arc<Fs>]) -> Result<(Arc<Fs>, HostRef)> {
        todo!()
    }

    /// Process-wide number, the `fs` of every key on it.
    pub fn id(&self) -> u32 {
        todo!()
    }

    /// `st_dev` of the file system.
    pub fn dev(&self) -> u64 {
        todo!()
    }

    pub fn mount_id(&self) -> u64 {
        todo!()
    }
    /// What it can do.
    pub fn caps(&self) -> &FsCaps {
        todo!()
    }

    /// A reference to the inode behind `fd` (an O_PATH or other descriptor on this file system), and its attributes.
    /// Takes the descriptor: it goes into the cache, or is pinned where handles do not work.
    ///
    /// # Errors
    /// EXDEV if it lies on another mount (nested mounts are not served); the host's.
    pub fn adopt(self: &Arc<Self>, fd: OwnedFd) -> Result<(HostRef, Attr)> {
        todo!()
    }
}

impl HostRef {
    /// Its identity.
    pub fn key(&self) -> &FileKey {
        todo!()
    }

    pub fn stable_key(&self) -> Box<[u8]> {
        todo!()
    }
    /// Its file system.
    pub fn fs(&self) -> &Arc<Fs> {
        todo!()
    }

    /// An O_PATH descriptor of it, from the cache or by handle.
    ///
    /// # Errors
    /// ESTALE once the inode is gone; EMFILE never: the cache gives way.
    pub fn path_fd(&self) -> Result<Arc<OwnedFd>> {
        todo!()
    }

    /// Opens it for I/O. Only regular files and directories are ever opened; other kinds answer ENXIO. O_CLOEXEC,
    /// O_NOFOLLOW and O_NONBLOCK-for-the-open are added; O_CREAT, O_EXCL, O_DIRECT and O_NOATIME are stripped.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        todo!()
    }

    /// Keeps a descriptor for as long as the `HostRef` lives (open files, unlinked files). Idempotent.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn pin(&self) -> Result<()> {
        todo!()
    }

    /// Lets a pinned descriptor go back to the cache, where handles work.
    pub fn unpin(&self) {
        todo!()
    }

    /// `statx` of it.
    ///
    /// # Errors
    /// ESTALE, or the host's.
    pub fn attr(&self) -> Result<Attr> {
        todo!()
    }
}
