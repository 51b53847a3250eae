//! The store: one directory, one writer, one log, one index.

use std::{
    collections::HashMap,
    fs::File,
    io::{Cursor, Read},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    ChangeKind, Checkpoint, Content, Loss, NodeKey, OpenMark, Operation, Recovered, Replay, State, blob, codec,
    error::{StoreError, failed},
    flush::Flusher,
    index::Index,
    log::{Log, Record, RecordType},
    recovery,
};
use crate::types::{Actor, EntryName, Hash, Lsn, NodeId, OpId, SourceId, Timestamp};

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

type Result<T> = std::result::Result<T, StoreError>;

/// A version store, open for writing by this process alone. All methods take `&self`; it is shared by `Arc`.
pub struct Store {
    path: PathBuf,
    /// Held for the life of the process that writes.
    lock: File,
    aside: OwnedFd,
    tmp: OwnedFd,
    log: Arc<Log>,
    flusher: Arc<Flusher>,
    index: Mutex<Index>,
    /// Records that the index has not seen yet, in the log's order.
    waiting: Mutex<Vec<Record>>,
    blobs: Mutex<HashMap<Hash, Lsn>>,
    /// The last states of the inodes that were recorded since the start.
    heads: Mutex<HashMap<NodeKey, (NodeId, Option<State>)>>,
    durability: Durability,
    ops: AtomicU64,
    last: AtomicU64,
    nodes: AtomicU64,
    sources: Mutex<u32>,
    names: AtomicU64,
    recovered: Recovered,
}

/// When so many records wait, they are applied by whoever appends the next one.
const WAITING_MAX: usize = 4096;

