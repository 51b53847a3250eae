//! Group commit: one thread flushes the log for all who wait, and each second for nobody in particular.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{StoreError, log::Log};

/// What is not flushed by request is flushed after this time.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    wanted: u64,
    flushed: u64,
    poisoned: Option<String>,
    stopping: bool,
}

/// The flusher of a log.
#[derive(Default)]
pub(super) struct Flusher {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    /// Starts its thread. `flushed`: so much of the log is on disk already.
    pub fn start(self: &Arc<Self>, log: &Arc<Log>, flushed: u64) {
        self.state.lock().flushed = flushed;
        let (flusher, log) = (Arc::downgrade(self), Arc::downgrade(log));
        let run = move || while turn(&flusher, &log) {};
        *self.thread.lock() = std::thread::Builder::new().name("flusher".into()).spawn(run).ok();
    }

    /// Waits until the log is on disk up to `end`.
    pub fn wait(&self, end: u64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        loop {
            if let Some(reason) = &state.poisoned {
                return Err(StoreError::Poisoned(reason.clone()));
            }
            if state.flushed >= end {
                return Ok(());
            }
            if state.stopping {
                return Err(StoreError::Poisoned("the store is closed".into()));
            }
            if state.wanted < end {
                state.wanted = end;
                self.changed.notify_all();
            }
            self.changed.wait(&mut state);
        }
    }

    /// Is the log on disk up to `end`?
    pub fn is_flushed(&self, end: u64) -> bool {
        self.state.lock().flushed >= end
    }

    /// Why nothing is written any more.
    pub fn poisoned(&self) -> Option<String> {
        self.state.lock().poisoned.clone()
    }

    /// Nothing is written any more.
    pub fn poison(&self, reason: String) {
        self.state.lock().poisoned.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// One flush. False to end.
fn turn(flusher: &Weak<Flusher>, log: &Weak<Log>) -> bool {
    let Some(flusher) = flusher.upgrade() else { return false };
    {
        let mut state = flusher.state.lock();
        if state.stopping || state.poisoned.is_some() {
            return false;
        }
        if state.wanted <= state.flushed {
            flusher.changed.wait_for(&mut state, INTERVAL);
        }
    }
    let Some(log) = log.upgrade() else { return false };
    // The file is held until its flush is done: one opened later would not see the error.
    let Some((file, end)) = log.tail() else { return true };
    if flusher.is_flushed(end) {
        return true;
    }
    let result = file.sync_data();
    let mut state = flusher.state.lock();
    match result {
        Ok(()) => state.flushed = state.flushed.max(end),
        // The kernel reports a lost page once; asking again would be answered with a lie.
        Err(error) => state.poisoned = Some(format!("flushing the log failed: {error}")),
    }
    drop(state);
    flusher.changed.notify_all();
    true
}
