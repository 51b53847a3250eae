//! Group commit: one thread flushes the log for all who wait, and within a second for nobody in particular.

use std::{
    fs::File,
    os::fd::AsFd,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Condvar, Mutex};

use super::{StoreError, log::Log};
use crate::{crash_point, host};

/// What nobody waits for is flushed after this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Why nothing is written any more.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stopped {
    /// A flush failed.
    Poisoned(String),
    /// The log was damaged when it was opened.
    Damaged(String),
    /// The store was closed.
    Closed,
}

#[derive(Default)]
struct State {
    wanted: u64,
    stopped: Option<Stopped>,
    /// The thread has to end.
    ending: bool,
}

/// The flusher of a log.
#[derive(Default)]
pub(super) struct Flusher {
    state: Mutex<State>,
    /// Somebody waits, or something is unflushed.
    work: Condvar,
    /// A flush is done, or none will be.
    done: Condvar,
    /// So much of the log is on disk.
    flushed: AtomicU64,
    /// Something was appended since the last flush began.
    is_dirty: AtomicBool,
    /// Names were changed whose records are not on disk yet.
    names_changed: AtomicBool,
    /// Puts all changes of names so far on disk.
    names: OnceLock<Names>,
    is_stopped: AtomicBool,
    /// One flush at a time: an error is reported to one caller only, and that one must stop all.
    turn: Mutex<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    pub count: AtomicU64,
    #[cfg(test)]
    pub names_count: AtomicU64,
    #[cfg(test)]
    pub fail_next: AtomicBool,
}

/// The way to put changes of names on disk.
struct Names {
    /// A file beside the log.
    beside: File,
    /// Metadata is written in order: what changed before the times of a file did is on disk with these.
    in_order: bool,
}

impl Names {
    fn of(beside: File) -> Self {
        // Of btrfs a flush of one file puts nothing but that file on disk.
        let in_order = host::type_of(beside.as_fd()).is_ok_and(|kind| matches!(kind, "ext4" | "xfs"));
        Names { beside, in_order }
    }

    fn sync(&self) -> std::io::Result<()> {
        if !self.in_order {
            return Ok(host::sync_fs(self.beside.as_fd())?);
        }
        self.beside.set_modified(SystemTime::now())?;
        self.beside.sync_all()
    }
}

