//! The lines that a connection's peer has still to take.

use std::{collections::VecDeque, io, pin::pin};

use parking_lot::Mutex;
use tokio::{
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::Notify,
};

use super::calls::Held;

/// Nothing more is read from a peer that has left this many bytes of answers.
const HIGH: usize = 1 << 20;

/// Writes lines whole and in order. A line that the socket takes at once never waits for another thread; the rest is
/// queued, and `run` writes it when there is room.
pub(super) struct Outgoing {
    socket: OwnedWriteHalf,
    state: Mutex<State>,
    /// There is something for `run`.
    filled: Notify,
    /// Something was written, or the end came.
    drained: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Entry>,
    /// Bytes of the first entry that are written.
    written: usize,
    /// Bytes queued and not written.
    bytes: usize,
    /// The peer is gone: what comes is dropped.
    closed: bool,
}

struct Entry {
    line: Vec<u8>,
    /// What the answered call holds, until its answer is with the peer.
    _held: Option<Held>,
}

impl Outgoing {
    pub fn new(socket: OwnedWriteHalf) -> Self {
        Outgoing { socket, state: Mutex::default(), filled: Notify::new(), drained: Notify::new() }
    }

    pub fn socket(&self) -> &UnixStream {
        self.socket.as_ref()
    }

    /// Ends the connection at once, in both directions.
    pub fn close(&self) {
        *self.state.lock() = State { closed: true, ..State::default() };
        if let Err(error) = rustix::net::shutdown(self.socket(), rustix::net::Shutdown::Both) {
            tracing::debug!(%error, "a connection had ended already");
        }
    }

    /// Hands a line over. Never waits.
    pub fn push(&self, line: Vec<u8>, held: Option<Held>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let idle = state.queue.is_empty();
        state.bytes += line.len();
        state.queue.push_back(Entry { line, _held: held });
        if idle && !self.write(&mut state) {
            self.filled.notify_one();
        }
        if state.closed {
            // `run` ends the connection.
            self.filled.notify_one();
        }
    }

    /// Writes what the socket takes now; true if nothing is left. Never blocks, so the lock may be held.
    fn write(&self, state: &mut State) -> bool {
        loop {
            let Some(entry) = state.queue.front() else { return true };
            match self.socket.try_write(&entry.line[state.written..]) {
                Ok(count) => {
                    state.written += count;
                    state.bytes -= count;
                    if state.written == entry.line.len() {
                        state.queue.pop_front();
                        state.written = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => {
                    *state = State { closed: true, ..State::default() };
                    return true;
                }
            }
        }
    }

    /// Writes what is queued, until the peer is gone.
    pub async fn run(&self) {
        loop {
            self.filled.notified().await;
            loop {
                let done = {
                    let mut state = self.state.lock();
                    let done = self.write(&mut state);
                    if state.closed {
                        drop(state);
                        self.drained.notify_waiters();
                        return;
                    }
                    done
                };
                self.drained.notify_waiters();
                if done {
                    break;
                }
                // An error shows itself in the write that follows.
                let _ = self.socket.writable().await;
            }
        }
    }

    /// Waits until the peer has taken enough of what it was answered, or is gone.
    pub async fn room(&self) {
        self.until(|state| state.bytes < HIGH).await;
    }

    /// Waits until all is written, or the peer is gone.
    pub async fn flushed(&self) {
        self.until(|state| state.queue.is_empty()).await;
    }

    async fn until(&self, enough: impl Fn(&State) -> bool) {
        loop {
            let mut drained = pin!(self.drained.notified());
            // Registered before the look, so that no change between the two is missed.
            drained.as_mut().enable();
            {
                let state = self.state.lock();
                if state.closed || enough(&state) {
                    return;
                }
            }
            drained.await;
        }
    }
}
