//! The store: one directory, one writer, one log, one index.

use std::{
    io::Read,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Checkpoint, Content, HistoryPage, HistoryQuery, Loss, NodeKey, OpenMark, Operation, PathAt, Recovered, Replay,
    State,
};
use crate::types::{Actor, EntryName, Hash, Lsn, NodeId, OpId, SourceId, ViewPath};

/// When an answer means "on disk".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Before the answer.
    #[default]
    Strict,
    /// Within a second; it survives the daemon's death at once.
    Relaxed,
}

/// Whether files can go between the served tree and the store by link and rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They can (same file system and mount).
    Linked,
    /// They cannot: displaced contents are copied.
    Copying,
}

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// See [`Durability`].
    pub durability: Durability,
}

/// What the store holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Operations.
    pub operations: u64,
    /// Changes in them.
    pub versions: u64,
    /// Distinct contents in the log.
    pub contents: u64,
    /// Bytes of log segments.
    pub log_bytes: u64,
    /// Bytes of files aside.
    pub aside_bytes: u64,
}

/// What can go wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another live process has it.
    #[error("{} is in use by process {pid} (admin socket {admin})", path.display())]
    Locked {
        /// The store.
        path: PathBuf,
        /// The holder.
        pid: u32,
        /// The holder's admin socket, empty if it wrote none.
        admin: String,
    },
    /// Not a store of ours, or one of a later format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The log is damaged in its middle: opened for reading only.
    #[error("the log is damaged: {0}")]
    Damaged(String),
    /// An earlier flush failed: nothing more is written until the daemon is restarted.
    #[error(
        "the store stopped after an I/O error ({0}); reads go on, changes are refused until the daemon is restarted"
    )]
    Poisoned(String),
    /// The content is not there.
    #[error("that content is not in the store ({})", .0.word())]
    Unavailable(Loss),
    /// A content does not have the hash it should.
    #[error("content {0} is damaged in the store")]
    Corrupt(Hash),
    /// The disk is full.
    #[error("no space left for history on {}", path.display())]
    NoSpace {
        /// The store.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// On what.
        what: String,
        /// The error.
        source: std::io::Error,
    },
    /// The index failed in a way that a rebuild did not mend.
    #[error("index: {0}")]
    Index(#[from] rusqlite::Error),
}

type Result<T> = std::result::Result<T, StoreError>;

/// A version store, open for writing by this process alone. All methods take `&self`; it is shared by `Arc`.
pub struct Store {
    // implementation
}

