//! The process's budget of descriptors: cached ones give way, pinned ones stay.
//!
//! Lock order: the clock, then one slot. A slot's lock is never held while the clock's is taken.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Errno, Result};

/// Descriptors left for open files, sockets, the store and the device.
const RESERVE: usize = 1024;
/// However high the limit: each descriptor keeps an inode in the kernel's memory.
const MOST: usize = 65_536;
/// How many give way when the kernel has no descriptor left for us.
const STEP: usize = 64;

static CACHE: LazyLock<FdCache> = LazyLock::new(|| FdCache::new(bound_of(getrlimit(Resource::Nofile).current)));

/// All file systems of the process share one.
pub(super) struct FdCache {
    bound: AtomicUsize,
    /// Slots that hold a descriptor, pinned or not.
    held: AtomicUsize,
    /// Slots whose descriptor can never be let go.
    forced: AtomicUsize,
    /// Second chance: the front goes unless it was used since it was last looked at.
    clock: Mutex<VecDeque<Weak<Slot>>>,
}

/// Where one `HostRef` keeps its descriptor.
pub(super) struct Slot {
    cache: &'static FdCache,
    state: Mutex<State>,
}

struct State {
    fd: Option<Arc<OwnedFd>>,
    /// It could not be had again.
    forced: bool,
    pinned: bool,
    used: bool,
    /// On the clock.
    listed: bool,
}

impl State {
    fn stays(&self) -> bool {
        self.pinned || self.forced
    }
}

/// Raises the soft limit of open descriptors to the hard one, and the cache's bound with it; returns the limit.
/// To be called once, before anything is opened.
///
/// # Errors
/// The host's.
pub fn raise_fd_limit() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    CACHE.bound.store(bound_of(limit.maximum), Ordering::Relaxed);
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Runs a call that makes a descriptor, and again after cached ones gave way if there was none left.
pub(super) fn with_room<T>(call: impl FnMut() -> Result<T>) -> Result<T> {
    CACHE.with_room(call)
}

fn bound_of(limit: Option<u64>) -> usize {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    limit.saturating_sub(RESERVE).max(limit.min(2 * RESERVE) / 2).min(MOST)
}

impl FdCache {
    pub fn of_process() -> &'static Self {
        &CACHE
    }

    pub fn new(bound: usize) -> Self {
        FdCache {
            bound: AtomicUsize::new(bound),
            held: AtomicUsize::new(0),
            forced: AtomicUsize::new(0),
            clock: Mutex::default(),
        }
    }

    /// A slot whose descriptor stays for its whole life, because it could not be had again.
    ///
    /// # Errors
    /// EMFILE once such slots use up the bound: nothing else can give way for them.
    pub fn forced(&'static self, fd: OwnedFd) -> Result<Arc<Slot>> {
        if self.forced.fetch_add(1, Ordering::Relaxed) >= self.bound.load(Ordering::Relaxed) {
            self.forced.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::MFILE);
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        let state = State { fd: Some(Arc::new(fd)), forced: true, pinned: false, used: false, listed: false };
        let slot = Arc::new(Slot { cache: self, state: Mutex::new(state) });
        self.sweep();
        Ok(slot)
    }

    /// A slot that can be filled again after its descriptor gave way.
    pub fn slot(&'static self, fd: Option<OwnedFd>) -> Arc<Slot> {
        let state = State { fd: None, forced: false, pinned: false, used: false, listed: false };
        let slot = Arc::new(Slot { cache: self, state: Mutex::new(state) });
        if let Some(fd) = fd {
            slot.fill(fd);
        }
        slot
    }

    fn with_room<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match call() {
                Err(Errno::MFILE | Errno::NFILE) if self.give_way(STEP) > 0 => {}
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Lets cached descriptors go until no more than the bound are held, as far as there are unpinned ones.
    fn sweep(&self) {
        let held = self.held.load(Ordering::Relaxed);
        let bound = self.bound.load(Ordering::Relaxed);
        if held > bound {
            self.give_way(held - bound);
        }
    }

    /// Lets up to `count` unpinned descriptors go, least used first; returns how many went.
    fn give_way(&self, count: usize) -> usize {
        let mut gone = Vec::new();
        let mut clock = self.clock.lock();
        // Twice round: the first look takes the mark of use away.
        for _ in 0..clock.len() * 2 {
            if gone.len() >= count {
                break;
            }
            let Some(weak) = clock.pop_front() else { break };
            let Some(slot) = weak.upgrade() else { continue };
            let mut state = slot.state.lock();
            if state.stays() || state.fd.is_none() {
                state.listed = false;
            } else if state.used {
                state.used = false;
                clock.push_back(weak);
            } else {
                state.listed = false;
                gone.extend(state.fd.take());
            }
            drop(state);
            drop(slot);
        }
        drop(clock);
        self.held.fetch_sub(gone.len(), Ordering::Relaxed);
        gone.len()
    }

    fn list(&self, slot: &Arc<Slot>) {
        let mut clock = self.clock.lock();
        if clock.len() > 2 * self.held.load(Ordering::Relaxed) + RESERVE {
            clock.retain(|weak| weak.strong_count() > 0);
        }
        clock.push_back(Arc::downgrade(slot));
    }
}

impl Slot {
    /// The descriptor, if it is there; marks it as used.
    pub fn get(&self) -> Option<Arc<OwnedFd>> {
        let mut state = self.state.lock();
        state.used = true;
        state.fd.clone()
    }

