//! The store: one directory, one writer, one log, one index.

mod contents;
mod recording;

use std::{
    collections::HashMap,
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Checkpoint, NodeKey, Operation, Recovered, Replay, State, StoreError,
    actors::Actors,
    blobs::Blobs,
    codec,
    error::failed,
    flush::Flusher,
    frame::RecordType,
    gc::Keeping,
    heads::{Head, Heads},
    indexer::Indexer,
    log::Log,
    recovery,
    reserve::Reserve,
    segment::Record,
};
use crate::types::{Actor, Lsn, NodeId, OpId, SourceId, Timestamp, ViewPath};

type Result<T> = std::result::Result<T, StoreError>;

/// Actors remembered at the start.
const ACTORS: u32 = 4096;

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
    /// Bytes of records in the log.
    pub log_bytes: u64,
    /// Bytes of files aside.
    pub aside_bytes: u64,
}

/// A version store, open for writing by this process alone. All methods take `&self`; it is shared by `Arc`.
///
/// Locks, outermost first: `sources`, the actors', the log's tail, then those of heads, contents, flusher and indexer,
/// each alone.
pub struct Store {
    pub(super) path: PathBuf,
    /// Held for the life of the process that writes.
    lock: File,
    pub(super) aside: OwnedFd,
    tmp: OwnedFd,
    reserve: Reserve,
    pub(super) log: Arc<Log>,
    flusher: Arc<Flusher>,
    pub(super) indexer: Arc<Indexer>,
    pub(super) heads: Arc<Heads>,
    pub(super) actors: Actors,
    pub(super) blobs: Blobs,
    sources: Mutex<HashMap<NodeKey, SourceId>>,
    durability: Durability,
    ops: AtomicU64,
    last: AtomicU64,
    /// The last operation that a checkpoint of this process names.
    pointed: AtomicU64,
    nodes: AtomicU64,
    names: AtomicU64,
    /// In names of files: no two lives of a store give the same ones.
    life: u32,
    recovered: Recovered,
    pub(super) keeping: Keeping,
}

impl Store {
    /// Opens or creates the store at `path`: takes the lock, checks the format, finds the log's end (a torn tail is cut by
    /// starting a new segment; damage before it opens read-only), brings the index up to date or rebuilds it.
    ///
    /// # Errors
    /// `Locked`, `Format`, `NoSpace`, `Io`, `Index`.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Arc<Store>> {
        super::lock::make_dirs(path)?;
        let (lock, other_boot) = super::lock::take(path)?;
        let identity = super::lock::format(path)?;
        let open_dir = |part: &str| File::open(path.join(part)).map(OwnedFd::from).map_err(|e| failed(path, e));
        let (aside, tmp) = (open_dir("aside")?, open_dir("tmp")?);
        let flusher = Arc::new(Flusher::default());
        let up = recovery::bring_up(path, &identity.id, &flusher)?;
        let (log, damaged) = (up.log, up.damage.is_some());
        let heads = Arc::new(Heads::default());
        let index_path = path.join("index.db");
        let blobs = Blobs::default();
        let reader = up.index.reader()?;
        reader.blobs(&mut |start, lsn| blobs.load(start, lsn, &log))?;
        let ((last_op, mut last_node), sources) = (reader.numbers()?, reader.sources()?);
        let (actors, last_actor) = reader.actors(ACTORS)?;
        let last = reader.last_op()?;
        let mut recovered = Recovered { notes: up.notes, other_boot, ..Recovered::default() };
        if identity.moved {
            recovered.notes.push("the store lies on another file system than when it was made".into());
        }
        // Of a damaged store nothing is concluded, and nothing in it is touched.
        if !damaged {
            recovered.orphans = recovery::orphans(path, &reader)?;
            // A number that only a file's name tells is given all the same.
            last_node = recovered.orphans.iter().filter_map(node_of).fold(last_node, u64::max);
        }
        let keeping = Keeping::new(reader.has_trims()?);
        let unfinished = if damaged { Default::default() } else { reader.unfinished()? };
        drop(reader);
        let beside = lock.try_clone().map_err(|e| failed(path, e))?;
        flusher.start(&log, log.end(), beside).map_err(|e| failed(path, e))?;
        let mut store = Store {
            path: path.to_owned(),
            lock,
            aside,
            tmp,
            reserve: Reserve::take(path),
            indexer: Indexer::start(up.index, &log, &heads, &index_path, &identity.id)?,
            log,
            flusher,
            heads,
            actors: Actors::new(actors, last_actor),
            blobs,
            sources: Mutex::new(sources.into_iter().map(|(id, key)| (key, SourceId(id))).collect()),
            durability: options.durability,
            ops: AtomicU64::new(last_op),
            last: AtomicU64::new(last.0),
            pointed: AtomicU64::new(0),
            nodes: AtomicU64::new(last_node),
            names: AtomicU64::new(0),
            life: u32::from_le_bytes(super::lock::random(path)?),
            recovered: Recovered::default(),
            keeping,
        };
        for lsn in unfinished.open {
            let payload = store.log.read(lsn)?.payload;
            recovered.open.push(codec::open_mark_of(&payload, |number| store.actor(number))?);
        }
        let all = |positions: Vec<Lsn>| positions.into_iter().map(|lsn| store.operation_at(lsn)).collect::<Result<_>>();
        recovered.intents = all(unfinished.intents)?;
        recovered.withdrawn = all(unfinished.withdrawn)?;
        recovered.begun = all(unfinished.begun)?;
        if !damaged {
            recovery::empty_tmp(path, recovered.intents.iter().chain(&recovered.withdrawn))?;
        }
        store.recovered = recovered;
        Ok(Arc::new(store))
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

