//! What the kernel must be told after a change that did not come through it.

use std::sync::Arc;

use super::View;
use crate::types::{EntryName, Ino, ViewPath};

/// One thing the kernel may have cached wrongly.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Invalidate {
    /// Attributes and pages of a node.
    Node(Ino),
    /// A name in a directory, present or missing.
    Name(Ino, EntryName),
    /// A name that was removed: watchers are told too.
    Removed {
        /// The directory.
        parent: Ino,
        /// What was there.
        child: Ino,
        /// Its name.
        name: EntryName,
    },
    /// All names at once, present or missing, where [`Notify::forgets`].
    Everything,
}

/// The way to the kernel of one mount.
pub trait Notify: Send + Sync {
    /// Tells the kernel and returns when it has been told. Never called from a kernel request, and never with a lock held: the
    /// kernel may have to wait for a request that waits for the lock, and would wait for ever if we were killed meanwhile.
    fn tell(&self, events: Vec<Invalidate>);

    /// The kernel takes [`Invalidate::Everything`].
    fn forgets(&self) -> bool;

    /// Wakes watchers of these paths (relative to the root) by a touch from another process that changes nothing.
    fn nudge(&self, paths: Vec<ViewPath>);
}

impl View {
    /// Connects the mount. Only the first call counts.
    pub fn set_notify(&self, notify: Arc<dyn Notify>) {
        // A view is mounted once in its life, so a second call cannot happen.
        let _ = self.notify.set(notify);
    }

    /// The process whose touches through the mount are answered and not done.
    pub fn set_nudger(&self, pid: u32) {
        self.nudger.store(pid, std::sync::atomic::Ordering::Relaxed);
    }

    /// Opened files go past us from now on (the kernel agreed to passthrough).
    pub fn set_passthrough(&self, on: bool) {
        self.passthrough.store(on, std::sync::atomic::Ordering::Relaxed);
    }
}
