//! Shells that lost their way: a tool replaced the file between their lookup and their open. The kernel walks the path once more
//! and never again, so tools that replace files in a tight loop give way until the shell has opened the new one.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Who does not come back in this time has given up.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often a tool looks whether it may go on.
const PAUSE: Duration = Duration::from_millis(1);

/// Those who are waited for.
#[derive(Default)]
pub(super) struct Lost {
    waiting: Mutex<Vec<(u32, Instant)>>,
    any: AtomicBool,
    /// Held while a file is replaced.
    replacing: RwLock<()>,
}

impl Lost {
    /// An open by `pid` found its file replaced.
    pub fn note(&self, pid: u32) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(known, _)| *known != pid);
        waiting.push((pid, Instant::now()));
        self.any.store(true, Ordering::SeqCst);
    }

    /// Lets those finish who began to replace a file before that was noted. No lock may be held.
    pub fn let_finish(&self) {
        if self.any.load(Ordering::SeqCst) {
            drop(self.replacing.write());
        }
    }

    /// `pid` has opened a file.
    pub fn found(&self, pid: u32) {
        if self.any.load(Ordering::SeqCst) {
            self.keep(|known, _| known != pid);
        }
    }

    /// Waits until nobody has to be waited for. While the guard is held, a file may be replaced.
    pub fn give_way(&self) -> RwLockReadGuard<'_, ()> {
        loop {
            let guard = self.replacing.read();
            if !self.any.load(Ordering::SeqCst) || self.keep(|_, since| since.elapsed() < PATIENCE) {
                return guard;
            }
            drop(guard);
            std::thread::sleep(PAUSE);
        }
    }

    /// True if nobody is left.
    fn keep(&self, stays: impl Fn(u32, &Instant) -> bool) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(pid, since)| stays(*pid, since));
        self.any.store(!waiting.is_empty(), Ordering::SeqCst);
        waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_replaces_gives_way_to_each_who_is_lost_and_to_nobody_for_ever() {
        let lost = Lost::default();
        drop(lost.give_way());
        for pid in [1, 2] {
            lost.note(pid);
        }
        lost.found(1);
        std::thread::scope(|scope| {
            let begun = Instant::now();
            let waits = scope.spawn(|| drop(lost.give_way()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished(), "one is still lost");
            lost.found(2);
            waits.join().expect("it ended");
            assert!(begun.elapsed() < PATIENCE);
        });
        lost.note(3);
        drop(lost.give_way());
        assert!(!lost.any.load(Ordering::SeqCst), "he has given up");
    }

    #[test]
    fn what_was_begun_before_somebody_was_lost_is_finished_first() {
        let lost = Lost::default();
        let begun = lost.give_way();
        lost.note(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lost.let_finish());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished(), "a file is being replaced");
            drop(begun);
            waits.join().expect("it ended");
        });
    }
}