    /// The directories that hold the store's files.
    pub fn dirs(&self) -> [PathBuf; 4] {
        [self.path.clone(), self.path.join("log"), self.path.join("aside"), self.path.join("tmp")]
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
    /// Answers from memory for nodes touched lately, else from the index (about 20 µs). Sees all appended records.
    ///
    /// # Errors
    /// `Index`.
    pub fn head(&self, key: &NodeKey) -> Result<Option<(NodeId, Option<State>)>> {
        // What the index has not seen is in memory, so the index needs no waiting for.
        let node = match self.heads.node(key) {
            Some(node) => node,
            None => match self.indexer.ask_now(|index| index.node(key))? {
                Some(node) => node,
                None => return Ok(None),
            },
        };
        let last = match self.heads.state(node) {
            Some(Head::Known(_, mut state)) => {
                state.as_mut().map(|state| self.freshen(state)).transpose()?;
                return Ok(Some((node, state)));
            }
            Some(Head::Ask) => self.indexer.ask(|index| index.last_touching(node))?,
            None => self.indexer.ask_now(|index| index.last_touching(node))?,
        };
        let Some(last) = last else { return Ok(Some((node, None))) };
        let state = self.indexed_operation(last)?.and_then(|operation| state_after(operation, node));
        self.heads.found(key, node, Some(Head::Known(last, state.clone())));
        Ok(Some((node, state)))
    }

    /// The last operation before `before` (if given) that touches a path that is no directory's, by any name it had. Answers
    /// from memory for paths touched or asked for lately. Sees all appended records.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn last_touching(&self, source: SourceId, path: &ViewPath, before: Option<OpId>) -> Result<Option<OpId>> {
        if let Some(known) = self.heads.last_touching(source, path) {
            match (before, known.before) {
                (None, _) => return Ok(known.op),
                (Some(before), _) if known.op.is_none_or(|op| op < before) => return Ok(known.op),
                (Some(before), Some(earlier)) if known.op == Some(before) => return Ok(earlier),
                (Some(_), _) => {}
            }
        }
        let turns = self.heads.turns();
        let until = before.map(|before| super::Bound::Op(OpId(before.0.saturating_sub(1))));
        let path_query = Some((source, path.clone()));
        let query = super::HistoryQuery { path: path_query, until, limit: 1, ..super::HistoryQuery::default() };
        let last = self.history(&query)?.operations.first().map(|operation| operation.op);
        if before.is_none() {
            self.heads.found_touching(source, path, last, turns);
        }
        Ok(last)
    }

