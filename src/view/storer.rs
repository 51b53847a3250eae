//! The background storer: puts what was just written into the log while it is still in the page cache, so that the next
//! change finds its old content stored.

use std::{
    collections::VecDeque,
    os::fd::AsFd,
    sync::{Arc, Weak},
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;

use super::{
    Core,
    core::WHOLE_COPY_MAX,
    file::{File, Head},
    record::Place,
};
use crate::{crash_point, host, types::Kind, versions::Content};

/// At most so many files wait; more are kept when they are next changed.
const QUEUE_MAX: usize = 100_000;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Weak<File>>,
    stopping: bool,
    busy: bool,
}

/// The thread and its queue.
pub(crate) struct Storer {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Storer {
    pub fn new() -> Self {
        Storer { queue: Arc::default(), thread: Mutex::default() }
    }

    /// Starts the thread.
    pub fn start(&self, core: &Arc<Core>) {
        let (queue, core) = (Arc::clone(&self.queue), Arc::downgrade(core));
        let run = move || {
            while let Some(file) = next(&queue) {
                if let (Some(core), Some(file)) = (core.upgrade(), file.upgrade()) {
                    // A content that cannot be stored now is kept when it is next changed, and an error shows there.
                    let _ = store_content(&core, &file);
                }
            }
        };
        *self.thread.lock() = std::thread::Builder::new().name("storer".into()).spawn(run).ok();
    }

    /// Queues a file whose content was just recorded as live.
    pub fn offer(&self, place: &Place, file: &Arc<File>) {
        if place.unversioned || file.kind != Kind::File {
            return;
        }
        let (queue, ready) = &*self.queue;
        let mut queue = queue.lock();
        if queue.waiting.len() < QUEUE_MAX {
            queue.waiting.push_back(Arc::downgrade(file));
            ready.notify_all();
        }
    }

    /// Waits until all that waits now is stored.
    pub fn drain(&self) {
        let (queue, ready) = &*self.queue;
        let mut queue = queue.lock();
        while !queue.stopping && (queue.busy || !queue.waiting.is_empty()) {
            ready.wait(&mut queue);
        }
    }

    /// Stores what waits, then ends the thread.
    pub fn stop(&self) {
        self.drain();
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

fn next(queue: &(Mutex<Queue>, Condvar)) -> Option<Weak<File>> {
    let (queue, ready) = queue;
    let mut queue = queue.lock();
    queue.busy = false;
    ready.notify_all();
    loop {
        if let Some(file) = queue.waiting.pop_front() {
            queue.busy = true;
            return Some(file);
        }
        if queue.stopping {
            return None;
        }
        ready.wait(&mut queue);
    }
}

/// Stores the content of a file, if it still is as last recorded and nobody has it open for writing.
fn store_content(core: &Core, file: &File) -> super::Result<()> {
    // A full store keeps what must be kept; this need not be.
    if core.store.is_full() {
        return Ok(());
    }
    let mut state = file.state.lock();
    if state.session.is_some() {
        return Ok(());
    }
    let Head::Known(id, known) = &mut state.head else { return Ok(()) };
    if !matches!(known.content, Content::Live(_)) || known.size > WHOLE_COPY_MAX {
        return Ok(());
    }
    let fd = file.host.open(OFlags::RDONLY)?;
    let (bytes, attr) = host::read_whole(fd.as_fd(), WHOLE_COPY_MAX)?;
    if !known.is_current(&attr) {
        return Ok(());
    }
    let (hash, _) = core.store.put_blob(&bytes)?;
    crash_point!("content-stored");
    let content = Content::Blob(hash);
    known.content = content.clone();
    let id = *id;
    file.kept_until(core.store.settled(state.last_op, id, &content)?);
    crash_point!("content-settled");
    Ok(())
}
