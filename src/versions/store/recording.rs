//! What is appended: operations, their ends, marks of open files, answers, sources; and how it gets to disk.

use std::{os::fd::AsFd, path::Path, sync::atomic::Ordering};

use super::{Durability, Result, Store};
use crate::{
    crash_point,
    types::{Actor, Lsn, NodeId, OpId, SourceId},
    versions::{
        Change, ChangeKind, Content, NodeKey, OpenMark, Operation, Replay, StoreError, codec, crash, frame::RecordType,
    },
};

impl Store {
    /// The source of this root directory: known by its key, else new. `path` is kept for people to read.
    ///
    /// # Errors
    /// As `append`.
    pub fn source(&self, key: &NodeKey, path: &Path) -> Result<SourceId> {
        let mut sources = self.sources.lock();
        if let Some(id) = sources.get(key) {
            return Ok(*id);
        }
        let last = sources.values().map(|id| id.0).max().unwrap_or(0);
        let id = SourceId(last + 1);
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        self.put(RecordType::Source, &codec::source(id, key, path))?;
        sources.insert(key.clone(), id);
        Ok(id)
    }

    /// Appends an operation. On return it survives the death of the process; for power loss see [`Store::sync`].
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Damaged`, `Io`; then nothing was recorded.
    pub fn append(&self, operation: &Operation) -> Result<Lsn> {
        let before = self.nodes_of(operation.op)?;
        if operation.changes.iter().any(|change| moves_names(operation, change)) {
            self.flusher.names_changed();
        }
        let actor = self.number_of(&operation.actor)?;
        self.put_with(RecordType::Op, 0, &codec::operation(operation, actor), |_, end| {
            self.last.fetch_max(operation.op.0, Ordering::AcqRel);
            self.heads.recorded(operation, &before, end);
        })
    }

    /// Announces an operation of names or metadata before it is carried out: if the process ends before [`Store::append`] of
    /// the same number, or [`Store::aborted`], recovery looks what came of it. Costs no flush.
    ///
    /// # Errors
    /// As `append`.
    pub fn begun(&self, operation: &Operation) -> Result<()> {
        let actor = self.number_of(&operation.actor)?;
        self.put(RecordType::Begun, &codec::operation(operation, actor)).map(drop)
    }

    /// Says that an operation with `intent` could not be applied whole and is being taken back: recovery does not roll it
    /// forward any more.
    ///
    /// # Errors
    /// As `append`.
    pub fn withdrawn(&self, op: OpId) -> Result<Lsn> {
        self.put_last(RecordType::Withdrawn, &codec::number(op), |_| {})
    }

    /// The nodes that an operation touched when it was appended before.
    fn nodes_of(&self, op: OpId) -> Result<Vec<NodeId>> {
        if op > self.last_op() {
            return Ok(Vec::new());
        }
        match self.heads.touched(op) {
            Some(nodes) => Ok(nodes),
            // What the index has not seen is in memory.
            None => self.indexer.ask_now(|index| index.nodes_of(op)),
        }
    }

    /// Says that an operation with `intent` is applied and its files are on disk.
    ///
    /// # Errors
    /// As `append`.
    pub fn applied(&self, op: OpId) -> Result<Lsn> {
        self.put_last(RecordType::Done, &codec::number(op), |_| {})
    }

    /// Takes an operation with `intent` back: it could not be applied, and everything is as before.
    ///
    /// # Errors
    /// As `append`.
    pub fn aborted(&self, op: OpId) -> Result<Lsn> {
        let nodes = self.nodes_of(op)?;
        self.put_last(RecordType::Abort, &codec::number(op), |end| self.heads.aborted(&nodes, end))
    }

    /// Marks a file as open for writing, before its first byte may change.
    ///
    /// # Errors
    /// As `append`.
    pub fn opened(&self, mark: &OpenMark) -> Result<Lsn> {
        let actor = self.number_of(&mark.actor)?;
        self.put_with(RecordType::Open, 0, &codec::open_mark(mark, actor), |_, end| {
            self.heads.bound(&mark.key, mark.node, end);
        })
    }

    /// Ends the mark of `op`: the file is sealed and closed.
    ///
    /// # Errors
    /// As `append`.
    pub fn closed(&self, op: OpId) -> Result<Lsn> {
        self.put_last(RecordType::Close, &codec::number(op), |_| {})
    }

    /// Says where the content of `node` as of change `op` went that was `Live` when it was recorded.
    ///
    /// # Errors
    /// As `append`.
    pub fn settled(&self, op: OpId, node: NodeId, content: &Content) -> Result<Lsn> {
        self.put_with(RecordType::Settle, 0, &codec::settled(op, node, content), |_, end| {
            self.heads.settled(op, node, content, end);
        })
    }

    /// Keeps the answer of an idempotent call (also of one that changed nothing: `op` none).
    ///
    /// # Errors
    /// As `append`.
    pub fn answered(&self, view: &str, operation_id: &str, replay: &Replay) -> Result<Lsn> {
        self.put_last(RecordType::Answer, &codec::answer(view, operation_id, replay), |_| {})
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
        self.flusher.wait(self.log.end())
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

    /// [`Store::sync_all`] under `strict`, nothing under `relaxed`.
    ///
    /// # Errors
    /// As `sync`.
    pub fn settle_all(&self) -> Result<()> {
        match self.durability {
            Durability::Strict => self.sync_all(),
            Durability::Relaxed => Ok(()),
        }
    }

    /// Up to where the log has to be on disk for what [`Store::head`] says of a node to be there, too.
    pub fn recorded_until(&self, node: NodeId) -> Lsn {
        Lsn(self.heads.recorded_until(node))
    }

    /// Is the log on disk up to `lsn`?
    pub fn has_synced(&self, lsn: Lsn) -> bool {
        self.flusher.flushed() >= lsn.0
    }

    /// The durability chosen at opening.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Flushes everything, ends the store's threads and gives up its lock. Later changes are refused; questions are
    /// answered until somebody else opens the store.
    ///
    /// # Errors
    /// As `sync`.
    pub fn close(&self) -> Result<()> {
        crash_point!("closing");
        let synced = self.sync_all();
        self.flusher.close();
        self.end();
        crash_point!("closed");
        synced
    }

    /// Ends the threads, gives back what is not needed, and lets others have the store.
    pub(super) fn end(&self) {
        self.end_keeper();
        self.flusher.end();
        self.indexer.end();
        self.log.finish();
        // With the file it goes as well, but for a child that is between fork and exec.
        let _ = crate::host::unlock_file(self.lock.as_fd());
    }

    /// The number of an actor, in a record of its own the first time.
    pub(super) fn number_of(&self, actor: &Actor) -> Result<u32> {
        self.actors.number(actor, |number| self.put(RecordType::Actor, &codec::actor(number, actor)).map(drop))
    }

    pub(in crate::versions) fn put(&self, kind: RecordType, payload: &[u8]) -> Result<Lsn> {
        self.put_with(kind, 0, payload, |_, _| {})
    }

    /// Appends a record that begins something: not while the reserve is spent. Returns the position up to which a sync makes
    /// it durable.
    pub(super) fn put_with(
        &self,
        kind: RecordType,
        flags: u8,
        payload: &[u8],
        recorded: impl FnOnce(Lsn, u64),
    ) -> Result<Lsn> {
        if !self.reserve.is_whole() {
            return Err(self.full());
        }
        let (lsn, end) = self.log.append(kind, flags, payload, recorded)?;
        self.keeping.appended(end - lsn.0);
        self.indexer.appended();
        Ok(Lsn(end))
    }

    fn full(&self) -> StoreError {
        StoreError::NoSpace { path: self.path.clone() }
    }

    /// Waits until the index has applied all that was appended. Space is freed after that, so it may take what is kept in
    /// reserve.
    pub(in crate::versions) fn index_caught_up(&self) -> Result<()> {
        match self.indexer.ask(|_| Ok(())) {
            Err(StoreError::NoSpace { .. }) if self.reserve.release() => self.indexer.ask(|_| Ok(())),
            caught_up => caught_up,
        }
    }

    /// Appends a record that ends something: on a full disk out of the reserve.
    pub(in crate::versions) fn put_last(
        &self,
        kind: RecordType,
        payload: &[u8],
        recorded: impl Fn(u64),
    ) -> Result<Lsn> {
        let append = || self.log.append(kind, 0, payload, |_, end| recorded(end));
        let first = if crash::planted("disk-full-at-the-end") { Err(self.full()) } else { append() };
        let appended = match first {
            Err(StoreError::NoSpace { .. }) if self.reserve.release() => {
                crash_point!("reserve-released");
                append()
            }
            appended => appended,
        };
        let (_, end) = appended?;
        self.indexer.appended();
        Ok(Lsn(end))
    }
}

/// Was a name changed that nobody puts on disk before this is done? Those of a mutation with intent are, before that is.
fn moves_names(operation: &Operation, change: &Change) -> bool {
    let moved = match change.kind {
        ChangeKind::Create | ChangeKind::Remove | ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link => true,
        ChangeKind::Write | ChangeKind::Meta => false,
    };
    let went_aside = matches!(change.before.as_ref().map(|state| &state.content), Some(Content::Aside(_)));
    (moved && !operation.intent) || went_aside
}