    /// Where the content of `node` after `op` is now: follows `Live` to `settled` or to the next change's `before`. Still
    /// `Live` if the served file has it.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn content_of(&self, node: NodeId, op: OpId) -> Result<super::Content> {
        const STEP: u32 = 64;
        let mut follow = super::timeline::Follow::new(node, op);
        let mut from = op;
        loop {
            let ops = self.indexer.ask(|index| index.touching(node, from, STEP))?;
            for found in &ops {
                let Some(operation) = self.indexed_operation(*found)? else { continue };
                if let Some(content) = follow.through(&operation) {
                    return Ok(content);
                }
            }
            match ops.last() {
                Some(last) if ops.len() == STEP as usize => from = OpId(last.0 + 1),
                Some(_) | None => return Ok(follow.end()),
            }
        }
    }

    /// One operation.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn operation(&self, op: OpId) -> Result<Option<Operation>> {
        self.indexer.ask(|_| Ok(()))?;
        self.indexed_operation(op)
    }

    /// The recorded outcome of an idempotent call.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn replay(&self, view: &str, operation_id: &str) -> Result<Option<Replay>> {
        let Some(lsn) = self.indexer.ask(|index| index.answer(view, operation_id))? else { return Ok(None) };
        let record = self.log.read(lsn)?;
        if record.kind == RecordType::Answer {
            return codec::answer_of(&record.payload).map(|(_, _, replay)| Some(replay));
        }
        // It was recorded, and no answer was kept: the daemon ended in between. Who it was does not matter, and may be
        // forgotten.
        let operation = codec::operation_of(&record.payload, |_| Ok(Actor::of(crate::types::Channel::Tool)))?;
        Ok(operation.request.map(|request| Replay { op: Some(operation.op), request, response: None }))
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
        self.pointed.fetch_max(point.op.0, Ordering::AcqRel);
        let number = self.number_of(actor)?;
        let lsn = self.put(RecordType::Checkpoint, &codec::checkpoint(&point, number))?;
        self.settle(lsn)?;
        Ok(point)
    }

    /// The last operation that a checkpoint set by this process names (0 if none was set).
    pub fn last_checkpoint(&self) -> OpId {
        OpId(self.pointed.load(Ordering::Acquire))
    }

    /// A checkpoint by name.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn find_checkpoint(&self, name: &str) -> Result<Option<Checkpoint>> {
        let lsn = self.indexer.ask(|index| index.checkpoint(name))?;
        lsn.map(|lsn| self.checkpoint_at(lsn)).transpose()
    }

    /// All checkpoints, newest first.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let all = self.indexer.ask(super::index::Reader::checkpoints)?;
        all.into_iter().map(|lsn| self.checkpoint_at(lsn)).collect()
    }

    fn checkpoint_at(&self, lsn: Lsn) -> Result<Checkpoint> {
        codec::checkpoint_of(&self.log.read(lsn)?.payload, |number| self.actor(number))
    }

    /// The last operation at or before a time (0 if none).
    ///
    /// # Errors
    /// `Index`.
    pub fn op_at_time(&self, time: Timestamp) -> Result<OpId> {
        self.indexer.ask(|index| index.op_at_time(time.as_nanos()))
    }

    /// Why the store takes no more changes, if it does not.
    pub fn poisoned(&self) -> Option<String> {
        self.flusher.stopped()
    }

    /// What it holds.
    ///
    /// # Errors
    /// `Index`, `Io`.
    pub fn stats(&self) -> Result<StoreStats> {
        let (operations, versions) = self.indexer.ask(super::index::Reader::counts)?;
        let aside_bytes = self.aside_sizes()?.values().sum();
        let contents = self.blobs.len() as u64;
        Ok(StoreStats { operations, versions, contents, log_bytes: self.log.size(), aside_bytes })
    }

    /// The position behind the last record.
    pub fn end_of_log(&self) -> Lsn {
        Lsn(self.log.end())
    }

    /// The flusher, for what only it tells.
    #[cfg(test)]
    pub(super) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    /// The index, when it has seen all that was appended so far.
    pub(super) fn index(&self) -> &Indexer {
        &self.indexer
    }

    /// An operation as far as the index has come.
    pub(super) fn indexed_operation(&self, op: OpId) -> Result<Option<Operation>> {
        let found = self.indexer.ask_now(|index| Ok((index.lsn(op)?, index.settled(op)?)))?;
        let (Some(lsn), settled) = found else { return Ok(None) };
        let mut operation = self.operation_at(lsn)?;
        for (node, content) in settled {
            for change in operation.changes.iter_mut().filter(|change| change.node == node) {
                if let Some(after) = &mut change.after
                    && matches!(after.content, super::Content::Live(_))
                {
                    after.content.clone_from(&content);
                }
            }
        }
        self.tell_dropped(&mut operation)?;
        Ok(Some(operation))
    }

    fn operation_at(&self, lsn: Lsn) -> Result<Operation> {
        self.decode(&self.log.read(lsn)?)
    }

    fn decode(&self, record: &Record) -> Result<Operation> {
        codec::operation_of(&record.payload, |number| self.actor(number))
    }

    fn actor(&self, number: u32) -> Result<Actor> {
        if let Some(actor) = self.actors.get(number) {
            return Ok(actor);
        }
        let actor = self.indexer.ask_now(|index| index.actor(number))?;
        let actor = actor.ok_or_else(|| StoreError::Damaged(format!("no record names actor {number}")))?;
        self.actors.found(number, &actor);
        Ok(actor)
    }
}

/// What a node was like after an operation: of several changes the last one tells.
fn state_after(operation: Operation, node: NodeId) -> Option<State> {
    let last = operation.changes.into_iter().rev().find(|change| change.node == node)?;
    if last.kind == super::ChangeKind::Exchange { last.before } else { last.after }
}

/// The node that the name of a file aside tells.
fn node_of(name: &crate::types::EntryName) -> Option<u64> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?;
    name.split('-').next()?.parse().ok()
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}
