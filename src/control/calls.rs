//! The requests of one connection that are not answered yet, and what each of them holds.

use std::{collections::HashMap, pin::pin, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::tools::Cancelled;

/// Bytes of a request that one unit stands for. A small request costs one unit, so that units bound their number, too.
const UNIT: usize = 16 << 10;
/// Small requests that may wait for each one that may run.
const WAITING: usize = 16;

/// All that a connection asked for. Requests are known by the JSON text of their ids.
pub(super) struct Calls {
    open: Mutex<Requests>,
    /// The last open request was answered or given up.
    idle: Notify,
    /// Bounds what is read ahead.
    units: Arc<Semaphore>,
    all_units: usize,
    /// Bounds what runs or waits for its reader.
    running: Arc<Semaphore>,
    /// The thread that is always this connection's.
    own: Arc<Semaphore>,
    /// The threads for which all connections of the socket queue.
    surplus: Arc<Semaphore>,
}

#[derive(Default)]
struct Requests {
    by_id: HashMap<String, Open>,
    /// Closed, with an answer that is not handed to the peer yet.
    answering: usize,
}

struct Open {
    ticket: Arc<Ticket>,
    read_only: bool,
    started: bool,
    held: Held,
}

/// Given back when an answer is with the peer, or nobody wants it any more.
pub(super) struct Held {
    _units: OwnedSemaphorePermit,
    running: Option<OwnedSemaphorePermit>,
}

/// A request that is being answered: its id is free, but the connection waits for it until this is dropped.
pub(super) struct Answering<'a> {
    calls: &'a Calls,
    /// Goes with the answer.
    pub held: Option<Held>,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let mut open = self.calls.open.lock();
        open.answering -= 1;
        if open.is_idle() {
            self.calls.idle.notify_waiters();
        }
    }
}

impl Requests {
    fn is_idle(&self) -> bool {
        self.by_id.is_empty() && self.answering == 0
    }
}

/// What tells a call that it was given up.
#[derive(Default)]
pub(super) struct Ticket {
    pub cancelled: Cancelled,
    given_up: Notify,
}

/// The permission to run. The thread is free again when `thread` is dropped.
pub(super) struct Start {
    pub running: OwnedSemaphorePermit,
    pub thread: OwnedSemaphorePermit,
}

/// A request with this id is still open.
pub(super) struct IdTaken;

impl Calls {
    pub fn new(limits: Limits, surplus: Arc<Semaphore>) -> Self {
        let all_units = 2 * limits.line.div_ceil(UNIT) + WAITING * limits.calls;
        Calls {
            open: Mutex::default(),
            idle: Notify::new(),
            units: Arc::new(Semaphore::new(all_units)),
            all_units,
            running: Arc::new(Semaphore::new(limits.calls)),
            own: Arc::new(Semaphore::new(1)),
            surplus,
        }
    }

    /// Takes a request of so many bytes in, once there is room. Nothing happened if this is given up before its end.
    pub async fn admit(&self, key: &str, bytes: usize, read_only: bool) -> Result<(), IdTaken> {
        let units = (bytes / UNIT + 1).min(self.all_units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let Ok(units) = Arc::clone(&self.units).acquire_many_owned(units).await else {
            // The semaphore is never closed.
            return Err(IdTaken);
        };
        let mut open = self.open.lock();
        if open.by_id.contains_key(key) {
            return Err(IdTaken);
        }
        let held = Held { _units: units, running: None };
        open.by_id.insert(key.to_owned(), Open { ticket: Arc::default(), read_only, started: false, held });
        Ok(())
    }

    /// The ticket of an open request.
    pub fn ticket(&self, key: &str) -> Option<Arc<Ticket>> {
        self.open.lock().by_id.get(key).map(|open| Arc::clone(&open.ticket))
    }

    /// Permission to run, if it can be had at once.
    pub fn start_now(&self, key: &str) -> Option<Start> {
        let running = Arc::clone(&self.running).try_acquire_owned().ok()?;
        let own = Arc::clone(&self.own).try_acquire_owned();
        let thread = own.or_else(|_| Arc::clone(&self.surplus).try_acquire_owned()).ok()?;
        self.mark_started(key);
        Some(Start { running, thread })
    }

    /// Permission to run, when it can be had; none if the call was given up before.
    pub async fn start(&self, key: &str, ticket: &Ticket) -> Option<Start> {
        let permits = async {
            let running = Arc::clone(&self.running).acquire_owned().await.ok()?;
            let thread = tokio::select! {
                thread = Arc::clone(&self.own).acquire_owned() => thread.ok()?,
                thread = Arc::clone(&self.surplus).acquire_owned() => thread.ok()?,
            };
            Some(Start { running, thread })
        };
        let start = tokio::select! {
            start = permits => start?,
            () = ticket.given_up.notified() => return None,
        };
        self.mark_started(key);
        Some(start)
    }

    fn mark_started(&self, key: &str) {
        if let Some(open) = self.open.lock().by_id.get_mut(key) {
            open.started = true;
        }
    }

    /// The call has run: its permission stays with the request until it is answered. False if nobody waits for that.
    pub fn ran(&self, key: &str, running: OwnedSemaphorePermit) -> bool {
        match self.open.lock().by_id.get_mut(key) {
            Some(open) => {
                open.held.running = Some(running);
                true
            }
            None => false,
        }
    }

    /// Closes a request that is answered now. `None`: it was given up, and is not answered.
    pub fn close(&self, key: &str) -> Option<Answering<'_>> {
        let mut open = self.open.lock();
        let closed = open.by_id.remove(key)?;
        open.answering += 1;
        Some(Answering { calls: self, held: Some(closed.held) })
    }

    /// The peer gave a request up: its tool is told, and it is not answered.
    pub fn cancel(&self, key: &str) {
        let mut open = self.open.lock();
        if let Some(cancelled) = open.by_id.remove(key) {
            cancelled.ticket.give_up();
        }
        if open.is_idle() {
            self.idle.notify_waiters();
        }
    }

    /// The peer is gone: all is given up.
    pub fn cancel_all(&self) {
        for (_, cancelled) in self.open.lock().by_id.drain() {
            cancelled.ticket.give_up();
        }
        self.idle.notify_waiters();
    }

    /// The end is near: what only reads, and what has not begun, shall end soon. It is answered all the same.
    pub fn hurry(&self) {
        for open in self.open.lock().by_id.values() {
            if open.read_only || !open.started {
                open.ticket.cancelled.set();
            }
        }
    }

    /// Waits until the answer to every request is handed over, or it was given up.
    pub async fn all_closed(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // Registered before the look, so that no change between the two is missed.
            idle.as_mut().enable();
            if self.open.lock().is_idle() {
                return;
            }
            idle.await;
        }
    }
}

impl Ticket {
    fn give_up(&self) {
        self.cancelled.set();
        self.given_up.notify_one();
    }
}
