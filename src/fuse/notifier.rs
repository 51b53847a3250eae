//! What the kernel is told of its own accord: one thread, one queue, and never from a request.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Write},
    os::fd::OwnedFd,
    process::{Child, ChildStdin},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use fuser::{INodeNo, Notifier};
use parking_lot::{Condvar, Mutex};

use crate::{
    host::Errno,
    types::ViewPath,
    view::{Invalidate, Notify},
};

/// Touches that wait for the nudger, at most: a watcher that misses some of so many looks at the tree anyway.
const NUDGES_MAX: usize = 10_000;
/// The nudger rests so long after each batch: a file that is changed again and again is touched once for all of it.
const NUDGE_PAUSE: Duration = Duration::from_millis(20);
/// How long a change waits until the kernel has been told of it. The kernel may have to wait for whoever works in the same
/// directory; that is far shorter.
const TELL_WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Events {
    waiting: VecDeque<Invalidate>,
    /// Events put in, and events told, since the start.
    put: u64,
    told: u64,
    stopping: bool,
}

#[derive(Default)]
struct Nudges {
    waiting: BTreeSet<ViewPath>,
    stopping: bool,
    /// There is a nudger.
    fed: bool,
}

#[derive(Default)]
struct Shared {
    events: Mutex<Events>,
    changed: Condvar,
    nudges: Mutex<Nudges>,
    nudged: Condvar,
}

/// The notifier of one mount.
pub(super) struct KernelNotify {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    nudger: Mutex<Option<Child>>,
    forgets: bool,
}

/// The kernel's end of a mount, for what the library cannot say.
struct Line {
    notifier: Notifier,
    device: OwnedFd,
}

/// `FUSE_NOTIFY_INC_EPOCH` (Linux 6.16).
const INC_EPOCH: i32 = 8;

impl Line {
    /// Every name that the kernel has cached, present or missing, is looked up again before it is believed.
    fn forget_names(&self) -> Result<(), Errno> {
        // `struct fuse_out_header`: length, code, and 0 for a notification.
        let message = [16_u32.to_ne_bytes(), INC_EPOCH.to_ne_bytes(), [0; 4], [0; 4]].concat();
        rustix::io::write(&self.device, &message).map(drop)
    }
}

impl KernelNotify {
    /// Starts its thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(notifier: Notifier, device: OwnedFd) -> io::Result<Arc<KernelNotify>> {
        let shared = Arc::<Shared>::default();
        let telling = Arc::clone(&shared);
        let line = Line { notifier, device };
        let forgets = line.forget_names().is_ok();
        let thread = std::thread::Builder::new().name("notifier".into()).spawn(move || run(&telling, &line))?;
        Ok(Arc::new(KernelNotify { shared, threads: Mutex::new(vec![thread]), nudger: Mutex::default(), forgets }))
    }

    /// From now on `nudger` is asked to touch what is to be seen. Called once.
    pub fn feed(&self, mut nudger: Child) {
        if let Some(input) = nudger.stdin.take() {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new().name("nudges".into()).spawn(move || feed(&shared, input));
            self.shared.nudges.lock().fed = started.is_ok();
            self.threads.lock().extend(started.ok());
        }
        *self.nudger.lock() = Some(nudger);
    }

    /// Tells the threads and the nudger to end. What waits is dropped, for the mount is going away.
    pub fn stop(&self) {
        self.shared.events.lock().stopping = true;
        self.shared.changed.notify_all();
        self.shared.nudges.lock().stopping = true;
        self.shared.nudged.notify_all();
        if let Some(child) = self.nudger.lock().as_mut() {
            // Killed, since it may have thousands of paths before it; what it touches is not changed, so nothing is cut short.
            if let Err(error) = child.kill() {
                tracing::debug!(%error, "the nudger was gone already");
            }
        }
    }

    /// Waits for their end. Only once the connection has ended: the kernel holds those who wait for a request that nobody
    /// answers, also when they are killed.
    pub fn join(&self) {
        let nudger = self.nudger.lock().take();
        if let Some(mut child) = nudger
            && let Err(error) = child.wait()
        {
            tracing::debug!(%error, "the nudger was gone already");
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a notifier thread panicked");
            }
        }
    }
}

