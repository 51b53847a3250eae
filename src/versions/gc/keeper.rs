//! The thread that keeps the store within its bounds: it looks often, and works when there is something to do.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{Aim, Result};
use crate::versions::{Store, error::failed, retention::Disk};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Between two collections by rule, and before the first.
const RULES: Duration = Duration::from_secs(600);
const FIRST: Duration = Duration::from_secs(60);
/// After a collection that could not free enough the next one waits so long.
const BACK_OFF: Duration = Duration::from_secs(20);
/// A count that takes long is not made often: this many times as long lies between two.
const COUNT_SHARE: u32 = 20;

#[derive(Default)]
struct State {
    ending: bool,
    /// Numbers of actors below which none was given out since the collection before the last.
    retired: (u32, u32),
    /// The last collection that failed, in words.
    failure: Option<String>,
}

/// The keeper of a store.
#[derive(Default)]
pub(super) struct Keeper {
    state: Mutex<State>,
    wake: Condvar,
    /// The disk has less free than must stay so.
    short_of_disk: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    pub fn is_short_of_disk(&self) -> bool {
        self.short_of_disk.load(Ordering::Relaxed)
    }

    /// Notes which actors are not given out from now on; returns the bound of the time before.
    pub fn retired(&self, first: u32) -> u32 {
        let mut state = self.state.lock();
        state.retired = (state.retired.1, first);
        state.retired.0
    }
}

impl Store {
    /// Starts the keeper.
    ///
    /// # Errors
    /// `Io`.
    pub fn keep(self: &Arc<Self>) -> Result<()> {
        let store = Arc::downgrade(self);
        let run = move || run(&store);
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(run).map_err(|e| failed(&self.path, e))?;
        *self.keeping.keeper.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the keeper.
    pub(in crate::versions) fn end_keeper(&self) {
        let keeper = &self.keeping.keeper;
        keeper.state.lock().ending = true;
        keeper.wake.notify_all();
        let thread = keeper.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }

    /// Why the last collection failed, if it did.
    pub fn gc_failure(&self) -> Option<String> {
        self.keeping.keeper.state.lock().failure.clone()
    }

    /// True if the keeper is to end.
    pub(super) fn is_ending(&self) -> bool {
        self.keeping.keeper.state.lock().ending
    }
}

struct Plan {
    rules: Instant,
    count: Instant,
    press: Instant,
}

fn run(store: &Weak<Store>) {
    let begun = Instant::now();
    let mut plan = Plan { rules: begun + FIRST, count: begun, press: begun };
    loop {
        let Some(store) = store.upgrade() else { return };
        let keeper = &store.keeping.keeper;
        let mut state = keeper.state.lock();
        if !state.ending {
            keeper.wake.wait_for(&mut state, LOOK);
        }
        if state.ending {
            return;
        }
        drop(state);
        if store.poisoned().is_some() {
            continue;
        }
        let failure = look(&store, &mut plan).err().map(|error| error.to_string());
        if failure.is_some() {
            plan.press = Instant::now() + BACK_OFF;
        }
        keeper.state.lock().failure = failure;
    }
}

fn look(store: &Store, plan: &mut Plan) -> Result<()> {
    let now = Instant::now();
    if now >= plan.count {
        store.used()?;
        plan.count = Instant::now() + now.elapsed() * COUNT_SHARE;
    }
    let disk = Disk::of(&store.path)?;
    store.keeping.keeper.short_of_disk.store(disk.free < disk.left_free(), Ordering::Relaxed);
    let (used, quota) = (store.keeping.used.load(Ordering::Relaxed), store.quota()?);
    if used >= quota / 10 * 8 && now >= plan.press {
        let report = store.collect(Aim::Space { target: quota / 10 * 7, all: used >= quota }, false)?;
        if report.used.1 >= quota / 10 * 8 {
            plan.press = Instant::now() + BACK_OFF;
        }
    } else if now >= plan.rules {
        store.collect(Aim::Rules, false)?;
        plan.rules = Instant::now() + RULES;
    }
    Ok(())
}
