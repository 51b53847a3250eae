//! Directory streams with the host's own cookies as offsets, so that entries removed while reading lose no other.

use std::{
    collections::VecDeque,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{RawDir, SeekFrom, seek};

use super::{Errno, Result, meta, mounts};
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
    /// The cookie of the first pending entry, or where the kernel reads on; `None` after an error.
    at: Option<u64>,
    /// Something may be mounted on an entry; asked whenever reading begins at the start.
    mounts: bool,
}

impl DirStream {
    /// Reads `dir` (opened O_RDONLY | O_DIRECTORY). What something else is mounted on is left out, as `open_child` refuses it.
    pub fn new(dir: OwnedFd) -> Self {
        let buffer = Box::new_uninit_slice(BUFFER);
        DirStream { dir, buffer, pending: VecDeque::new(), at: Some(0), mounts: true }
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
                self.at = Some(entry.next);
                self.pending.pop_front();
            }
            if !self.refill()? {
                return Ok(());
            }
        }
    }

    /// All entries, in the host's order.
    ///
    /// # Errors
    /// The host's.
    pub fn entries(&mut self) -> Result<Vec<DirEntry>> {
        self.go_to(0)?;
        let mut all = Vec::new();
        while self.refill()? {
            self.at = self.pending.back().map(|entry| entry.next).or(self.at);
            all.extend(self.pending.drain(..));
        }
        Ok(all)
    }

    /// The directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn go_to(&mut self, cookie: u64) -> Result<()> {
        if cookie != 0 {
            if Some(cookie) == self.at {
                return Ok(());
            }
            // The entry at the front was taken although `each` answered false.
            if let Some(before) = self.pending.iter().position(|entry| entry.next == cookie) {
                self.pending.drain(..=before);
                self.at = Some(cookie);
                return Ok(());
            }
        }
        if cookie == 0 {
            self.mounts = mounts::may_be_below(self.dir.as_fd());
        }
        self.pending.clear();
        self.at = None;
        seek(&self.dir, SeekFrom::Start(cookie))?;
        self.at = Some(cookie);
        Ok(())
    }

    /// Reads one buffer; false at the end of the directory. After an error the place in the stream is unknown.
    fn refill(&mut self) -> Result<bool> {
        self.fill().inspect_err(|_| {
            self.pending.clear();
            self.at = None;
        })
    }

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
                && !(self.mounts && mounts::is_mount_point(self.dir.as_fd(), &name))
                && let Some(kind) = kind_of(&self.dir, &name, Kind::from_host(entry.file_type()))?
            {
                self.pending.push_back(DirEntry { name, ino: entry.ino(), kind, next });
            }
            if raw.is_buffer_empty() {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rustix::fs::OFlags;

    use super::*;
    use crate::host::{
        Fs, remove_file,
        testing::{Served, everywhere, name},
    };

    fn stream(served: &Served) -> DirStream {
        DirStream::new(served.root.open(OFlags::RDONLY | OFlags::DIRECTORY).unwrap())
    }

    /// Up to `count` entries from `cookie`; a refused one is not among them.
    fn some(stream: &mut DirStream, cookie: u64, count: usize) -> Vec<DirEntry> {
        let mut taken = Vec::new();
        stream
            .read(cookie, &mut |entry| {
                let room = taken.len() < count;
                if room {
                    taken.push(entry);
                }
                room
            })
            .unwrap();
        taken
    }

    fn names(entries: &[DirEntry]) -> Vec<String> {
        entries.iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn entries_have_names_numbers_and_types() {
        everywhere(|served| {
            served.put("file", b"");
            std::os::unix::fs::symlink("file", served.dir.path().join("link")).unwrap();
            std::fs::create_dir(served.dir.path().join("dir")).unwrap();
            let odd = name(b"\xff");
            crate::host::make_node(served.fd().as_fd(), &odd, 0o010_600, 0).unwrap();
            let mut found = stream(served).entries().unwrap();
            found.sort_by(|a, b| a.name.cmp(&b.name));
            let kinds: Vec<_> = found.iter().map(|entry| (entry.name.as_bytes(), entry.kind)).collect();
            assert_eq!(
                kinds,
                [(&b"dir"[..], Kind::Dir), (b"file", Kind::File), (b"link", Kind::Symlink), (b"\xff", Kind::Fifo)]
            );
            for entry in &found {
                assert_eq!(meta::stat_child(served.fd().as_fd(), &entry.name).unwrap().ino, entry.ino);
            }
        });
    }

    #[test]
    fn reading_goes_on_at_any_cookie() {
        everywhere(|served| {
            for n in 0..2500 {
                served.put(&format!("{n}-{}", "x".repeat(40)), b"");
            }
            let mut stream = stream(served);
            let all = stream.entries().unwrap();
            assert_eq!(all.len(), 2500);
            for at in [0, 1, 777, 1500, 2498] {
                let rest = some(&mut stream, all[at].next, usize::MAX);
                assert_eq!(names(&rest), names(&all[at + 1..]), "after {at}");
            }
            // In small bites: with the last entry refused, and with it taken.
            let (mut bites, mut cookie) = (Vec::new(), 0);
            loop {
                let bite = some(&mut stream, cookie, 7);
                let Some(last) = bite.last() else { break };
                cookie = last.next;
                bites.extend(bite);
                let mut one = None;
                stream
                    .read(cookie, &mut |entry| {
                        one = Some(entry);
                        false
                    })
                    .unwrap();
                cookie = one.as_ref().map_or(cookie, |entry| entry.next);
                bites.extend(one);
            }
            assert_eq!(names(&bites), names(&all));
        });
    }

    #[test]
    fn removing_while_reading_loses_no_other() {
        everywhere(|served| {
            for n in 0..3000 {
                served.put(&n.to_string(), b"");
            }
            let mut stream = stream(served);
            let (mut seen, mut cookie) = (BTreeSet::new(), 0);
            loop {
                let bite = some(&mut stream, cookie, 100);
                let Some(last) = bite.last() else { break };
                cookie = last.next;
                for entry in bite {
                    remove_file(served.fd().as_fd(), &entry.name).unwrap();
                    assert!(seen.insert(entry.name));
                }
            }
            assert_eq!(seen.len(), 3000);
            assert_eq!(stream.entries(), Ok(vec![]));
        });
    }

    #[test]
    fn the_start_is_always_fresh() {
        everywhere(|served| {
            served.put("a", b"");
            let mut stream = stream(served);
            assert_eq!(names(&some(&mut stream, 0, 9)), ["a"]);
            // Read into the buffer, and not taken.
            assert_eq!(names(&some(&mut stream, 0, 0)), [""; 0]);
            std::fs::remove_file(served.dir.path().join("a")).unwrap();
            served.put("b", b"");
            assert_eq!(names(&some(&mut stream, 0, 9)), ["b"]);
        });
    }

    #[test]
    fn a_removed_directory_has_no_entries() {
        everywhere(|served| {
            let path = served.dir.path().join("d");
            std::fs::create_dir(&path).unwrap();
            let (_, root) = Fs::open_root(&path, &[]).unwrap();
            let mut stream = DirStream::new(root.open(OFlags::RDONLY | OFlags::DIRECTORY).unwrap());
            std::fs::remove_dir(&path).unwrap();
            assert_eq!(stream.entries(), Err(Errno::NOENT));
            assert_eq!(stream.entries(), Err(Errno::NOENT));
        });
    }
}