impl Drop for KernelNotify {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Notify for KernelNotify {
    fn tell(&self, events: Vec<Invalidate>) {
        let mut queue = self.shared.events.lock();
        let wanted = queue.put(events);
        self.shared.changed.notify_all();
        let until = Instant::now() + TELL_WAIT;
        while queue.told < wanted && !queue.stopping {
            if self.shared.changed.wait_until(&mut queue, until).timed_out() {
                tracing::warn!("the kernel has not taken notice of a change yet");
                return;
            }
        }
    }

    fn forgets(&self) -> bool {
        self.forgets
    }

    fn nudge(&self, paths: Vec<ViewPath>) {
        let mut nudges = self.shared.nudges.lock();
        if nudges.fed && nudges.waiting.len() + paths.len() <= NUDGES_MAX {
            nudges.waiting.extend(paths);
            self.shared.nudged.notify_all();
        }
    }
}

impl Events {
    /// The count at which these are told.
    fn put(&mut self, events: Vec<Invalidate>) -> u64 {
        if self.stopping {
            return self.put;
        }
        self.put += events.len() as u64;
        self.waiting.extend(events);
        self.put
    }
}

fn run(shared: &Shared, line: &Line) {
    loop {
        let batch = {
            let mut queue = shared.events.lock();
            while queue.waiting.is_empty() && !queue.stopping {
                shared.changed.wait(&mut queue);
            }
            if queue.stopping {
                // Nobody waits for what will not be told.
                shared.changed.notify_all();
                return;
            }
            std::mem::take(&mut queue.waiting)
        };
        for event in &batch {
            tell(line, event);
        }
        shared.events.lock().told += batch.len() as u64;
        shared.changed.notify_all();
    }
}

fn tell(line: &Line, event: &Invalidate) {
    let notifier = &line.notifier;
    let done = match event {
        Invalidate::Node(ino) => notifier.inval_inode(INodeNo(ino.0), 0, 0),
        Invalidate::Name(parent, name) => notifier.inval_entry(INodeNo(parent.0), name.as_os_str()),
        Invalidate::Removed { parent, child, name } => notifier
            .delete(INodeNo(parent.0), INodeNo(child.0), name.as_os_str())
            // Not what the kernel knows by that name, or a directory in use: then only the name goes.
            .or_else(|_| notifier.inval_entry(INodeNo(parent.0), name.as_os_str())),
        Invalidate::Everything => match line.forget_names() {
            // A kernel that cannot was not told to believe for long that a name is missing.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        },
    };
    // What the kernel does not know needs no telling.
    if let Err(error) = done
        && error.raw_os_error() != Some(libc::ENOENT)
    {
        tracing::debug!(%error, ?event, "the kernel did not take a notification");
    }
}

fn feed(shared: &Shared, mut nudger: ChildStdin) {
    loop {
        let batch = {
            let mut nudges = shared.nudges.lock();
            while nudges.waiting.is_empty() && !nudges.stopping {
                shared.nudged.wait(&mut nudges);
            }
            if nudges.stopping {
                return;
            }
            std::mem::take(&mut nudges.waiting)
        };
        let lines: Vec<u8> = batch.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
        if let Err(error) = nudger.write_all(&lines) {
            let mut nudges = shared.nudges.lock();
            if !nudges.stopping {
                tracing::warn!(%error, "the nudger is gone; watchers are not woken for tools' changes any more");
            }
            nudges.fed = false;
            nudges.waiting.clear();
            return;
        }
        std::thread::sleep(NUDGE_PAUSE);
    }
}
