//! Files searched by several threads, and their outcomes taken in the order in which the files were met.
//!
//! One lock, held for moments only, never while a file is read.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZero,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use parking_lot::{Condvar, Mutex};

/// Items handed over at once.
const BATCH: usize = 64;
/// Batches that wait to be worked on, or to be taken.
const AHEAD: usize = 8;

/// Works through items in parallel.
pub(super) struct Crowd<'c, Item, Out> {
    work: &'c (dyn Fn(&Item) -> Out + Sync),
    state: Mutex<State<'c, Item, Out>>,
    /// Something to do, or an end.
    ready: Condvar,
    /// Room for more.
    room: Condvar,
    stopped: AtomicBool,
}

struct State<'c, Item, Out> {
    waiting: VecDeque<(u64, Vec<Item>)>,
    done: BTreeMap<u64, Vec<(Item, Out)>>,
    next_in: u64,
    next_out: u64,
    closed: bool,
    take: Box<dyn FnMut(Item, Out) -> bool + Send + 'c>,
}

impl<'c, Item: Send, Out: Send> Crowd<'c, Item, Out> {
    /// `work` runs on any thread; `take` gets all outcomes in order, one at a time, until it answers false.
    fn new(work: &'c (dyn Fn(&Item) -> Out + Sync), take: impl FnMut(Item, Out) -> bool + Send + 'c) -> Self {
        Crowd {
            work,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                done: BTreeMap::new(),
                next_in: 0,
                next_out: 0,
                closed: false,
                take: Box::new(take),
            }),
            ready: Condvar::new(),
            room: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Hands a batch over; waits for room.
    fn offer(&self, batch: Vec<Item>) {
        let mut state = self.state.lock();
        while !self.is_stopped() && state.waiting.len() >= AHEAD {
            self.room.wait(&mut state);
        }
        let number = state.next_in;
        state.next_in += 1;
        state.waiting.push_back((number, batch));
        self.ready.notify_one();
    }

    /// No more will come.
    fn close(&self) {
        self.state.lock().closed = true;
        self.ready.notify_all();
    }

    /// What each thread does until the end.
    fn help(&self) {
        let mut state = self.state.lock();
        loop {
            // Far ahead of what can be taken, outcomes would only pile up.
            let near = |state: &State<'c, Item, Out>| {
                let ahead = u64::try_from(AHEAD).unwrap_or(u64::MAX);
                state.waiting.front().is_some_and(|(number, _)| *number <= state.next_out + ahead)
            };
            let is_done = |state: &State<'c, Item, Out>| state.closed && state.waiting.is_empty();
            while !(self.is_stopped() || near(&state) || is_done(&state)) {
                self.ready.wait(&mut state);
            }
            if self.is_stopped() {
                return;
            }
            let Some((number, batch)) = state.waiting.pop_front() else { return };
            self.room.notify_one();
            drop(state);
            let done = batch.into_iter().map(|item| {
                let out = (self.work)(&item);
                (item, out)
            });
            let done = done.collect();
            state = self.state.lock();
            state.done.insert(number, done);
            self.take_ready(&mut state);
        }
    }

    fn take_ready(&self, state: &mut State<'c, Item, Out>) {
        let before = state.next_out;
        while let Some(batch) = state.done.remove(&state.next_out) {
            state.next_out += 1;
            for (item, out) in batch {
                if !self.is_stopped() && !(state.take)(item, out) {
                    self.stopped.store(true, Ordering::Relaxed);
                }
            }
        }
        if state.next_out > before || self.is_stopped() {
            self.ready.notify_all();
            self.room.notify_all();
        }
    }
}

/// Feeds `items` through `work` and into `take`, in order. `feed` gets a function that takes one item, and answers false
/// when no more are wanted. Few items are worked on here; more, by as many threads as there are processors, four at most.
pub(super) fn in_order<Item: Send, Out: Send, R>(
    work: &(dyn Fn(&Item) -> Out + Sync),
    take: impl FnMut(Item, Out) -> bool + Send,
    feed: impl FnOnce(&mut dyn FnMut(Item) -> bool) -> R,
) -> R {
    let crowd = Crowd::new(work, take);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(4);
    thread::scope(|scope| {
        let mut batch = Vec::new();
        let mut started = false;
        let result = feed(&mut |item| {
            batch.push(item);
            if batch.len() == BATCH {
                if !started {
                    started = true;
                    (0..threads).for_each(|_| drop(scope.spawn(|| crowd.help())));
                }
                crowd.offer(std::mem::take(&mut batch));
            }
            !crowd.is_stopped()
        });
        crowd.offer(batch);
        crowd.close();
        crowd.help();
        result
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn check(items: usize, stop_after: usize) {
        let mut taken = Vec::new();
        let met = AtomicUsize::new(0);
        let work = |item: &usize| {
            met.fetch_add(1, Ordering::Relaxed);
            item * 2
        };
        in_order(
            &work,
            |item, out| {
                taken.push((item, out));
                taken.len() < stop_after
            },
            |each| (0..items).all(each),
        );
        let expected: Vec<_> = (0..items.min(stop_after)).map(|item| (item, item * 2)).collect();
        assert_eq!(taken, expected, "{items} items, stop after {stop_after}");
        assert!(met.load(Ordering::Relaxed) <= stop_after.saturating_add(BATCH * (2 * AHEAD + 8)), "stops soon");
    }

    #[test]
    fn outcomes_come_in_order() {
        for items in [0, 1, BATCH - 1, BATCH, BATCH + 1, 10_000, 100_000] {
            for stop_after in [1, 3, BATCH, 5_000, usize::MAX] {
                check(items, stop_after);
            }
        }
    }
}
