//! For this module's tests: directories on file systems of different kinds, and names in them.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::{Fs, HostRef, open_child};
use crate::types::{Attr, EntryName};

/// A temporary directory as a served root.
pub(super) struct Served {
    pub dir: tempfile::TempDir,
    pub fs: Arc<Fs>,
    pub root: HostRef,
}

/// A checked name.
pub(super) fn name(bytes: impl AsRef<[u8]>) -> EntryName {
    EntryName::new(bytes.as_ref()).unwrap()
}

/// On the file system of `/tmp` (ext4 or what the machine has), and on tmpfs.
pub(super) fn everywhere(check: impl Fn(&Served)) {
    for base in [std::env::temp_dir(), "/dev/shm".into()] {
        let dir = tempfile::tempdir_in(base).unwrap();
        let (fs, root) = Fs::open_root(dir.path(), &[]).unwrap();
        check(&Served { dir, fs, root });
    }
}

impl Served {
    /// The root, for calls by name.
    pub fn fd(&self) -> Arc<OwnedFd> {
        self.root.path_fd().unwrap()
    }

    /// Once more the root, to be shared.
    pub fn shared_root(&self) -> Arc<HostRef> {
        let fd = rustix::fs::openat(self.fd(), ".", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        Arc::new(self.fs.adopt(fd).unwrap().0)
    }

    /// What lookup does.
    pub fn look_up(&self, entry: &str) -> (HostRef, Attr) {
        self.fs.adopt(open_child(self.fd().as_fd(), &name(entry)).unwrap()).unwrap()
    }

    /// A file put there by someone else.
    pub fn put(&self, entry: &str, content: &[u8]) -> std::path::PathBuf {
        let path = self.dir.path().join(entry);
        std::fs::write(&path, content).unwrap();
        path
    }
}