impl Store {
    /// Opens or creates the store at `path`: takes the lock, checks the format, finds the log's end (a torn tail is cut by
    /// starting a new segment; damage before it opens read-only), brings the index up to date or rebuilds it.
    ///
    /// # Errors
    /// `Locked`, `Format`, `Io`, `Index`.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Arc<Store>> {
        todo!()
    }

    /// What opening found: intents not applied, files that were open for writing.
    pub fn recovered(&self) -> &Recovered {
        todo!()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        todo!()
    }

    /// Writes the holder's admin socket into the lock file, for others to find it.
    ///
    /// # Errors
    /// `Io`.
    pub fn announce(&self, admin_socket: &Path) -> Result<()> {
        todo!()
    }

    /// The source of this root directory: known by its key, else new. `path` is kept for people to read.
    ///
    /// # Errors
    /// `Io`, `Poisoned`.
    pub fn source(&self, key: &NodeKey, path: &Path) -> Result<SourceId> {
        todo!()
    }

    /// The next operation number. It may stay unused.
    pub fn next_op(&self) -> OpId {
        todo!()
    }

    /// The number of the last operation appended (0 if none).
    pub fn last_op(&self) -> OpId {
        todo!()
    }

    /// The next node number.
    pub fn next_node(&self) -> NodeId {
        todo!()
    }

    /// What the log knows of an inode: its number, and its state after the last change recorded (none after a removal).
    /// Answers from memory for nodes touched since the start, else from the index (about 20 µs). Sees all appended records.
    ///
    /// # Errors
    /// `Index`.
    pub fn head(&self, key: &NodeKey) -> Result<Option<(NodeId, Option<State>)>> {
        todo!()
    }

    /// Appends an operation. On return it survives the death of the process; for power loss see [`Store::sync`].
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`; then nothing was recorded.
    pub fn append(&self, operation: &Operation) -> Result<Lsn> {
        todo!()
    }

    /// Says that an operation with `intent` is applied and its files are on disk.
    ///
    /// # Errors
    /// As `append`.
    pub fn applied(&self, op: OpId) -> Result<Lsn> {
        todo!()
    }

    /// Takes an operation with `intent` back: it could not be applied, and everything is as before.
    ///
    /// # Errors
    /// As `append`.
    pub fn aborted(&self, op: OpId) -> Result<Lsn> {
        todo!()
    }

    /// Marks a file as open for writing, before its first byte may change.
    ///
    /// # Errors
    /// As `append`.
    pub fn opened(&self, mark: &OpenMark) -> Result<Lsn> {
        todo!()
    }

    /// Ends the mark of `op`: the file is sealed and closed.
    ///
    /// # Errors
    /// As `append`.
    pub fn closed(&self, op: OpId) -> Result<Lsn> {
        todo!()
    }

    /// Says where the content of `node` as of change `op` went that was `Live` when it was recorded.
    ///
    /// # Errors
    /// As `append`.
    pub fn settled(&self, op: OpId, node: NodeId, content: &Content) -> Result<Lsn> {
        todo!()
    }

    /// Keeps the answer of an idempotent call (also of one that changed nothing: `op` none).
    ///
    /// # Errors
    /// As `append`.
    pub fn answered(&self, view: &str, operation_id: &str, replay: &Replay) -> Result<Lsn> {
        todo!()
    }

    /// The recorded outcome of an idempotent call.
    ///
    /// # Errors
    /// `Index`.
    pub fn replay(&self, view: &str, operation_id: &str) -> Result<Option<Replay>> {
        todo!()
    }

    /// Keeps a content in the log, once however often it is given. Returns its hash and the position up to which a sync
    /// makes it durable (`Lsn(0)` if it is durable already).
    ///
    /// # Errors
    /// As `append`.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<(Hash, Lsn)> {
        todo!()
    }

    /// Is this content in the log?
    pub fn has_blob(&self, hash: &Hash) -> bool {
        todo!()
    }

    /// Waits until the log is on disk up to `lsn` (group commit: one flusher thread).
    ///
    /// # Errors
    /// `Poisoned`: the flush failed, now or before.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        todo!()
    }

    pub fn sync_all(&self) -> Result<()> {
        todo!()
    }
    pub fn open_aside(&self, name: &str) -> Result<std::os::fd::OwnedFd> {
        todo!()
    }
    pub fn has_aside(&self, name: &str) -> bool {
        todo!()
    }
    /// [`Store::sync`] under `strict`, nothing under `relaxed`.
    ///
    /// # Errors
    /// As `sync`.
    pub fn settle(&self, lsn: Lsn) -> Result<()> {
        todo!()
    }

    /// The durability chosen at opening.
    pub fn durability(&self) -> Durability {
        todo!()
    }

    /// The directory `aside/`, opened through `like` if it is on the same mount (so that link and rename work), and
    /// whether they do: probed with a real file from a directory of the source.
    pub fn aside_dir(&self) -> BorrowedFd<'_> {
        todo!()
    }

    /// The directory `tmp/`.
    pub fn tmp_dir(&self) -> BorrowedFd<'_> {
        todo!()
    }

    /// A fresh name for `aside/`, telling node and log position (recovery reads them back).
    pub fn aside_name(&self, node: NodeId) -> EntryName {
        todo!()
    }

    /// A fresh name for `tmp/`.
    pub fn tmp_name(&self) -> EntryName {
        todo!()
    }

    /// A reader of a content that is in the store (`Blob`, `Aside`, `Target`), verified against its hash where one is known.
    ///
    /// # Errors
    /// `Unavailable` for `Lost`, `Live` and `None`; `Corrupt`; `Io`.
    pub fn read(&self, content: &Content) -> Result<Box<dyn Read + Send>> {
        todo!()
    }

    /// All of a content of at most `limit` bytes.
    ///
    /// # Errors
    /// As `read`; `Io` with EFBIG over the limit.
    pub fn read_all(&self, content: &Content, limit: u64) -> Result<Vec<u8>> {
        todo!()
    }

    /// Where the content of `node` after `op` is now: follows `Live` to `settled` or to the next change's `before`. Still
    /// `Live` if the served file has it.
    ///
    /// # Errors
    /// `Index`.
    pub fn content_of(&self, node: NodeId, op: OpId) -> Result<Content> {
        todo!()
    }

    /// Operations, newest first unless the query says otherwise.
    ///
    /// # Errors
    /// `Index`.
    pub fn history(&self, query: &HistoryQuery) -> Result<HistoryPage> {
        todo!()
    }

    /// One operation.
    ///
    /// # Errors
    /// `Index`.
    pub fn operation(&self, op: OpId) -> Result<Option<Operation>> {
        todo!()
    }

    /// What stood at a path just after `at`.
    ///
    /// # Errors
    /// `Index`.
    pub fn path_at(&self, source: SourceId, path: &ViewPath, at: OpId) -> Result<PathAt> {
        todo!()
    }

    /// Sets a checkpoint at the last operation.
    ///
    /// # Errors
    /// As `append`.
    pub fn checkpoint(&self, name: &str, note: Option<&str>, actor: &Actor) -> Result<Checkpoint> {
        todo!()
    }

    /// A checkpoint by name.
    ///
    /// # Errors
    /// `Index`.
    pub fn find_checkpoint(&self, name: &str) -> Result<Option<Checkpoint>> {
        todo!()
    }

    /// All checkpoints, newest first.
    ///
    /// # Errors
    /// `Index`.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        todo!()
    }

    /// The last operation at or before a time (0 if none).
    ///
    /// # Errors
    /// `Index`.
    pub fn op_at_time(&self, time: crate::types::Timestamp) -> Result<OpId> {
        todo!()
    }

    /// Why the store takes no more changes, if it does not.
    pub fn poisoned(&self) -> Option<String> {
        todo!()
    }

    /// What it holds.
    ///
    /// # Errors
    /// `Index`, `Io`.
    pub fn stats(&self) -> Result<StoreStats> {
        todo!()
    }

    /// Flushes everything and marks a clean end. Later changes are refused.
    ///
    /// # Errors
    /// As `sync`.
    pub fn close(&self) -> Result<()> {
        todo!()
    }
}