    /// Keeps `fd` unless another thread was faster; returns the one that is kept.
    pub fn fill(self: &Arc<Self>, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = Arc::new(fd);
        let mut state = self.state.lock();
        if let Some(there) = &state.fd {
            return Arc::clone(there);
        }
        state.fd = Some(Arc::clone(&fd));
        let list = !state.listed && !state.stays();
        state.listed |= list;
        // Counted under the lock: whoever takes the descriptor away counts after this.
        self.cache.held.fetch_add(1, Ordering::Relaxed);
        drop(state);
        if list {
            self.cache.list(self);
        }
        self.cache.sweep();
        fd
    }

    /// From now on the descriptor stays, and is filled by the caller if it is not there (false).
    pub fn pin(&self) -> bool {
        let mut state = self.state.lock();
        state.pinned = true;
        state.fd.is_some()
    }

    /// The descriptor may give way again.
    pub fn unpin(self: &Arc<Self>) {
        self.loosen(|state| state.pinned = false);
    }

    /// What was forced can be had again from now on: its descriptor may give way, unless it is pinned.
    pub fn ease(self: &Arc<Self>) {
        self.loosen(|state| {
            if std::mem::take(&mut state.forced) {
                self.cache.forced.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    fn loosen(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let list = !state.listed && !state.stays() && state.fd.is_some();
        state.listed |= list;
        drop(state);
        if list {
            self.cache.list(self);
            self.cache.sweep();
        }
    }

    /// Lets the descriptor go now, unless it is pinned.
    pub fn release(&self) {
        let mut state = self.state.lock();
        if state.stays() {
            return;
        }
        let fd = state.fd.take();
        drop(state);
        if fd.is_some() {
            self.cache.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.fd.is_some() {
            self.cache.held.fetch_sub(1, Ordering::Relaxed);
        }
        if state.forced {
            self.cache.forced.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn cache(bound: usize) -> &'static FdCache {
        Box::leak(Box::new(FdCache::new(bound)))
    }

    fn fd() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn the_bound_leaves_room_for_others() {
        for (limit, bound) in
            [(Some(20_000), 18_976), (Some(1024), 512), (Some(4096), 3072), (None, MOST), (Some(0), 0)]
        {
            assert_eq!(bound_of(limit), bound, "{limit:?}");
        }
    }

    #[test]
    fn the_limit_is_raised_and_stays_raised() {
        let limit = raise_fd_limit().unwrap();
        assert_eq!(raise_fd_limit(), Ok(limit));
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }

    #[test]
    fn the_one_not_used_gives_way() {
        let cache = cache(2);
        let (a, b) = (cache.slot(Some(fd())), cache.slot(Some(fd())));
        assert!(a.get().is_some());
        let c = cache.slot(Some(fd()));
        assert_eq!([&a, &b, &c].map(|slot| slot.get().is_some()), [true, false, true]);
        assert_eq!(cache.held(), 2);
        b.fill(fd());
        assert_eq!(cache.held(), 2);
        assert!(b.get().is_some());
    }

    #[test]
    fn the_first_of_two_fillers_wins() {
        let slot = cache(2).slot(None);
        let first = slot.fill(fd());
        assert_eq!(slot.fill(fd()).as_raw_fd(), first.as_raw_fd());
        assert_eq!(slot.cache.held(), 1);
    }

    #[test]
    fn pinned_descriptors_stay_when_all_give_way() {
        let cache = cache(100);
        let slots: Vec<_> = (0..10).map(|_| cache.slot(Some(fd()))).collect();
        assert!(slots[4].pin());
        let kept = cache.forced(fd()).unwrap();
        kept.unpin();
        assert_eq!(cache.give_way(usize::MAX), 9);
        assert_eq!(cache.held(), 2);
        assert!(slots[4].get().is_some() && kept.get().is_some());
        slots[4].unpin();
        assert_eq!(cache.give_way(usize::MAX), 1);
        assert!(!slots[3].pin(), "to be filled by whoever pins");
        slots[3].fill(fd());
        assert_eq!(cache.give_way(usize::MAX), 0);
    }

    #[test]
    fn cached_descriptors_give_way_to_a_call_that_needs_one() {
        let cache = cache(1000);
        let slots: Vec<_> = (0..2 * STEP).map(|_| cache.slot(Some(fd()))).collect();
        assert!(slots[0].pin());
        let mut calls = 0;
        let needs = |held: usize, calls: &mut u32| {
            *calls += 1;
            if cache.held() > held { Err(Errno::MFILE) } else { Ok(()) }
        };
        assert_eq!(cache.with_room(|| needs(STEP, &mut calls)), Ok(()));
        assert_eq!((cache.held(), calls), (STEP, 2));
        assert_eq!(cache.with_room(|| needs(0, &mut calls)), Err(Errno::MFILE), "the pinned one stays");
        assert_eq!(cache.held(), 1);
        let mut interrupted = [Err(Errno::INTR), Err(Errno::INTR), Ok(5)].into_iter();
        assert_eq!(cache.with_room(|| interrupted.next().unwrap()), Ok(5));
    }

    #[test]
    fn the_clock_forgets_the_dead() {
        let cache = cache(10);
        for _ in 0..5 * RESERVE {
            drop(cache.slot(Some(fd())));
        }
        assert!(cache.clock.lock().len() <= RESERVE + 1);
        assert_eq!(cache.held(), 0);
    }
}
