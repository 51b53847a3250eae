//! Contents as tools see them: opened for reading, hashed between two looks at the file, remembered while it stands still.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::OFlags;

use super::{Result, View, ViewError, file::FileState, node::Node};
use crate::{
    host::{self, Errno},
    types::{Attr, Hash, Hasher, Kind, OpId, ViewPath},
};

/// How much is read at once when a content streams past.
const CHUNK: usize = 256 << 10;

/// A regular file open for reading, at one path of a view.
pub struct Reading {
    /// The path it was opened by, symlinks resolved.
    pub path: ViewPath,
    /// Its attributes when it was opened.
    pub attr: Attr,
    pub(crate) node: Arc<Node>,
    pub(crate) fd: OwnedFd,
}

impl Reading {
    /// Reads at an offset; short only at the end.
    ///
    /// # Errors
    /// The host's.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(host::read_exact_at(self.fd.as_fd(), buf, offset)?)
    }

    /// Its attributes now.
    ///
    /// # Errors
    /// The host's.
    pub fn attr_now(&self) -> Result<Attr> {
        Ok(host::stat(self.fd.as_fd())?)
    }
}

impl View {
    /// Opens a node for reading.
    pub(crate) fn reading(&self, node: &Arc<Node>, path: ViewPath) -> Result<Reading> {
        only_file(node.file.kind, &path)?;
        let fd = node.file.host.open(OFlags::RDONLY)?;
        let attr = host::stat(fd.as_fd())?;
        Ok(Reading { path, attr, node: Arc::clone(node), fd })
    }

    /// The hash of a whole file; from memory while the file is as it was when it was last hashed or recorded.
    ///
    /// # Errors
    /// EAGAIN if the file never stands still; the host's.
    pub fn hash(&self, reading: &Reading) -> Result<Hash> {
        let mut state = reading.node.file.state.lock();
        self.hash_locked(&reading.node, &mut state, &reading.fd)
    }

    /// All of a file of at most `limit` bytes, read while it stood still.
    ///
    /// # Errors
    /// `TooLarge`; EAGAIN if it never stands still; the host's.
    pub fn read_all(&self, reading: &Reading, limit: u64) -> Result<Vec<u8>> {
        match host::read_whole(reading.fd.as_fd(), limit) {
            Ok((bytes, _)) => Ok(bytes),
            Err(Errno::FBIG) => Err(ViewError::TooLarge { path: reading.path.clone(), size: reading.attr.size, limit }),
            Err(error) => Err(error.into()),
        }
    }

    /// The hash of a node's content.
    pub(crate) fn hash_of(&self, node: &Arc<Node>) -> Result<Hash> {
        let path = node.path().unwrap_or_default();
        let reading = self.reading(node, path)?;
        self.hash(&reading)
    }

    /// The hash, with the file's lock held.
    pub(crate) fn hash_locked(&self, node: &Node, state: &mut FileState, fd: &OwnedFd) -> Result<Hash> {
        let attr = host::stat(fd.as_fd())?;
        if let Some((seen, hash)) = &state.hashed
            && same_content(seen, &attr)
            && state.session.is_none()
        {
            return Ok(*hash);
        }
        self.load(node, state)?;
        if let Some(known) = state.known().filter(|known| known.is_current(&attr))
            && let Some(hash) = known.hash()
            && state.session.is_none()
        {
            return Ok(hash);
        }
        let (hash, attr) = hash_file(fd)?;
        state.hashed = Some((attr, hash));
        Ok(hash)
    }

    /// The operation that last touched what was found, if the log knows one.
    ///
    /// # Errors
    /// The store's.
    pub fn version(&self, found: &super::Found) -> Result<Option<OpId>> {
        self.version_of(&found.node)
    }

    /// The last operation before `op` that touched what was no directory.
    ///
    /// # Errors
    /// The store's.
    pub fn version_before(&self, path: &ViewPath, op: OpId) -> Result<Option<OpId>> {
        let Some((source, below)) = self.locate(path) else { return Ok(None) };
        Ok(self.core.store.last_touching(source.id, &below, Some(op))?)
    }

    /// The operation that gave a node its present content, if the log knows it.
    pub(crate) fn version_of(&self, node: &Arc<Node>) -> Result<Option<OpId>> {
        let Some(place) = self.recording_place(node) else { return Ok(None) };
        if node.file.kind != Kind::Dir {
            return Ok(self.core.store.last_touching(place.source.id, &place.path, None)?);
        }
        let query = crate::versions::HistoryQuery {
            path: Some((place.source.id, place.path)),
            limit: 1,
            ..crate::versions::HistoryQuery::default()
        };
        Ok(self.core.store.history(&query)?.operations.first().map(|operation| operation.op))
    }
}

/// Refuses what is no regular file.
pub(super) fn only_file(kind: Kind, path: &ViewPath) -> Result<()> {
    match kind {
        Kind::File => Ok(()),
        Kind::Dir => Err(ViewError::IsADirectory(path.clone())),
        Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
            Err(ViewError::NotAFile(path.clone()))
        }
    }
}

fn same_content(a: &Attr, b: &Attr) -> bool {
    (a.size, a.mtime, a.ctime) == (b.size, b.mtime, b.ctime)
}

/// Hashes a file between two looks at it that agree; three tries.
fn hash_file(fd: &OwnedFd) -> Result<(Hash, Attr)> {
    for _ in 0..3 {
        let before = host::stat(fd.as_fd())?;
        let mut hasher = Hasher::default();
        let mut buf = vec![0; CHUNK.min(usize::try_from(before.size).unwrap_or(CHUNK).max(1))];
        let mut offset = 0;
        loop {
            let got = host::read_at(fd.as_fd(), &mut buf, offset)?;
            if got == 0 {
                break;
            }
            hasher.update(&buf[..got]);
            offset += got as u64;
        }
        let after = host::stat(fd.as_fd())?;
        if same_content(&before, &after) && offset == after.size {
            return Ok((hasher.finish(), after));
        }
    }
    Err(Errno::AGAIN.into())
}
