//! Changes beside us: the kernel reports each change on the sources' file systems; what other kernels' caches hold of it is
//! dropped at once, and what changed is recorded soon after.
//!
//! Reports are hints. Whatever follows from one is found by looking at the host again. The thread that reads them holds no
//! lock while it tells a mount's kernel.

mod feed;
mod names;
mod record;
mod tell;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use self::feed::Feed;
use super::{Core, Invalidate, Source, View, file::File};
use crate::host::{self, Errno, Fs, Seen, Watch};

/// Reports read at once.
const BATCH: usize = 4096;
/// How long reports gather before they are read: a busy process makes many of one file, and the kernel merges what waits.
const GATHER: Duration = Duration::from_millis(2);
/// How long somebody waits who asks that what happened beside us up to now be recorded.
const CATCH_UP: Duration = Duration::from_secs(2);

/// The watch over the sources' file systems, and its thread.
#[derive(Default)]
pub(super) struct Outside {
    running: Mutex<Option<(Arc<Watch>, JoinHandle<()>)>>,
    counts: Arc<Counts>,
    asked: Mutex<Asked>,
    answered: Condvar,
}

/// Who asks that everything reported be recorded, and who was answered; in numbers.
#[derive(Default)]
struct Asked {
    last: u64,
    answered: u64,
}

#[derive(Default)]
struct Counts {
    reports: AtomicU64,
    overflows: AtomicU64,
    late: AtomicU64,
}

/// What was seen of changes beside us, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutsideStats {
    /// Reports of the kernel.
    pub reports: u64,
    /// How often the kernel lost reports, so that everything was looked at again.
    pub overflows: u64,
    /// How often an answer did not wait any longer for what others changed just before to be recorded.
    pub late: u64,
}

impl Core {
    /// From now on every change on a source's file system is seen when it happens.
    ///
    /// # Errors
    /// EPERM without privilege; EOPNOTSUPP where others than this kernel may change the file system, or it cannot be told of;
    /// the host's. Then changes beside us are seen when somebody looks.
    pub fn watch(self: &Arc<Core>, source: &Source) -> host::Result<()> {
        let mut running = self.outside.running.lock();
        let watch = match running.as_ref() {
            Some((watch, _)) => Arc::clone(watch),
            None => {
                let watch = Arc::new(Watch::new()?);
                let (core, theirs) = (Arc::downgrade(self), Arc::clone(&watch));
                let thread = std::thread::Builder::new().name("outside".into()).spawn(move || {
                    let _end = End { core: core.clone(), watch: Arc::clone(&theirs) };
                    run(&core, &theirs);
                });
                *running = Some((Arc::clone(&watch), thread.map_err(|_| Errno::AGAIN)?));
                watch
            }
        };
        if source.fs.is_watched() {
            return Ok(());
        }
        for dir in self.store.dirs() {
            // Where that cannot be spared us, it is read and thrown away.
            let _ = watch.ignore_in(&dir);
        }
        watch.add(&source.fs)
    }

