//! Directory streams with the host's own cookies as offsets, so that entries removed while reading lose no other.

use std::{
    collections::VecDeque,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{RawDir, SeekFrom, seek};

use super::{Errno, Result, meta};
use crate::types::{EntryName, Kind};

const BUFFER: usize = 32 * 1024;

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
    dir: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
    /// Entries read from the kernel and not yet taken, in order.
    pending: VecDeque<DirEntry>,
    /// The cookie of the first pending entry, or where the kernel reads on.
    at: u64,
}

impl DirStream {
    /// Reads `dir` (opened O_RDONLY | O_DIRECTORY).
    pub fn new(dir: OwnedFd) -> Self {
        DirStream { dir, buffer: Box::new_uninit_slice(BUFFER), pending: VecDeque::new(), at: 0 }
    }

    /// Entries from `cookie` on (0 is the start) until `each` answers false or the end. Sequential use keeps the
    /// buffer; another cookie seeks, and 0 always sees the directory as it is now. An entry for which `each` answered
    /// false comes again at the next call if the cookie says so.
    ///
    /// # Errors
    /// The host's.
    pub fn read(&mut self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        self.go_to(cookie)?;
        loop {
            while let Some(entry) = self.pending.front() {
                if !each(entry.clone()) {
                    return Ok(());
                }
                self.at = entry.next;
                self.pending.pop_front();
            }
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    /// All entries, in the host's order.
    ///
    /// # Errors
    /// The host's.
    pub fn entries(&mut self) -> Result<Vec<DirEntry>> {
        let mut all = Vec::new();
        self.read(0, &mut |entry| {
            all.push(entry);
            true
        })?;
        Ok(all)
    }

    /// The directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn go_to(&mut self, cookie: u64) -> Result<()> {
        if cookie != 0 {
            if cookie == self.at {
                return Ok(());
            }
            // The entry at the front was taken although `each` answered false.
            if let Some(before) = self.pending.iter().position(|entry| entry.next == cookie) {
                self.pending.drain(..=before);
                self.at = cookie;
                return Ok(());
            }
        }
        self.pending.clear();
        seek(&self.dir, SeekFrom::Start(cookie))?;
        self.at = cookie;
        Ok(())
    }

    /// Reads one buffer; false at the end of the directory.
    fn fill(&mut self) -> Result<bool> {
        let mut raw = RawDir::new(&self.dir, &mut self.buffer);
        loop {
            let entry = match raw.next() {
                None => return Ok(false),
                Some(Err(Errno::INTR)) => continue,
                Some(entry) => entry?,
            };
            let next = entry.next_entry_cookie();
            // A name that Linux itself would not accept (some network file systems have them) cannot be asked for.
            if let Ok(name) = EntryName::new(entry.file_name().to_bytes())
                && let Some(kind) = kind_of(&self.dir, &name, Kind::from_host(entry.file_type()))?
            {
                self.pending.push_back(DirEntry { name, ino: entry.ino(), kind, next });
            }
            if raw.is_buffer_empty() {
                if self.pending.is_empty() {
                    self.at = next;
                }
                return Ok(true);
            }
        }
    }
}

/// `None` for an entry that went away before it could be asked.
fn kind_of(dir: &OwnedFd, name: &EntryName, told: Option<Kind>) -> Result<Option<Kind>> {
    if told.is_some() {
        return Ok(told);
    }
    match meta::stat_child(dir.as_fd(), name) {
        Ok(attr) => Ok(Some(attr.kind)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
