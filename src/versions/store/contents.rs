//! Contents: kept once in the log, or aside as files; read back as what they were, or not at all.

use std::{
    fs::File,
    io::{Cursor, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering,
};

use super::{Result, Store};
use crate::{
    types::{EntryName, Hash, Hasher, Lsn, NodeId},
    versions::{ChangeKind, Content, Loss, Operation, State, StoreError, Trim, blob, error::failed, frame::RecordType},
};

impl Store {
    /// Keeps a content in the log, once however often it is given. Returns its hash and the position up to which a sync
    /// makes it durable (`Lsn(0)` if it is durable already).
    ///
    /// # Errors
    /// As `append`.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<(Hash, Lsn)> {
        let hash = Hash::of(bytes);
        if let Some(lsn) = self.blobs.claim(&hash, &self.log)? {
            let behind = lsn.0 + 1;
            return Ok((hash, if self.flusher.flushed() >= behind { Lsn(0) } else { Lsn(behind) }));
        }
        self.admit()?;
        let (flags, payload) = blob::encode(&hash, bytes);
        let end = self.put_with(RecordType::Blob, flags, &payload, |lsn, _| self.blobs.insert(hash, lsn))?;
        Ok((hash, end))
    }

    /// Is this content in the log?
    pub fn has_blob(&self, hash: &Hash) -> bool {
        self.blobs.claim(hash, &self.log).is_ok_and(|found| found.is_some())
    }

    /// The directory `aside/`: files go there and come back by link and rename. EXDEV tells that they must be copied.
    pub fn aside_dir(&self) -> BorrowedFd<'_> {
        self.aside.as_fd()
    }

    /// The directory `tmp/`.
    pub fn tmp_dir(&self) -> BorrowedFd<'_> {
        self.tmp.as_fd()
    }

    /// A fresh name for `aside/`: the node, the log position in hex, and what makes it unlike any other. Recovery reads the
    /// node back.
    pub fn aside_name(&self, node: NodeId) -> EntryName {
        let count = self.names.fetch_add(1, Ordering::Relaxed);
        let name = format!("{node}-{:x}-{:08x}{count:x}", self.log.end(), self.life);
        EntryName::new(name.as_bytes()).expect("digits and dashes")
    }

    /// A fresh name for `tmp/`.
    pub fn tmp_name(&self) -> EntryName {
        let count = self.names.fetch_add(1, Ordering::Relaxed);
        EntryName::new(format!("{:08x}-{count:x}", self.life).as_bytes()).expect("digits and dashes")
    }

    /// Opens a file in `aside/` for reading.
    ///
    /// # Errors
    /// `Io`.
    pub fn open_aside(&self, name: &str) -> Result<OwnedFd> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::openat(&self.aside, name, flags, rustix::fs::Mode::empty())
            .map_err(|e| failed(&self.path.join("aside").join(name), e.into()))
    }

    /// Is there a file of this name in `aside/`?
    pub fn has_aside(&self, name: &str) -> bool {
        rustix::fs::statat(&self.aside, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Does a record explain this file in `aside/`?
    ///
    /// # Errors
    /// `Index`.
    pub fn knows_aside(&self, name: &str) -> Result<bool> {
        self.indexer.ask(|index| index.knows_aside(name))
    }

    /// A reader of a content that is in the store (`Blob`, `Aside`, `Target`), verified against its hash where one is known:
    /// of a file aside at its end, by an error in place of it.
    ///
    /// # Errors
    /// `Unavailable` for `Lost`, `Live` and `None`; `Corrupt`; `Io`.
    pub fn read(&self, content: &Content) -> Result<Box<dyn Read + Send>> {
        Ok(match content {
            Content::Target(target) => Box::new(Cursor::new(target.clone())),
            Content::Blob(hash) => Box::new(Cursor::new(self.blob(hash)?)),
            Content::Aside(name) => {
                let file = File::from(self.open_aside(name)?);
                match self.indexer.ask(|index| index.aside_hash(name))? {
                    Some(hash) => Box::new(Verified { file, hash, seen: Hasher::default() }),
                    None => Box::new(file),
                }
            }
            Content::Lost(loss) => return Err(StoreError::Unavailable(*loss)),
            Content::None | Content::Live(_) => return Err(StoreError::Unavailable(Loss::External)),
        })
    }

    /// All of a content of at most `limit` bytes.
    ///
    /// # Errors
    /// As `read`; `Io` with EFBIG over the limit.
    pub fn read_all(&self, content: &Content, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut reader = self.read(content)?.take(limit.saturating_add(1));
        reader.read_to_end(&mut bytes).map_err(|error| match error.get_ref().and_then(|e| e.downcast_ref()) {
            Some(Wrong(hash)) => StoreError::Corrupt(*hash),
            None => failed(&self.path, error),
        })?;
        if bytes.len() as u64 > limit {
            return Err(failed(&self.path, std::io::Error::from_raw_os_error(libc::EFBIG)));
        }
        Ok(bytes)
    }

    fn blob(&self, hash: &Hash) -> Result<Vec<u8>> {
        match self.blob_within(hash, blob::CHAIN_MAX + 1) {
            Err(StoreError::Corrupt(found)) => match self.trim_of(hash)? {
                Some(trim) if self.blobs.find(hash, &self.log)?.is_none() => {
                    Err(StoreError::Unavailable(Loss::Trimmed(trim)))
                }
                Some(_) | None => Err(StoreError::Corrupt(found)),
            },
            read => read,
        }
    }

    /// A content that stands at the end of at most so many others, each the difference to the next.
    pub(in crate::versions) fn blob_within(&self, hash: &Hash, links: usize) -> Result<Vec<u8>> {
        let lsn = self.blobs.find(hash, &self.log)?.filter(|_| links > 0).ok_or(StoreError::Corrupt(*hash))?;
        match self.log.read(lsn) {
            Ok(record) => {
                blob::decode(hash, record.flags, &record.payload, &mut |base| self.blob_within(base, links - 1))
            }
            Err(StoreError::Damaged(_)) => Err(StoreError::Corrupt(*hash)),
            Err(error) => Err(error),
        }
    }

    /// When and why a content was dropped, if it was.
    fn trim_of(&self, hash: &Hash) -> Result<Option<Trim>> {
        self.indexer.ask_now(|index| index.trimmed(hash))
    }

    /// Why a recorded content is not in the store any more, if it was dropped.
    fn dropped(&self, content: &Content) -> Result<Option<Trim>> {
        if !self.keeping.has_trimmed() {
            return Ok(None);
        }
        match content {
            Content::Blob(hash) if self.blobs.find(hash, &self.log)?.is_none() => self.trim_of(hash),
            Content::Aside(name) => self.indexer.ask_now(|index| index.trimmed_aside(name)),
            Content::Blob(_) | Content::None | Content::Target(_) | Content::Live(_) | Content::Lost(_) => Ok(None),
        }
    }

    /// Corrects the last state of a file that is there: what was dropped of it is in the file itself.
    ///
    /// # Errors
    /// `Index`.
    pub fn freshen(&self, state: &mut State) -> Result<()> {
        if let Content::Blob(hash) = &state.content {
            // It may be referred to as soon as this returns.
            self.blobs.tell(hash);
        }
        if self.dropped(&state.content)?.is_some() {
            state.content = Content::Live(state.hash());
        }
        Ok(())
    }

    /// Says of each content of an operation that was dropped that it was.
    pub(super) fn tell_dropped(&self, operation: &mut Operation) -> Result<()> {
        if !self.keeping.has_trimmed() {
            return Ok(());
        }
        let op = operation.op;
        for change in &mut operation.changes {
            let alive = || self.indexer.ask_now(|index| index.is_unchanged_since(op, change.node));
            let moved = match change.kind {
                ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Link => true,
                ChangeKind::Create | ChangeKind::Write | ChangeKind::Remove | ChangeKind::Exchange => false,
            };
            for (state, may_live) in [(&mut change.before, moved), (&mut change.after, true)] {
                let Some(state) = state else { continue };
                let Some(trim) = self.dropped(&state.content)? else { continue };
                state.content = if may_live && change.kind != ChangeKind::Exchange && alive()? {
                    Content::Live(state.hash())
                } else {
                    Content::Lost(Loss::Trimmed(trim))
                };
            }
        }
        Ok(())
    }
}

/// A file aside whose bytes must have a hash.
struct Verified {
    file: File,
    hash: Hash,
    seen: Hasher,
}

/// It has another one.
#[derive(Debug, thiserror::Error)]
#[error("content {0} is damaged in the store")]
struct Wrong(Hash);

impl Read for Verified {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let got = self.file.read(buf)?;
        self.seen.update(&buf[..got]);
        if got == 0 && !buf.is_empty() && self.seen.clone().finish() != self.hash {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, Wrong(self.hash)));
        }
        Ok(got)
    }
}