    /// Waits until what was changed beside us up to now is recorded, if it is told at all; no lock may be held. Two seconds at
    /// most: who changes more than that has not come to an end either.
    pub fn catch_up(&self) {
        let watch = self.outside.running.lock().as_ref().map(|(watch, _)| Arc::clone(watch));
        let Some(watch) = watch else { return };
        let mut asked = self.outside.asked.lock();
        asked.last += 1;
        let number = asked.last;
        watch.wake();
        let until = Instant::now() + CATCH_UP;
        while asked.answered < number {
            if self.outside.answered.wait_until(&mut asked, until).timed_out() {
                self.outside.counts.late.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// What was seen of changes beside us.
    pub fn outside_stats(&self) -> OutsideStats {
        let counts = &self.outside.counts;
        OutsideStats {
            reports: counts.reports.load(Ordering::Relaxed),
            overflows: counts.overflows.load(Ordering::Relaxed),
            late: counts.late.load(Ordering::Relaxed),
        }
    }

    /// The served mounts of the file system that a report names.
    fn watched(&self, seen: &Seen) -> Vec<Arc<Fs>> {
        let known = self.filesystems.lock();
        known.iter().filter(|fs| fs.fsid() == seen.fsid && fs.is_watched()).cloned().collect()
    }

    /// A file that somebody refers to, by the handle in a report.
    fn reported(&self, fs: &Fs, handle: Option<&[u8]>) -> Option<Arc<File>> {
        self.files.get(&fs.key_of(handle?))
    }

    /// What is mounted inside the sources of all views.
    fn mounts_in_sources(&self) -> Vec<Vec<u8>> {
        let views = self.views();
        let roots = views.iter().flat_map(|view| &view.sources).filter_map(|source| source.root.path_hint().ok());
        host::mounts_below(&roots.collect::<Vec<_>>())
    }

    /// Every kernel asks for everything again.
    fn forget_all(&self) {
        for view in self.views() {
            view.forget_all();
        }
    }
}

impl Outside {
    /// Ends the thread.
    pub fn stop(&self) {
        let Some((watch, thread)) = self.running.lock().take() else { return };
        watch.stop();
        if thread.thread().id() != std::thread::current().id() {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.stop();
    }
}

/// However the thread ends, nobody believes any longer that changes are told.
struct End {
    core: Weak<Core>,
    watch: Arc<Watch>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.watch.end();
        if let Some(core) = self.core.upgrade() {
            core.outside.asked.lock().answered = u64::MAX;
            core.outside.answered.notify_all();
            core.forget_all();
        }
    }
}

fn run(core: &Weak<Core>, watch: &Watch) {
    let (mut mounts, mut feed) = (Vec::new(), Feed::default());
    loop {
        let Ok(woken) = watch.wait(feed.due()) else { return };
        if woken.stopped {
            return;
        }
        let Some(core) = core.upgrade() else { return };
        if woken.mounts {
            // A directory of a source may show another thing now, or have shown one, and no report tells it.
            let now = core.mounts_in_sources();
            if now != mounts {
                mounts = now;
                core.forget_all();
            }
        }
        if woken.asked {
            let number = core.outside.asked.lock().last;
            if !read(&core, watch, &mut feed, usize::MAX) {
                return;
            }
            feed.record_all(&core);
            core.outside.asked.lock().answered = number;
            core.outside.answered.notify_all();
            continue;
        }
        if woken.events {
            std::thread::sleep(GATHER);
            if !read(&core, watch, &mut feed, BATCH) {
                return;
            }
        }
        feed.record(&core);
    }
}

/// Reads what waits and tells it. False if the watch does not work any more.
fn read(core: &Core, watch: &Watch, feed: &mut Feed, most: usize) -> bool {
    let mut batch = Vec::new();
    let Ok(whole) = watch.read(most, &mut |seen| batch.push(seen)) else { return false };
    core.outside.counts.reports.fetch_add(batch.len() as u64, Ordering::Relaxed);
    core.rename_nodes(&batch);
    core.tell_outside(&batch);
    if !whole {
        core.outside.counts.overflows.fetch_add(1, Ordering::Relaxed);
        core.forget_all();
        feed.compare_all(core);
    }
    feed.take(core, batch);
    true
}

impl View {
    /// Changes beside us are seen and told to the kernel, so that it may believe for long what it was told.
    pub fn is_told(&self) -> bool {
        self.notify.get().is_some() && self.is_recorded_beside()
    }

    /// What is changed beside us is recorded soon after, with nobody asking.
    pub(super) fn is_recorded_beside(&self) -> bool {
        self.sources.iter().all(|source| source.fs.is_watched())
    }

    /// As `is_told`; and a name that was missing can be told of in one go with all others, too.
    pub fn is_told_of_missing(&self) -> bool {
        self.is_told() && self.notify.get().is_some_and(|notify| notify.forgets())
    }

    /// The kernel asks for everything again.
    pub(super) fn forget_all(&self) {
        let Some(notify) = self.notify.get() else { return };
        notify.tell(self.everything());
    }

    /// All that the kernel may have cached.
    pub(super) fn everything(&self) -> Vec<Invalidate> {
        let mut events = vec![Invalidate::Everything];
        let forgets = self.notify.get().is_some_and(|notify| notify.forgets());
        for node in self.nodes.all() {
            if !forgets {
                let names = node.names.lock();
                events.extend(names.iter().map(|(parent, name)| Invalidate::Name(parent.ino, name.clone())));
            }
            events.push(Invalidate::Node(node.ino));
        }
        events
    }
}
