//! Directory streams with the host's own cookies as offsets, so that entries removed while reading lose no other.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::Result;
use crate::types::{EntryName, Kind};

/// One entry, as `getdents64` gives it; `.` and `..` are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Its name.
    pub name: EntryName,
    /// The host's inode number.
    pub ino: u64,
    /// Its type; read by `statx` where the file system does not tell.
    pub kind: Kind,
    /// The offset of the entry after it (`d_off`): an opaque cookie.
    pub next: u64,
}

/// An open directory that is read from any cookie.
pub struct DirStream {
    // implementation: O_RDONLY|O_DIRECTORY descriptor, 32 KiB buffer and where in the stream it stands
}

impl DirStream {
    /// Reads `dir` (opened O_RDONLY | O_DIRECTORY).
    pub fn new(dir: OwnedFd) -> Self {
        todo!()
    }

    /// Entries from `cookie` on (0 is the start) until `each` answers false or the end. Sequential use keeps the
    /// buffer; another cookie seeks.
    ///
    /// # Errors
    /// The host's.
    pub fn read(&mut self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        todo!()
    }

    /// All entries, in the host's order.
    ///
    /// # Errors
    /// The host's.
    pub fn entries(&mut self) -> Result<Vec<DirEntry>> {
        todo!()
    }

    /// The directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        todo!()
    }
}
