//! Attributes as a view shows them, and their changes.

use std::{os::fd::AsFd, sync::Arc};

use rustix::fs::Access;

use super::{Fh, Result, View, ViewError, node::Node, record::changed};
use crate::{
    crash_point,
    host::{self, SetTime},
    types::{Attr, Caller, Ino, Kind},
    versions::{ChangeKind, OpKind},
};

/// Attributes as the view shows them: its own number, no write bits where policy allows no writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAttr {
    /// The node.
    pub ino: Ino,
    /// `attr.ino` is the node's number.
    pub attr: Attr,
}

/// A name that was looked up or made; the kernel holds one reference more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The node and its attributes.
    pub node: NodeAttr,
}

/// What `setattr` changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
}

impl View {
    /// The attributes of a node. `fh` helps for files that have no name any more.
    ///
    /// # Errors
    /// ESTALE; the host's.
    pub fn getattr(&self, ino: Ino, _fh: Option<Fh>) -> Result<NodeAttr> {
        let node = self.node(ino)?;
        let attr = node.file.host.attr()?;
        Ok(self.show(&node, attr))
    }

    /// Attributes of `node` as this view shows them.
    pub(crate) fn show(&self, node: &Node, mut attr: Attr) -> NodeAttr {
        attr.ino = node.ino.0;
        if node.read_only() && !self.takes_entries(node) {
            attr.mode &= !0o222;
        }
        if attr.kind == Kind::Dir {
            // The kernel lets callers through directories by mode bits alone, and asks us nothing.
            if rustix::process::geteuid().is_root()
                && attr.mode & 0o077 != 0
                && let Ok(fd) = node.file.host.path_fd()
            {
                attr.mode = host::mode_for_all(fd.as_fd(), attr.mode).unwrap_or(attr.mode);
            }
            // The number of subdirectories would tell of hidden ones; 1 means "not counted" (as btrfs does).
            if !self.policy().is_uniform() {
                attr.nlink = 1;
            }
        } else {
            attr.nlink = node.file.links(&attr);
        }
        NodeAttr { ino: node.ino, attr }
    }

    /// A directory that is itself left alone, and in which allowed names may be made.
    fn takes_entries(&self, node: &Node) -> bool {
        if node.file.kind != Kind::Dir || node.hidden() {
            return false;
        }
        let Some(path) = node.path() else { return false };
        self.locate(&path).is_some_and(|(source, _)| !source.read_only) && self.policy().takes_entries(&path)
    }

    /// Changes attributes; a size change keeps the old content first.
    ///
    /// # Errors
    /// `ReadOnly`; the host's; the store's.
    pub fn setattr(&self, caller: &Caller, ino: Ino, fh: Option<Fh>, set: &SetAttr) -> Result<NodeAttr> {
        let node = self.node(ino)?;
        if self.is_nudger(caller) {
            let attr = node.file.host.attr()?;
            return Ok(self.show(&node, attr));
        }
        let _tree = self.core.tree.read();
        self.writable(&node)?;
        // Its owner may set times and modes; the kernel made sure that nobody else does without write permission.
        if fh.is_none() && (set.size.is_some() || set.atime.is_some() || set.mtime.is_some()) {
            let owned = set.size.is_none() && node.file.host.attr()?.uid == caller.uid;
            if !owned {
                self.check_acl(caller, &node, Access::WRITE_OK)?;
            }
        }
        let mut state = node.file.state.lock();
        if fh.is_none() && node.file.was_replaced() {
            return Err(host::Errno::STALE.into());
        }
        let state = &mut *state;
        let attr = node.file.host.attr()?;
        if set.size.is_some() && attr.kind != Kind::File {
            return Err(host::Errno::INVAL.into());
        }
        // While a file is open for writing, its seal records metadata too.
        let in_session = state.session.is_some();
        let place = self.recording_place(&node);
        let before = match (&place, in_session) {
            (Some(place), false) => {
                Some(self.before(place, &node, state, &attr, set.size.is_some_and(|s| s != attr.size))?)
            }
            (Some(_), true) | (None, _) => None,
        };
        if set.size.is_some() && in_session {
            self.keep_session(&node, state, &attr)?;
        }
        let kind =
            if set.size.is_some() { (ChangeKind::Write, OpKind::Write) } else { (ChangeKind::Meta, OpKind::Meta) };
        let actor = self.actor(caller);
        let announced = match (place, before) {
            (Some(place), Some(before)) => {
                let change = self.expected(&place, &node, state, kind.0, Some(before.clone()))?;
                let op = self.announce(kind.1, &actor, vec![change])?;
                self.named(&node.file)?;
                Some((place, before, op))
            }
            (Some(_) | None, _) => None,
        };
        if let Err(error) = self.apply(caller, &node, fh, set) {
            // A part of it may have been done; that is found when the file is next changed.
            return match announced {
                Some((_, _, op)) => self.call_off(op, error),
                None => Err(error),
            };
        }
        crash_point!("attributes-set");
        let after = node.file.host.attr()?;
        state.ours(&attr, &after);
        if let Some((place, before, op)) = announced {
            let change = changed(kind.0, Some(before), Some(after));
            self.record(op, &place, &node, state, kind.1, &actor, change)?;
            if set.size.is_some() {
                self.core.storer.offer(&place, &node.file);
            }
        }
        Ok(self.show(&node, after))
    }