impl Store {
    /// Opens or creates the store at `path`: takes the lock, checks the format, finds the log's end (a torn tail is cut by
    /// starting a new segment; damage before it opens read-only), brings the index up to date or rebuilds it.
    ///
    /// # Errors
    /// `Locked`, `Format`, `Io`, `Index`.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Arc<Store>> {
        let dir = |path: &Path| -> Result<()> {
            match std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path) {
                Ok(()) => Ok(()),
                Err(source) => Err(failed(path, source)),
            }
        };
        for part in ["", "log", "aside", "tmp", "quarantine"] {
            dir(&path.join(part))?;
        }
        let lock = super::lock::take(path)?;
        let uuid = super::lock::format(path)?;
        let open_dir = |part: &str| File::open(path.join(part)).map(OwnedFd::from).map_err(|e| failed(path, e));
        let (aside, tmp) = (open_dir("aside")?, open_dir("tmp")?);
        let log = Arc::new(Log::open(&path.join("log"))?);
        let opened = recovery::bring_up(path, &uuid, &log)?;
        let flusher = Arc::new(Flusher::default());
        let recovered =
            Recovered { intents: opened.intents, open: opened.open, orphans: opened.orphans, notes: opened.notes };
        match opened.damage {
            None => log.start(opened.end)?,
            Some(damage) => flusher.poison(damage),
        }
        flusher.start(&log, 0);
        let store = Arc::new(Store {
            path: path.to_owned(),
            lock,
            aside,
            tmp,
            log,
            flusher,
            index: Mutex::new(opened.index),
            waiting: Mutex::default(),
            blobs: Mutex::new(opened.blobs),
            heads: Mutex::default(),
            durability: options.durability,
            ops: AtomicU64::new(opened.counters.op),
            last: AtomicU64::new(opened.last.0),
            nodes: AtomicU64::new(opened.counters.node),
            sources: Mutex::new(opened.counters.source),
            names: AtomicU64::new(0),
            recovered,
        });
        Ok(store)
    }

    /// What opening found: intents not applied, files that were open for writing.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the holder's admin socket into the lock file, for others to find it.
    ///
    /// # Errors
    /// `Io`.
    pub fn announce(&self, admin_socket: &Path) -> Result<()> {
        super::lock::announce(&self.lock, admin_socket).map_err(|e| failed(&self.path, e))
    }

    /// The source of this root directory: known by its key, else new. `path` is kept for people to read.
    ///
    /// # Errors
    /// `Io`, `Poisoned`.
    pub fn source(&self, key: &NodeKey, path: &Path) -> Result<SourceId> {
        let mut last = self.sources.lock();
        let known = self.index()?.source(key)?;
        if let Some(id) = known {
            return Ok(SourceId(id));
        }
        let id = SourceId(*last + 1);
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        self.put(RecordType::Source, &codec::source(id, key, path))?;
        *last = id.0;
        Ok(id)
    }

    /// The next operation number. It may stay unused.
    pub fn next_op(&self) -> OpId {
        OpId(self.ops.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The number of the last operation appended (0 if none).
    pub fn last_op(&self) -> OpId {
        OpId(self.last.load(Ordering::Acquire))
    }

    /// The next node number.
    pub fn next_node(&self) -> NodeId {
        NodeId(self.nodes.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// What the log knows of an inode: its number, and its state after the last change recorded (none after a removal).
    /// Answers from memory for nodes touched since the start, else from the index (about 20 µs). Sees all appended records.
    ///
    /// # Errors
    /// `Index`.
    pub fn head(&self, key: &NodeKey) -> Result<Option<(NodeId, Option<State>)>> {
        let known = self.heads.lock().get(key).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let (node, last) = {
            let index = self.index()?;
            let Some(node) = index.node(key)? else { return Ok(None) };
            (node, index.last_touching(node)?)
        };
        let Some(operation) = last.map(|op| self.operation(op)).transpose()?.flatten() else {
            return Ok(Some((node, None)));
        };
        let state =
            operation.changes.iter().rev().find(|change| change.node == node).and_then(|change| change.after.clone());
        Ok(Some((node, state)))
    }

    /// Appends an operation. On return it survives the death of the process; for power loss see [`Store::sync`].
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`; then nothing was recorded.
    pub fn append(&self, operation: &Operation) -> Result<Lsn> {
        let payload = codec::operation(operation);
        let lsn = self.put_flagged(RecordType::Op, 0, payload, |_| {
            self.last.fetch_max(operation.op.0, Ordering::AcqRel);
            let mut heads = self.heads.lock();
            for change in &operation.changes {
                let Some(key) = &change.key else { continue };
                // Of an exchange only one side is told here; the other is looked up anew.
                let state =
                    if change.kind == ChangeKind::Exchange { change.before.clone() } else { change.after.clone() };
                heads.insert(key.clone(), (change.node, state));
            }
        })?;
        Ok(lsn)
    }

    /// Says that an operation with `intent` is applied and its files are on disk.
    ///
    /// # Errors
    /// As `append`.
    pub fn applied(&self, op: OpId) -> Result<Lsn> {
        self.put(RecordType::Done, &codec::number(op))
    }

    /// Takes an operation with `intent` back: it could not be applied, and everything is as before.
    ///
    /// # Errors
    /// As `append`.
    pub fn aborted(&self, op: OpId) -> Result<Lsn> {
        self.put(RecordType::Abort, &codec::number(op))
    }

    /// Marks a file as open for writing, before its first byte may change.
    ///
    /// # Errors
    /// As `append`.
    pub fn opened(&self, mark: &OpenMark) -> Result<Lsn> {
        self.put(RecordType::Open, &codec::open_mark(mark))
    }

    /// Ends the mark of `op`: the file is sealed and closed.
    ///
    /// # Errors
    /// As `append`.
    pub fn closed(&self, op: OpId) -> Result<Lsn> {
        self.put(RecordType::Close, &codec::number(op))
    }

    /// Says where the content of `node` as of change `op` went that was `Live` when it was recorded.
    ///
    /// # Errors
    /// As `append`.
    pub fn settled(&self, op: OpId, node: NodeId, content: &Content) -> Result<Lsn> {
        let lsn = self.put(RecordType::Settle, &codec::settled(op, node, content))?;
        for (known, state) in self.heads.lock().values_mut() {
            if *known == node
                && let Some(state) = state
                && matches!(state.content, Content::Live(_))
            {
                state.content = content.clone();
            }
        }
        Ok(lsn)
    }

    /// Keeps the answer of an idempotent call (also of one that changed nothing: `op` none).
    ///
    /// # Errors
    /// As `append`.
    pub fn answered(&self, view: &str, operation_id: &str, replay: &Replay) -> Result<Lsn> {
        self.put(RecordType::Answer, &codec::answer(view, operation_id, replay))
    }

    /// The recorded outcome of an idempotent call.
    ///
    /// # Errors
    /// `Index`.
    pub fn replay(&self, view: &str, operation_id: &str) -> Result<Option<Replay>> {
        let lsn = self.index()?.answer(view, operation_id)?;
        lsn.map(|lsn| Ok(codec::answer_of(&self.log.read(lsn)?.payload)?.2)).transpose()
    }

    /// Keeps a content in the log, once however often it is given. Returns its hash and the position up to which a sync
    /// makes it durable (`Lsn(0)` if it is durable already).
    ///
    /// # Errors
    /// As `append`.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<(Hash, Lsn)> {
        let hash = Hash::of(bytes);
        let known = self.blobs.lock().get(&hash).copied();
        if let Some(lsn) = known {
            let flushed = self.flusher.is_flushed(lsn.0 + 1);
            return Ok((hash, if flushed { Lsn(0) } else { self.end() }));
        }
        let (flags, payload) = blob::encode(&hash, bytes);
        let lsn = self.put_flagged(RecordType::Blob, flags, payload, |lsn| {
            self.blobs.lock().insert(hash, lsn);
        })?;
        Ok((hash, lsn))
    }

    /// Is this content in the log?
    pub fn has_blob(&self, hash: &Hash) -> bool {
        self.blobs.lock().contains_key(hash)
    }

    /// Waits until the log is on disk up to `lsn` (group commit: one flusher thread).
    ///
    /// # Errors
    /// `Poisoned`: the flush failed, now or before.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        self.flusher.wait(lsn.0)
    }

    /// Waits until all that was appended is on disk.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn sync_all(&self) -> Result<()> {
        self.flusher.wait(self.end().0)
    }
    /// Opens a file in `aside/` for reading.
    ///
    /// # Errors
    /// `Io`.
    pub fn open_aside(&self, name: &str) -> Result<std::os::fd::OwnedFd> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::openat(&self.aside, name, flags, rustix::fs::Mode::empty())
            .map_err(|e| failed(&self.path, e.into()))
    }
    /// Is there a file of this name in `aside/`?
    pub fn has_aside(&self, name: &str) -> bool {
        rustix::fs::statat(&self.aside, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
    /// [`Store::sync`] under `strict`, nothing under `relaxed`.
    ///
    /// # Errors
    /// As `sync`.
    pub fn settle(&self, lsn: Lsn) -> Result<()> {
        match self.durability {
            Durability::Strict => self.sync(lsn),
            Durability::Relaxed => Ok(()),
        }
    }

    /// The durability chosen at opening.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The directory `aside/`, opened through `like` if it is on the same mount (so that link and rename work), and
    /// whether they do: probed with a real file from a directory of the source.
    pub fn aside_dir(&self) -> BorrowedFd<'_> {
        self.aside.as_fd()
    }

    /// The directory `tmp/`.
    pub fn tmp_dir(&self) -> BorrowedFd<'_> {
        self.tmp.as_fd()
    }

    /// A fresh name for `aside/`, telling node and log position (recovery reads them back).
    pub fn aside_name(&self, node: NodeId) -> EntryName {
        let name = format!("{node}-{:x}-{:x}", self.end().0, self.names.fetch_add(1, Ordering::Relaxed));
        EntryName::new(name.as_bytes()).expect("digits and dashes")
    }

    /// A fresh name for `tmp/`.
    pub fn tmp_name(&self) -> EntryName {
        let name = format!("{}-{:x}", std::process::id(), self.names.fetch_add(1, Ordering::Relaxed));
        EntryName::new(name.as_bytes()).expect("digits and dashes")
    }

    /// A reader of a content that is in the store (`Blob`, `Aside`, `Target`), verified against its hash where one is known.
    ///
    /// # Errors
    /// `Unavailable` for `Lost`, `Live` and `None`; `Corrupt`; `Io`.
    pub fn read(&self, content: &Content) -> Result<Box<dyn Read + Send>> {
        Ok(match content {
            Content::Target(target) => Box::new(Cursor::new(target.clone())),
            Content::Blob(hash) => Box::new(Cursor::new(self.blob(hash)?)),
            Content::Aside(name) => Box::new(File::from(self.open_aside(name)?)),
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
        reader.read_to_end(&mut bytes).map_err(|e| failed(&self.path, e))?;
        if bytes.len() as u64 > limit {
            return Err(failed(&self.path, std::io::Error::from_raw_os_error(libc::EFBIG)));
        }
        Ok(bytes)
    }

    /// Where the content of `node` after `op` is now: follows `Live` to `settled` or to the next change's `before`. Still
    /// `Live` if the served file has it.
    ///
    /// # Errors
    /// `Index`.
    pub fn content_of(&self, node: NodeId, op: OpId) -> Result<Content> {
        const STEPS: usize = 256;
        let ops = self.index()?.touching(node, op, STEPS)?;
        let mut content = Content::Live(None);
        for found in ops {
            let Some(operation) = self.operation(found)? else { continue };
            for change in operation.changes.iter().filter(|change| change.node == node) {
                let side = if found == op { change.after.as_ref() } else { change.before.as_ref() };
                if let Some(state) = side {
                    content.clone_from(&state.content);
                    if !matches!(content, Content::Live(_)) {
                        return Ok(content);
                    }
                }
            }
        }
        Ok(content)
    }

    /// One operation.
    ///
    /// # Errors
    /// `Index`.
    pub fn operation(&self, op: OpId) -> Result<Option<Operation>> {
        let (lsn, settled) = {
            let index = self.index()?;
            let Some(lsn) = index.lsn(op)? else { return Ok(None) };
            (lsn, index.settled(op)?)
        };
        let mut operation = codec::operation_of(&self.log.read(lsn)?.payload)?;
        for (node, content) in settled {
            for change in operation.changes.iter_mut().filter(|change| change.node == node) {
                if let Some(after) = change.after.as_mut().filter(|after| matches!(after.content, Content::Live(_))) {
                    after.content.clone_from(&content);
                }
            }
        }
        Ok(Some(operation))
    }

    /// Sets a checkpoint at the last operation.
    ///
    /// # Errors
    /// As `append`.
    pub fn checkpoint(&self, name: &str, note: Option<&str>, actor: &Actor) -> Result<Checkpoint> {
        let point = Checkpoint {
            name: name.to_owned(),
            note: note.map(str::to_owned),
            op: self.last_op(),
            time: Timestamp::now(),
            actor: actor.clone(),
        };
        let lsn = self.put(RecordType::Checkpoint, &codec::checkpoint(&point))?;
        self.settle(lsn)?;
        Ok(point)
    }

    /// A checkpoint by name.
    ///
    /// # Errors
    /// `Index`.
    pub fn find_checkpoint(&self, name: &str) -> Result<Option<Checkpoint>> {
        let lsn = self.index()?.checkpoint(name)?;
        lsn.map(|lsn| codec::checkpoint_of(&self.log.read(lsn)?.payload)).transpose()
    }

    /// All checkpoints, newest first.
    ///
    /// # Errors
    /// `Index`.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let all = self.index()?.checkpoints()?;
        all.into_iter().map(|lsn| codec::checkpoint_of(&self.log.read(lsn)?.payload)).collect()
    }

    /// The last operation at or before a time (0 if none).
    ///
    /// # Errors
    /// `Index`.
    pub fn op_at_time(&self, time: crate::types::Timestamp) -> Result<OpId> {
        self.index()?.op_at_time(time.as_nanos())
    }

    /// Why the store takes no more changes, if it does not.
    pub fn poisoned(&self) -> Option<String> {
        self.flusher.poisoned()
    }

    /// What it holds.
    ///
    /// # Errors
    /// `Index`, `Io`.
    pub fn stats(&self) -> Result<StoreStats> {
        let (operations, versions) = self.index()?.counts()?;
        let mut aside_bytes = 0;
        for entry in std::fs::read_dir(self.path.join("aside")).map_err(|e| failed(&self.path, e))? {
            let meta = entry.and_then(|entry| entry.metadata()).map_err(|e| failed(&self.path, e))?;
            aside_bytes += meta.len();
        }
        let contents = self.blobs.lock().len() as u64;
        Ok(StoreStats { operations, versions, contents, log_bytes: self.log.size(), aside_bytes })
    }

    /// Flushes everything and marks a clean end. Later changes are refused.
    ///
    /// # Errors
    /// As `sync`.
    pub fn close(&self) -> Result<()> {
        let synced = self.sync_all();
        drop(self.index()?);
        self.flusher.stop();
        synced
    }
}

impl Store {
    /// The index, with all that was appended so far.
    pub(super) fn index(&self) -> Result<MutexGuard<'_, Index>> {
        let mut index = self.index.lock();
        // Taken under the index's lock, so that records are applied in the log's order.
        let waiting = std::mem::take(&mut *self.waiting.lock());
        if let Err(error) = index.apply(&waiting) {
            let mut later = self.waiting.lock();
            later.splice(0..0, waiting);
            return Err(error);
        }
        Ok(index)
    }

    fn put(&self, kind: RecordType, payload: &[u8]) -> Result<Lsn> {
        self.put_flagged(kind, 0, payload.to_vec(), |_| {})
    }

    /// Appends a record. Returns the position up to which a sync makes it durable.
    fn put_flagged(&self, kind: RecordType, flags: u8, payload: Vec<u8>, recorded: impl FnOnce(Lsn)) -> Result<Lsn> {
        if let Some(reason) = self.flusher.poisoned() {
            return Err(StoreError::Poisoned(reason));
        }
        let (end, ()) = self.log.append(kind, flags, &payload, |lsn| {
            recorded(lsn);
            // Contents are found by their hash; the index needs no more of them.
            let mut payload = payload.clone();
            if kind == RecordType::Blob {
                payload.truncate(32);
            }
            let end = lsn.0 + 1;
            self.waiting.lock().push(Record { kind, flags, lsn, payload, end });
        })?;
        if self.waiting.lock().len() > WAITING_MAX {
            drop(self.index()?);
        }
        Ok(Lsn(end))
    }

    /// The end of the log.
    fn end(&self) -> Lsn {
        Lsn(self.log.tail().map_or(0, |(_, end)| end))
    }

    fn blob(&self, hash: &Hash) -> Result<Vec<u8>> {
        let lsn = self.blobs.lock().get(hash).copied().ok_or(StoreError::Corrupt(*hash))?;
        let record = self.log.read(lsn)?;
        blob::decode(hash, record.flags, &record.payload)
    }
}