impl Flusher {
    /// Starts its thread. `flushed`: so much of the log is on disk already. `beside`: a file of the store.
    pub fn start(self: &Arc<Self>, log: &Arc<Log>, flushed: u64, beside: File) -> std::io::Result<()> {
        self.flushed.store(flushed, Ordering::Release);
        self.names.get_or_init(|| Names::of(beside));
        let (flusher, log) = (Arc::clone(self), Arc::downgrade(log));
        let thread = std::thread::Builder::new().name("flusher".into()).spawn(move || flusher.run(&log))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    fn run(&self, log: &Weak<Log>) {
        loop {
            let mut state = self.state.lock();
            while !state.ending && state.wanted <= self.flushed() && !self.is_dirty.load(Ordering::SeqCst) {
                self.work.wait(&mut state);
            }
            let until = Instant::now() + INTERVAL;
            while !state.ending && state.wanted <= self.flushed() {
                if self.work.wait_until(&mut state, until).timed_out() {
                    break;
                }
            }
            let ending = state.ending;
            drop(state);
            let Some(log) = log.upgrade() else { return };
            self.is_dirty.store(false, Ordering::SeqCst);
            // The file is held until its flush is done: one opened later would not see the error.
            if let Some((file, end)) = log.tail() {
                // A failure is kept, and told to all who wait.
                let _ = self.flush(&file, end);
            }
            if ending || self.is_stopped.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Flushes a file that holds what is unflushed of the log up to `end`.
    pub fn flush(&self, file: &File, end: u64) -> Result<(), StoreError> {
        let turn = self.turn.lock();
        self.check()?;
        if self.flushed() >= end {
            return Ok(());
        }
        crash_point!("flush-begun");
        let result = self.sync_names().and_then(|()| self.sync_data(file));
        crash_point!("flush-done");
        if let Err(error) = result {
            // The kernel reports a lost page once; asking again would be answered with a lie.
            self.poison(format!("flushing the log failed: {error}"));
            drop(turn);
            return self.check();
        }
        self.flushed.fetch_max(end, Ordering::AcqRel);
        drop(turn);
        let _state = self.state.lock();
        self.done.notify_all();
        Ok(())
    }

    /// Puts changes of names on disk before their records: what the log says of a name is so.
    fn sync_names(&self) -> std::io::Result<()> {
        let Some(names) = self.names.get().filter(|_| self.names_changed.swap(false, Ordering::SeqCst)) else {
            return Ok(());
        };
        #[cfg(test)]
        self.names_count.fetch_add(1, Ordering::Relaxed);
        names.sync()
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests count and fail flushes here")]
    fn sync_data(&self, file: &File) -> std::io::Result<()> {
        if super::crash::planted("log-flush-left-out") {
            return Ok(());
        }
        file.sync_data()
    }

    #[cfg(test)]
    fn sync_data(&self, file: &File) -> std::io::Result<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        if self.fail_next.swap(false, Ordering::Relaxed) {
            return Err(std::io::Error::from_raw_os_error(libc::EIO));
        }
        file.sync_data()
    }

    /// Waits until the log is on disk up to `end`.
    pub fn wait(&self, end: u64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        loop {
            if self.flushed() >= end && !matches!(state.stopped, Some(Stopped::Poisoned(_))) {
                return Ok(());
            }
            if let Some(stopped) = &state.stopped {
                return Err(stopped.error());
            }
            if state.wanted < end {
                state.wanted = end;
                self.work.notify_one();
            }
            self.done.wait(&mut state);
        }
    }

    /// Something was appended: it is flushed within a second.
    pub fn dirty(&self) {
        if !self.is_dirty.swap(true, Ordering::SeqCst) {
            // Under the lock, so that the thread cannot miss it between its look and its wait.
            let _state = self.state.lock();
            self.work.notify_one();
        }
    }

    /// Names were changed, and the record of it is about to be appended.
    pub fn names_changed(&self) {
        self.names_changed.store(true, Ordering::SeqCst);
    }

    /// So much of the log is on disk.
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// An error if nothing may be written any more.
    pub fn check(&self) -> Result<(), StoreError> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        self.state.lock().stopped.as_ref().map_or(Ok(()), |stopped| Err(stopped.error()))
    }

    /// Why nothing is written any more.
    pub fn stopped(&self) -> Option<String> {
        self.check().err().map(|error| error.to_string())
    }

    /// Nothing is written any more: an I/O error.
    pub fn poison(&self, reason: String) {
        self.stop_with(Stopped::Poisoned(reason));
    }

    /// Nothing is written: the log is damaged.
    pub fn damaged(&self, reason: String) {
        self.stop_with(Stopped::Damaged(reason));
    }

    /// Nothing is written any more: the store was closed.
    pub fn close(&self) {
        self.stop_with(Stopped::Closed);
    }

    fn stop_with(&self, stopped: Stopped) {
        let mut state = self.state.lock();
        state.stopped.get_or_insert(stopped);
        self.is_stopped.store(true, Ordering::Release);
        self.done.notify_all();
        self.work.notify_all();
    }

    /// Holds all flushes back.
    #[cfg(test)]
    pub fn hold(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Is anything left to flush?
    #[cfg(test)]
    pub fn is_working(&self) -> bool {
        let state = self.state.lock();
        state.wanted > self.flushed() || self.is_dirty.load(Ordering::SeqCst)
    }

    /// Flushes once more and ends the thread.
    pub fn end(&self) {
        self.state.lock().ending = true;
        self.work.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Stopped {
    fn error(&self) -> StoreError {
        match self {
            Stopped::Poisoned(reason) => StoreError::Poisoned(reason.clone()),
            Stopped::Damaged(reason) => StoreError::Damaged(reason.clone()),
            Stopped::Closed => StoreError::Poisoned("the store is closed".into()),
        }
    }
}