    /// The system calls of `setattr`: size first (it clears setuid bits), then owner, mode, times.
    fn apply(&self, caller: &Caller, node: &Arc<Node>, fh: Option<Fh>, set: &SetAttr) -> Result<()> {
        let fd = node.file.host.path_fd()?;
        if let Some(size) = set.size {
            let _no_fsetid = (caller.uid != 0).then(host::without_fsetid);
            match fh.and_then(|fh| self.handles.get(fh)) {
                Some(handle) if handle.writes() => host::truncate(handle.fd(), size)?,
                Some(_) | None => {
                    let file = node.file.host.open(rustix::fs::OFlags::WRONLY)?;
                    host::truncate(file.as_fd(), size)?;
                }
            }
        }
        if set.uid.is_some() || set.gid.is_some() {
            host::chown(fd.as_fd(), set.uid, set.gid)?;
        }
        if let Some(mode) = set.mode {
            host::chmod(fd.as_fd(), mode & 0o7777)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            host::set_times(fd.as_fd(), set.atime.unwrap_or(SetTime::Keep), set.mtime.unwrap_or(SetTime::Keep))?;
        }
        Ok(())
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// EINVAL if it is none; the host's.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let node = self.node(ino)?;
        self.readlink_node(&node)
    }

    pub(crate) fn readlink_node(&self, node: &Node) -> Result<Vec<u8>> {
        if node.file.kind != Kind::Symlink {
            return Err(host::Errno::INVAL.into());
        }
        Ok(host::read_link(node.file.host.path_fd()?.as_fd())?)
    }

    /// Totals of the file system behind a node.
    ///
    /// # Errors
    /// The host's.
    pub fn statfs(&self, ino: Ino) -> Result<host::StatFs> {
        let node = self.node(ino)?;
        Ok(host::statfs(node.file.host.path_fd()?.as_fd())?)
    }

    /// The node the kernel means by a number.
    pub(crate) fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.nodes.get(ino).ok_or(ViewError::Host(host::Errno::STALE))
    }

    /// Refuses a caller whom the host's access list keeps out, which the kernel, who judges by mode bits, lets through.
    pub(crate) fn check_acl(&self, caller: &Caller, node: &Node, access: Access) -> Result<()> {
        // Root passes every list; and a daemon that is not root has one caller, itself.
        if caller.uid == 0 || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let fd = node.file.host.path_fd()?;
        if host::has_acl(fd.as_fd())? {
            let _caller = host::as_caller(caller);
            host::access_of(fd.as_fd(), access)?;
        }
        Ok(())
    }

    /// Refuses what policy lets nobody change.
    pub(crate) fn writable(&self, node: &Node) -> Result<()> {
        self.visible(node)?;
        if node.read_only() { Err(ViewError::ReadOnly(node.path().unwrap_or_default())) } else { Ok(()) }
    }

    /// Refuses what a reloaded policy hides from those who still know its number.
    pub(crate) fn visible(&self, node: &Node) -> Result<()> {
        if node.hidden() { Err(ViewError::NotFound(node.path().unwrap_or_default())) } else { Ok(()) }
    }

    pub(crate) fn is_nudger(&self, caller: &Caller) -> bool {
        caller.pid != 0 && caller.pid == self.nudger.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn actor(&self, caller: &Caller) -> crate::types::Actor {
        self.core.actors.of_caller(caller, &self.name)
    }
}
