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

/// How far the kernel of one mount must have been told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Announced(pub u64);

/// The way to the kernel of one mount.
pub trait Notify: Send + Sync {
    /// Has the kernel told, in the order of the calls, and does not wait for it: locks may be held.
    fn announce(&self, events: Vec<Invalidate>) -> Announced;

    /// Returns when the kernel has been told. Never called from a kernel request, and never with a lock held.
    fn wait(&self, announced: Announced);

    /// Tells the kernel and returns when it has been told; called where `wait` may be.
    fn tell(&self, events: Vec<Invalidate>) {
        self.wait(self.announce(events));
    }

    /// The kernel takes [`Invalidate::Everything`].
    fn forgets(&self) -> bool;

    /// Wakes watchers of these paths (relative to the root) by a touch from another process that changes nothing.
    fn nudge(&self, paths: Vec<ViewPath>);
}

/// What the kernels are being told of one mutation.
#[derive(Default)]
pub(crate) struct Announcement {
    to: Vec<(Arc<dyn Notify>, Announced)>,
    /// What watchers are to see.
    seen: Vec<ViewPath>,
}

impl Announcement {
    /// To the kernel of one more mount.
    pub fn add(&mut self, notify: &Arc<dyn Notify>, events: Vec<Invalidate>) {
        self.to.push((Arc::clone(notify), notify.announce(events)));
    }

    pub fn of(seen: Vec<ViewPath>) -> Self {
        Announcement { to: Vec::new(), seen }
    }

    /// Returns when every kernel has been told; then watchers are woken. No lock is held.
    pub fn finish(self) {
        for (notify, announced) in self.to {
            notify.wait(announced);
            notify.nudge(self.seen.clone());
        }
    }
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
