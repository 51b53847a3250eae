//! The finisher: under strict durability a guarded mutation is durable in the log when it is answered; this thread puts
//! the files themselves on disk afterwards, and then says in the log that nothing has to be rolled forward.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Weak},
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;

use super::{Core, node::Node};
use crate::{
    crash_point,
    host::{self, Fs},
    types::{Kind, OpId},
    versions::crash,
};

/// More files than so many are quicker put on disk with the whole file system.
const FEW: usize = 64;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(OpId, Vec<Arc<Node>>)>,
    stopping: bool,
}

/// The thread and its queue.
#[derive(Default)]
pub(crate) struct Finisher {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Finisher {
    /// Starts the thread.
    pub fn start(&self, core: &Arc<Core>) {
        let (queue, core) = (Arc::clone(&self.queue), Arc::downgrade(core));
        let run = move || run(&queue, &core);
        *self.thread.lock() = std::thread::Builder::new().name("finisher".into()).spawn(run).ok();
    }

    /// An operation that was applied and recorded, with the nodes it left.
    pub fn offer(&self, op: OpId, nodes: Vec<Arc<Node>>) {
        let (queue, ready) = &*self.queue;
        queue.lock().waiting.push_back((op, nodes));
        ready.notify_one();
    }

    /// Finishes what waits, then ends the thread.
    pub fn stop(&self) {
        {
            let (queue, ready) = &*self.queue;
            queue.lock().stopping = true;
            ready.notify_all();
        }
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(queue: &(Mutex<Queue>, Condvar), core: &Weak<Core>) {
    let (queue, ready) = queue;
    loop {
        let batch: Vec<_> = {
            let mut queue = queue.lock();
            while queue.waiting.is_empty() && !queue.stopping {
                ready.wait(&mut queue);
            }
            queue.waiting.drain(..).collect()
        };
        let Some(core) = core.upgrade().filter(|_| !batch.is_empty()) else { return };
        for (op, nodes) in batch {
            if finish_all(&nodes).is_ok() {
                crash_point!("files-flushed");
                // If this is lost, recovery looks at the operation once more and finds it applied.
                let _ = core.store.applied(op);
            }
        }
    }
}

/// Puts files, and the directories that name them, on disk: one by one, or with all else where they are many.
fn finish_all(nodes: &[Arc<Node>]) -> host::Result<()> {
    if crash::planted("file-flush-left-out") {
        return Ok(());
    }
    if nodes.len() <= FEW {
        return nodes.iter().try_for_each(|node| finish(node));
    }
    let mut done: Vec<Arc<Fs>> = Vec::new();
    for node in nodes {
        let fs = node.file.host.fs();
        if !done.iter().any(|other| Arc::ptr_eq(other, fs)) && with_open(node, host::sync_fs)? {
            done.push(Arc::clone(fs));
        }
    }
    // Of what can be opened nowhere only names are left.
    let named = nodes.iter().filter(|node| !done.iter().any(|other| Arc::ptr_eq(other, node.file.host.fs())));
    named.into_iter().try_for_each(|node| finish(node))
}

/// Puts a file, and the directory that names it, on disk.
fn finish(node: &Node) -> host::Result<()> {
    with_open(node, |fd| host::fsync(fd, false))?;
    let parent = node.names.lock().last().map(|(parent, _)| Arc::clone(parent));
    match parent {
        Some(parent) => with_open(&parent, |fd| host::fsync(fd, false)).map(drop),
        None => Ok(()),
    }
}

/// Does something with a file or directory that is still there. False if it is not, or is neither.
fn with_open(node: &Node, work: impl FnOnce(BorrowedFd<'_>) -> host::Result<()>) -> host::Result<bool> {
    let opened = match node.file.kind {
        Kind::File => node.file.host.open(OFlags::RDONLY),
        Kind::Dir => node.file.host.open(OFlags::RDONLY | OFlags::DIRECTORY),
        Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => return Ok(false),
    };
    match opened {
        Ok(fd) => work(fd.as_fd()).map(|()| true),
        Err(host::Errno::STALE) => Ok(false),
        Err(error) => Err(error),
    }
}
