//! What the kernel is told of its own accord: one thread, one queue, and never from a request.

use std::{
    collections::VecDeque,
    io::Write,
    os::unix::ffi::OsStrExt,
    process::{Child, ChildStdin},
    sync::Arc,
    thread::JoinHandle,
};

use fuser::{INodeNo, Notifier};
use parking_lot::{Condvar, Mutex};

use crate::{
    types::ViewPath,
    view::{Invalidate, Notify},
};

/// Wakes that wait for the nudger, at most: more change nothing, since watchers look at the tree anyway.
const NUDGES_MAX: usize = 10_000;

#[derive(Default)]
struct Queue {
    events: VecDeque<Invalidate>,
    /// Events put in, and events told, since the start.
    put: u64,
    told: u64,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    nudges: Mutex<(VecDeque<ViewPath>, bool)>,
    nudged: Condvar,
}

/// The notifier of one mount.
pub(super) struct KernelNotify {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    nudger: Mutex<Option<Child>>,
}

impl KernelNotify {
    /// Starts its thread, and another that feeds the nudger.
    pub fn start(notifier: Notifier, nudger: Option<Child>) -> Arc<KernelNotify> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            nudges: Mutex::default(),
            nudged: Condvar::new(),
        });
        let mut nudger = nudger;
        let stdin = nudger.as_mut().and_then(|child| child.stdin.take());
        let mut threads = Vec::new();
        let tell = Arc::clone(&shared);
        threads.extend(std::thread::Builder::new().name("notifier".into()).spawn(move || run(&tell, &notifier)).ok());
        if let Some(stdin) = stdin {
            let feed = Arc::clone(&shared);
            threads.extend(
                std::thread::Builder::new().name("nudges".into()).spawn(move || feed_nudger(&feed, stdin)).ok(),
            );
        }
        Arc::new(KernelNotify { shared, threads: Mutex::new(threads), nudger: Mutex::new(nudger) })
    }

    /// Ends the threads and the nudger. What waits is dropped: the mount is going away.
    pub fn stop(&self) {
        self.shared.queue.lock().stopping = true;
        self.shared.changed.notify_all();
        self.shared.nudges.lock().1 = true;
        self.shared.nudged.notify_all();
        let nudger = self.nudger.lock().take();
        if let Some(mut child) = nudger {
            // It may be waiting for an answer of the mount that will not come.
            let ended = child.kill().and_then(|()| child.wait());
            if let Err(error) = ended {
                tracing::debug!(%error, "the nudger was gone already");
            }
        }
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a notifier thread panicked");
            }
        }
    }
}

impl Notify for KernelNotify {
    fn tell(&self, events: Vec<Invalidate>) {
        let mut queue = self.shared.queue.lock();
        queue.put += events.len() as u64;
        let wanted = queue.put;
        queue.events.extend(events);
        self.shared.changed.notify_all();
        while queue.told < wanted && !queue.stopping {
            self.shared.changed.wait(&mut queue);
        }
    }

    fn tell_later(&self, events: Vec<Invalidate>) {
        let mut queue = self.shared.queue.lock();
        queue.put += events.len() as u64;
        queue.events.extend(events);
        self.shared.changed.notify_all();
    }

    fn nudge(&self, paths: Vec<ViewPath>) {
        let mut nudges = self.shared.nudges.lock();
        if nudges.0.len() + paths.len() <= NUDGES_MAX {
            nudges.0.extend(paths);
            self.shared.nudged.notify_all();
        }
    }
}

fn run(shared: &Shared, notifier: &Notifier) {
    loop {
        let batch: Vec<Invalidate> = {
            let mut queue = shared.queue.lock();
            while queue.events.is_empty() && !queue.stopping {
                shared.changed.wait(&mut queue);
            }
            if queue.stopping {
                shared.changed.notify_all();
                return;
            }
            queue.events.drain(..).collect()
        };
        let told = batch.len() as u64;
        for event in batch {
            tell(notifier, &event);
        }
        shared.queue.lock().told += told;
        shared.changed.notify_all();
    }
}

fn tell(notifier: &Notifier, event: &Invalidate) {
    let done = match event {
        Invalidate::Node(ino) => notifier.inval_inode(INodeNo(ino.0), 0, 0),
        Invalidate::Name(parent, name) => notifier.inval_entry(INodeNo(parent.0), name.as_os_str()),
        Invalidate::Removed { parent, child, name } => {
            match notifier.delete(INodeNo(parent.0), INodeNo(child.0), name.as_os_str()) {
                // Not what the kernel knows by that name, or in use as a directory: then only the name goes.
                Err(_) => notifier.inval_entry(INodeNo(parent.0), name.as_os_str()),
                Ok(()) => Ok(()),
            }
        }
    };
    if let Err(error) = done
        && error.raw_os_error() != Some(libc::ENOENT)
    {
        tracing::debug!(%error, ?event, "the kernel did not take a notification");
    }
}

fn feed_nudger(shared: &Shared, mut stdin: ChildStdin) {
    loop {
        let batch: Vec<ViewPath> = {
            let mut nudges = shared.nudges.lock();
            while nudges.0.is_empty() && !nudges.1 {
                shared.nudged.wait(&mut nudges);
            }
            if nudges.1 {
                return;
            }
            nudges.0.drain(..).collect()
        };
        for path in batch {
            let line = [path.as_bytes(), b"\0"].concat();
            if stdin.write_all(&line).is_err() {
                tracing::warn!("the nudger is gone; watchers are not woken by tools any more");
                return;
            }
        }
    }
}

/// A path below the mountpoint, for the nudger.
pub(super) fn below(mountpoint: &std::path::Path, path: &[u8]) -> std::path::PathBuf {
    mountpoint.join(std::ffi::OsStr::from_bytes(path))
}
