//! Backing files: what the kernel reads and writes past us, registered once for a node and kept until it is forgotten.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fuser::BackingId;
use parking_lot::Mutex;

use crate::types::Ino;

/// The backing files of a mount. Each pins an inode in the kernel, invisible to any limit of ours.
#[derive(Default)]
pub(super) struct Backings {
    known: Mutex<HashMap<Ino, Arc<BackingId>>>,
    off: AtomicBool,
}

impl Backings {
    /// The backing file of a node. `None` if the kernel refuses to pass this file system through: then nothing of this mount
    /// is, since one inode must not be opened both ways.
    pub fn get(&self, ino: Ino, open: impl FnOnce() -> io::Result<BackingId>) -> Option<Arc<BackingId>> {
        if self.off.load(Ordering::Relaxed) {
            return None;
        }
        let mut known = self.known.lock();
        if let Some(id) = known.get(&ino) {
            return Some(Arc::clone(id));
        }
        let opened = {
            // The kernel writes with the privileges of this moment: without CAP_FSETID it clears setuid bits on writes.
            let _no_fsetid = crate::host::without_fsetid();
            open()
        };
        match opened {
            Ok(id) => {
                let id = Arc::new(id);
                known.insert(ino, Arc::clone(&id));
                Some(id)
            }
            Err(error) => {
                if known.is_empty() {
                    tracing::info!(%error, "the kernel cannot pass this file system through; all data comes through us");
                    self.off.store(true, Ordering::Relaxed);
                }
                None
            }
        }
    }

    /// The kernel has forgotten a node.
    pub fn forget(&self, ino: Ino) {
        let dropped = self.known.lock().remove(&ino);
        // Closing is a system call: outside the lock.
        drop(dropped);
    }
}
