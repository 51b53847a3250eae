//! The finisher: under strict durability a guarded mutation is durable in the log when it is answered; this thread puts
//! the files themselves on disk afterwards, and then says in the log that nothing has to be rolled forward.

use std::{
    collections::VecDeque,
    os::fd::AsFd,
    sync::{Arc, Weak},
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;

use super::{Core, node::Node};
use crate::{
    crash_point, host,
    types::{Kind, OpId},
    versions::crash,
};

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
            if nodes.iter().all(|node| finish(node).is_ok()) {
                crash_point!("files-flushed");
                // If this is lost, recovery looks at the operation once more and finds it applied.
                let _ = core.store.applied(op);
            }
        }
    }
}

/// Puts a file, and the directory that names it, on disk.
fn finish(node: &Node) -> host::Result<()> {
    if crash::planted("file-flush-left-out") {
        return Ok(());
    }
    let sync = |node: &Node| -> host::Result<()> {
        let fd = match node.file.kind {
            Kind::File => node.file.host.open(OFlags::RDONLY)?,
            Kind::Dir => node.file.host.open(OFlags::RDONLY | OFlags::DIRECTORY)?,
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => return Ok(()),
        };
        host::fsync(fd.as_fd(), false)
    };
    match sync(node) {
        Ok(()) | Err(host::Errno::STALE) => {}
        Err(error) => return Err(error),
    }
    let parent = node.names.lock().last().map(|(parent, _)| Arc::clone(parent));
    match parent.map_or(Ok(()), |parent| sync(&parent)) {
        Err(host::Errno::STALE) => Ok(()),
        done => done,
    }
}
