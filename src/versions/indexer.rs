//! The index's thread: it reads what was appended and applies it, at once for those who ask, else in batches.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{
    StoreError,
    error::failed,
    heads::Heads,
    index::{Index, Reader, is_broken},
    log::Log,
    segment::{Part, Record},
};

type Result<T> = std::result::Result<T, StoreError>;

/// Records wait so long for others, if nobody asks.
const BATCH_TIME: Duration = Duration::from_millis(50);
/// Records in one transaction.
pub(super) const BATCH: usize = 4096;
/// After a failure the next attempt waits so long, if nobody asks.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    /// Somebody waits for the index to get here.
    wanted: u64,
    /// Attempts so far, and why the last one failed.
    attempts: u64,
    failure: Option<Failure>,
    /// The index has to be built anew.
    rebuild: bool,
    ending: bool,
}

/// An error that several may be told of.
#[derive(Clone)]
enum Failure {
    NoSpace,
    Index(rusqlite::ffi::Error, Option<String>),
    Other(String),
}

/// The index of a store and its thread.
///
/// Locks: `state` and `reader` are never held together.
pub(super) struct Indexer {
    log: Arc<Log>,
    heads: Arc<Heads>,
    path: PathBuf,
    store: String,
    applied: AtomicU64,
    idle: AtomicBool,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    reader: Mutex<Option<Reader>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Indexer {
    /// Starts the thread over an index.
    pub fn start(index: Index, log: &Arc<Log>, heads: &Arc<Heads>, path: &Path, store: &str) -> Result<Arc<Indexer>> {
        let indexer = Arc::new(Indexer {
            log: Arc::clone(log),
            heads: Arc::clone(heads),
            path: path.to_owned(),
            store: store.to_owned(),
            applied: AtomicU64::new(index.applied()),
            idle: AtomicBool::new(false),
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            reader: Mutex::new(Some(index.reader()?)),
            thread: Mutex::default(),
        });
        heads.indexed(index.applied());
        let ours = Arc::clone(&indexer);
        let run = move || ours.run(index);
        let thread = std::thread::Builder::new().name("indexer".into()).spawn(run).map_err(|e| failed(path, e))?;
        *indexer.thread.lock() = Some(thread);
        Ok(indexer)
    }

    /// Something was appended.
    pub fn appended(&self) {
        if self.idle.swap(false, Ordering::SeqCst) {
            // Under the lock, so that the thread cannot miss it between its look and its wait.
            let _state = self.state.lock();
            self.work.notify_one();
        }
    }

    /// Asks when the index has applied all that was appended before.
    pub fn ask<T>(&self, question: impl Fn(&Reader) -> Result<T>) -> Result<T> {
        self.wait(self.log.end())?;
        self.ask_now(question)
    }

    /// Asks what the index knows now. An index that turns out to be broken is built anew, once.
    pub fn ask_now<T>(&self, question: impl Fn(&Reader) -> Result<T>) -> Result<T> {
        match self.with_reader(&question) {
            Err(error) if is_broken(&error) => {
                self.state.lock().rebuild = true;
                self.wait(self.log.end())?;
                self.with_reader(&question)
            }
            answer => answer,
        }
    }

    fn with_reader<T>(&self, question: &impl Fn(&Reader) -> Result<T>) -> Result<T> {
        let reader = self.reader.lock();
        match reader.as_ref() {
            Some(reader) => question(reader),
            None => Err(StoreError::Damaged("the index could not be built".into())),
        }
    }

    fn wait(&self, end: u64) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.attempts;
        while self.applied.load(Ordering::Acquire) < end || state.rebuild {
            if state.attempts > before
                && let Some(failure) = &state.failure
            {
                return Err(failure.error(&self.path));
            }
            if state.ending {
                return Err(StoreError::Poisoned("the store is closed".into()));
            }
            state.wanted = state.wanted.max(end).max(1);
            self.work.notify_one();
            self.done.wait(&mut state);
        }
        Ok(())
    }

    /// Ends the thread; what was appended is applied first.
    pub fn end(&self) {
        self.state.lock().ending = true;
        self.work.notify_all();
        self.done.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }

