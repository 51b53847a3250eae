//! Threads for requests that may wait for a disk, so that those of the others are not held up behind them.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};

/// Threads at most. They wait for disks and locks, not for processors.
const THREADS_MAX: usize = 8;
/// Requests that may wait for a thread; more are answered where they arrive.
const QUEUE_MAX: usize = 256;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// A pool whose threads start when they are first needed. Dropping it finishes what waits.
#[derive(Default)]
pub(super) struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// Does `work` on a thread of the pool, or here if all are taken and too much waits.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        let work: Work = Box::new(work);
        let here = {
            let mut queue = self.shared.queue.lock();
            if queue.waiting.len() >= queue.idle && queue.threads.len() < THREADS_MAX {
                let shared = Arc::clone(&self.shared);
                let started = std::thread::Builder::new().name("fuse-pool".into()).spawn(move || serve(&shared));
                queue.threads.extend(started.ok());
            }
            if queue.threads.is_empty() || queue.waiting.len() >= QUEUE_MAX {
                Some(work)
            } else {
                queue.waiting.push_back(work);
                self.shared.ready.notify_one();
                None
            }
        };
        if let Some(work) = here {
            work();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.shared.queue.lock();
            queue.stopping = true;
            self.shared.ready.notify_all();
            std::mem::take(&mut queue.threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool panicked");
            }
        }
    }
}

fn serve(shared: &Shared) {
    loop {
        let work = {
            let mut queue = shared.queue.lock();
            loop {
                if let Some(work) = queue.waiting.pop_front() {
                    break work;
                }
                if queue.stopping {
                    return;
                }
                queue.idle += 1;
                shared.ready.wait(&mut queue);
                queue.idle -= 1;
            }
        };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("a request panicked; it is answered with an I/O error");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;

    #[test]
    fn work_that_waits_does_not_hold_up_other_work() {
        let pool = Pool::default();
        let (go, gone) = mpsc::channel::<()>();
        pool.run(move || gone.recv().unwrap());
        let (done, finished) = mpsc::channel();
        pool.run(move || done.send(()).unwrap());
        finished.recv().unwrap();
        go.send(()).unwrap();
    }

    #[test]
    fn a_panic_ends_one_piece_of_work_and_dropping_finishes_the_rest() {
        let count = Arc::new(AtomicUsize::new(0));
        let pool = Pool::default();
        for n in 0..1000 {
            let count = Arc::clone(&count);
            pool.run(move || {
                count.fetch_add(1, Ordering::Relaxed);
                // Not where it would panic in this thread: once the queue is full, work is done here.
                assert!(n != 3, "planted");
            });
        }
        drop(pool);
        assert_eq!(count.load(Ordering::Relaxed), 1000);
    }
}
