//! Backing files: what the kernel reads and writes past us, registered once for a node and kept until it is forgotten.

use std::{collections::HashMap, io, sync::Arc};

use fuser::BackingId;
use parking_lot::Mutex;

use crate::{types::Ino, view::Fh};

/// Registered files at most, beside those that are open. Each pins an inode in the kernel, invisible to any limit of ours.
const KEPT_MAX: usize = 8192;
/// Handle numbers of readers, which the room gives none: they only tell us here when a file is closed.
const READER: u64 = 1 << 63;

/// What is known of a node.
enum Known<T> {
    /// Opened past us, each time: the kernel refuses to open one inode in both ways.
    Past(Arc<T>),
    /// The kernel refused once, so all its opens come through us.
    Through,
}

struct State<T> {
    known: HashMap<Ino, Known<T>>,
    /// Of each open handle. The kernel answers EIO if a file that is open is registered a second time, so none is dropped.
    open: HashMap<Fh, Arc<T>>,
    readers: u64,
}

/// The backing files of a mount.
pub(super) struct Backings<T = BackingId> {
    state: Mutex<State<T>>,
    kept_max: usize,
}

/// An open that goes past us.
pub(super) struct Past<T = BackingId> {
    /// The handle to tell the kernel.
    pub fh: Fh,
    /// The registered file.
    pub id: Arc<T>,
}

/// Why an open does not go past us.
pub(super) enum Refused {
    /// Only this file's.
    File,
    /// The kernel refused the first file of all: there is no use in asking again.
    Mount(io::Error),
}

impl<T> Default for Backings<T> {
    fn default() -> Self {
        Self::new(KEPT_MAX)
    }
}

impl<T> Backings<T> {
    fn new(kept_max: usize) -> Self {
        let state = State { known: HashMap::new(), open: HashMap::new(), readers: 0 };
        Backings { state: Mutex::new(state), kept_max }
    }

    /// The backing file for a node that is being opened under the room's handle `fh`.
    pub fn open(&self, ino: Ino, fh: Fh, register: impl FnOnce() -> io::Result<T>) -> Result<Past<T>, Refused> {
        let mut dropped = Vec::new();
        let mut state = self.state.lock();
        let id = match state.known.get(&ino) {
            Some(Known::Past(id)) => Arc::clone(id),
            Some(Known::Through) => return Err(Refused::File),
            None => match register() {
                Ok(id) => {
                    dropped = state.make_room(self.kept_max);
                    let id = Arc::new(id);
                    state.known.insert(ino, Known::Past(Arc::clone(&id)));
                    id
                }
                Err(error) => {
                    let first = state.known.is_empty() && state.open.is_empty();
                    state.known.insert(ino, Known::Through);
                    return Err(if first { Refused::Mount(error) } else { Refused::File });
                }
            },
        };
        let past = state.opened(fh, id);
        drop(state);
        // Unregistering is a system call: outside the lock.
        drop(dropped);
        Ok(past)
    }

    /// The backing file of a node that was opened past us before, for an open that would come through us.
    pub fn known(&self, ino: Ino, fh: Fh) -> Option<Past<T>> {
        let mut state = self.state.lock();
        let id = match state.known.get(&ino) {
            Some(Known::Past(id)) => Arc::clone(id),
            Some(Known::Through) | None => return None,
        };
        Some(state.opened(fh, id))
    }

    /// A handle is closed.
    pub fn close(&self, fh: Fh) {
        let closed = self.state.lock().open.remove(&fh);
        drop(closed);
    }

    /// Runs `forget`, and drops the node's backing file if it says that the kernel has forgotten the node. Both under the
    /// lock: the number may be given to another file at once, which must not find this one's backing.
    pub fn forget(&self, ino: Ino, forget: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        let dropped = if forget() { state.known.remove(&ino) } else { None };
        drop(state);
        drop(dropped);
    }
}

impl<T> State<T> {
    fn opened(&mut self, fh: Fh, id: Arc<T>) -> Past<T> {
        let fh = if fh == Fh(0) {
            self.readers += 1;
            Fh(READER | self.readers)
        } else {
            fh
        };
        self.open.insert(fh, Arc::clone(&id));
        Past { fh, id }
    }

    /// Takes out those that nobody has open, if there are too many.
    fn make_room(&mut self, kept_max: usize) -> Vec<Known<T>> {
        if self.known.len() < kept_max + self.open.len() {
            return Vec::new();
        }
        let unused = |_: &Ino, known: &mut Known<T>| match known {
            Known::Past(id) => Arc::strong_count(id) == 1,
            Known::Through => false,
        };
        self.known.extract_if(unused).map(|(_, known)| known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(backings: &Backings<u32>, ino: u64, fh: u64, id: u32) -> Past<u32> {
        backings.open(Ino(ino), Fh(fh), || Ok(id)).unwrap_or_else(|_| panic!("refused"))
    }

    #[test]
    fn a_node_has_one_backing_until_it_is_forgotten() {
        let backings = Backings::<u32>::new(10);
        let first = open(&backings, 5, 0, 1);
        assert_eq!(*open(&backings, 5, 7, 2).id, 1);
        backings.close(first.fh);
        backings.forget(Ino(5), || false);
        assert_eq!(*open(&backings, 5, 0, 3).id, 1);
        backings.forget(Ino(5), || true);
        assert_eq!(*open(&backings, 5, 0, 4).id, 4);
    }

    #[test]
    fn readers_have_handles_of_their_own() {
        let backings = Backings::<u32>::new(10);
        let (a, b) = (open(&backings, 5, 0, 1), open(&backings, 5, 0, 1));
        assert!(a.fh != b.fh && a.fh != Fh(0));
        assert_eq!(open(&backings, 5, 9, 1).fh, Fh(9));
    }

    #[test]
    fn only_what_nobody_has_open_gives_way() {
        let backings = Backings::<u32>::new(4);
        let held = open(&backings, 1, 0, 1);
        for ino in 2..20 {
            let other = open(&backings, ino, 0, 0);
            backings.close(other.fh);
        }
        let count = backings.state.lock().known.len();
        assert!(count <= 6, "{count}");
        assert_eq!(*open(&backings, 1, 0, 99).id, 1);
        backings.close(held.fh);
    }

    #[test]
    fn the_first_refusal_of_all_is_the_mounts_and_later_ones_the_files() {
        let fail = || Err(io::Error::from_raw_os_error(libc::ELOOP));
        let backings = Backings::<u32>::new(4);
        assert!(matches!(backings.open(Ino(1), Fh(0), fail), Err(Refused::Mount(_))));
        let backings = Backings::<u32>::new(4);
        open(&backings, 1, 0, 1);
        assert!(matches!(backings.open(Ino(2), Fh(0), fail), Err(Refused::File)));
        // It may be open through us by now, so it stays so.
        assert!(matches!(backings.open(Ino(2), Fh(0), || Ok(1)), Err(Refused::File)));
    }
}