    fn run(&self, mut index: Index) {
        while self.pause() {
            let result = self.turn(&mut index);
            let mut state = self.state.lock();
            state.attempts += 1;
            state.failure = result.err().map(|error| {
                state.rebuild |= is_broken(&error);
                Failure::of(error)
            });
            drop(state);
            self.done.notify_all();
        }
    }

    /// Waits for work. False to end, when what was appended is applied.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        let behind = |indexer: &Self| indexer.applied.load(Ordering::Acquire) < indexer.log.end();
        let asked =
            |indexer: &Self, state: &State| state.rebuild || state.wanted > indexer.applied.load(Ordering::Acquire);
        if state.failure.is_some() {
            if !state.ending && !asked(self, &state) {
                self.work.wait_for(&mut state, PAUSE);
            }
            return !state.ending;
        }
        while !state.ending && !asked(self, &state) {
            self.idle.store(true, Ordering::SeqCst);
            if behind(self) {
                break;
            }
            self.work.wait(&mut state);
        }
        self.idle.store(false, Ordering::SeqCst);
        if !state.ending && !asked(self, &state) {
            self.work.wait_for(&mut state, BATCH_TIME);
        }
        !state.ending || behind(self)
    }

    /// Applies what was appended, up to what was there at the start.
    fn turn(&self, index: &mut Index) -> Result<()> {
        let rebuild = self.state.lock().rebuild;
        if rebuild {
            let mut reader = self.reader.lock();
            *reader = None;
            *index = Index::create(&self.path, &self.store)?;
            *reader = Some(index.reader()?);
            self.applied.store(0, Ordering::Release);
        }
        let until = self.log.end();
        while index.applied() < until {
            let durable = self.log.flusher.flushed();
            let batch = self.batch(index.applied(), until)?;
            index.apply(&batch, durable)?;
            self.heads.indexed(index.applied().min(durable));
            self.applied.store(index.applied(), Ordering::Release);
        }
        if rebuild {
            self.state.lock().rebuild = false;
        }
        index.checkpoint()
    }

    fn batch(&self, from: u64, until: u64) -> Result<Vec<Record>> {
        let mut records: Vec<Record> = Vec::new();
        let mut at = from;
        let mut last_blob = None;
        while records.len() < BATCH {
            at = self.log.seek(at)?;
            if at >= until {
                break;
            }
            let record = self.log.at(at, Part::NoContents)?;
            let record = record.ok_or_else(|| StoreError::Damaged(format!("no record at position {at}")))?;
            at = record.end;
            last_blob = (record.mark.0 == 0).then_some(record.lsn);
            records.push(record);
        }
        // The last one's checksum is kept, to know the log again.
        if let (Some(lsn), Some(last)) = (last_blob, records.last_mut()) {
            last.mark = self.log.read(lsn)?.mark;
        }
        Ok(records)
    }
}

impl Failure {
    fn of(error: StoreError) -> Failure {
        match error {
            StoreError::NoSpace { .. } | StoreError::Quota { .. } => Failure::NoSpace,
            StoreError::Index(rusqlite::Error::SqliteFailure(error, text)) => {
                if error.code == rusqlite::ErrorCode::DiskFull { Failure::NoSpace } else { Failure::Index(error, text) }
            }
            StoreError::Index(_)
            | StoreError::Locked { .. }
            | StoreError::Format { .. }
            | StoreError::Damaged(_)
            | StoreError::Poisoned(_)
            | StoreError::Unavailable(_)
            | StoreError::Corrupt(_)
            | StoreError::Io { .. } => Failure::Other(error.to_string()),
        }
    }

    fn error(&self, path: &Path) -> StoreError {
        match self {
            Failure::NoSpace => StoreError::NoSpace { path: path.to_owned() },
            Failure::Index(error, text) => StoreError::Index(rusqlite::Error::SqliteFailure(*error, text.clone())),
            Failure::Other(what) => {
                StoreError::Io { what: path.display().to_string(), source: std::io::Error::other(what.clone()) }
            }
        }
    }
}
