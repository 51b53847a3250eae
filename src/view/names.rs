//! Names made and removed through the mount.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use parking_lot::MutexGuard;

use super::{
    Entry, Result, View, ViewError,
    file::FileState,
    node::Node,
    plan::new_state,
    record::{Place, bare, changed},
};
use crate::{
    crash_point,
    host::{self, Errno},
    types::{Actor, Attr, Caller, EntryName, Ino, Kind, NodeId, OpId, ViewPath},
    versions::{Change, ChangeKind, Content, Mode, OpKind, State},
};

/// What `mknod` makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// Type and permission bits.
    pub mode: u32,
    /// Device number.
    pub rdev: u64,
}

/// Something that was just made, and the lock of its directory: nobody takes the name before it is recorded.
pub(crate) struct Made<'a> {
    pub node: Arc<Node>,
    pub attr: Attr,
    pub names: MutexGuard<'a, FileState>,
    /// The operation's number, and where it is recorded; none in a place that is not recorded.
    pub announced: Option<(OpId, Place)>,
}

impl View {
    /// Makes a name by `create`, as the caller, and the node for it. The tree lock is held by the caller; the directory's
    /// lock is held over both steps, so that nobody else makes or takes the name between.
    pub(crate) fn make<'a>(
        &self,
        caller: &Caller,
        actor: &Actor,
        parent: &'a Arc<Node>,
        name: &EntryName,
        planned: State,
        create: impl FnOnce(BorrowedFd<'_>) -> host::Result<()>,
    ) -> Result<Made<'a>> {
        let path = self.path_in(parent, name)?;
        let class = self.may_create(&path, planned.kind == Kind::Dir)?;
        let dir = parent.file.host.path_fd()?;
        let names = parent.file.state.lock();
        // What stands there already is not announced: the host refuses, and it must never be taken for what we made.
        let free = matches!(host::stat_child(dir.as_fd(), name), Err(Errno::NOENT));
        let announced = match self.place_of(&path, class.unversioned).filter(|_| free) {
            Some(place) => {
                // Its number is given when it stands.
                let change = bare(&place, ChangeKind::Create, NodeId(0), None);
                let change = Change { after: Some(planned), ..change };
                Some((self.announce(OpKind::Create, actor, vec![change])?, place))
            }
            None => None,
        };
        let made = {
            let _caller = host::as_caller(caller);
            create(dir.as_fd())
        };
        if let Err(error) = made {
            return match announced {
                Some((op, _)) => self.call_off(op, error),
                None => Err(error.into()),
            };
        }
        crash_point!("made");
        // What stood there went just then, by somebody beside us.
        let announced = announced
            .or_else(|| self.place_of(&path, class.unversioned).map(|place| (self.core.store.next_op(), place)));
        let (host, attr) = parent.file.host.fs().adopt(host::open_child(dir.as_fd(), name)?)?;
        let (node, attr) = self.enter(parent, name, &path, Arc::new(host), &attr)?;
        Ok(Made { node, attr, names, announced })
    }

    /// The path of a name in a directory that still has a path itself.
    pub(crate) fn path_in(&self, parent: &Node, name: &EntryName) -> Result<ViewPath> {
        if self.is_multi() && parent.ino == Ino::ROOT {
            let mut path = ViewPath::root();
            path.push(name);
            return Err(ViewError::ReadOnly(path));
        }
        if parent.file.kind != Kind::Dir {
            return Err(ViewError::NotADirectory(parent.path().unwrap_or_default()));
        }
        parent.path().map(|above| above.join(name)).ok_or(ViewError::Host(Errno::NOENT))
    }

    fn create_entry(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &EntryName,
        planned: State,
        create: impl FnOnce(BorrowedFd<'_>) -> host::Result<()>,
    ) -> Result<Entry> {
        let parent = self.node(parent)?;
        let _tree = self.core.tree.read();
        let actor = self.actor(caller);
        let Made { node, attr, names: _names, announced, .. } =
            self.make(caller, &actor, &parent, name, planned, create)?;
        if let Some((op, place)) = announced {
            let mut state = node.file.state.lock();
            let change = changed(ChangeKind::Create, None, Some(attr));
            self.record(op, &place, &node, &mut state, OpKind::Create, &actor, change)?;
        }
        Ok(self.entry(&node, attr))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `CreateDenied`, `ReadOnly`; the host's; the store's.
    pub fn mkdir(&self, caller: &Caller, parent: Ino, name: &EntryName, mode: u32) -> Result<Entry> {
        let planned = new_state(Kind::Dir, mode & 0o7777, (caller.uid, caller.gid), 0, Content::None);
        self.create_entry(caller, parent, name, planned, |dir| host::make_dir(dir, name, mode & 0o7777))
    }

    /// Makes a symlink; the target is kept as it is, wherever it leads.
    ///
    /// # Errors
    /// As `mkdir`.
    pub fn symlink(&self, caller: &Caller, parent: Ino, name: &EntryName, target: &[u8]) -> Result<Entry> {
        let content = Content::Target(target.to_vec());
        let planned = new_state(Kind::Symlink, 0o777, (caller.uid, caller.gid), 0, content);
        self.create_entry(caller, parent, name, planned, |dir| host::make_symlink(dir, name, target))
    }

    /// Makes a file, FIFO, socket or device.
    ///
    /// # Errors
    /// As `mkdir`.
    pub fn mknod(&self, caller: &Caller, parent: Ino, name: &EntryName, spec: NodeSpec) -> Result<Entry> {
        let kind = kind_of(spec.mode);
        let planned = new_state(kind, spec.mode & 0o7777, (caller.uid, caller.gid), 0, Content::None);
        self.create_entry(caller, parent, name, planned, |dir| host::make_node(dir, name, spec.mode, spec.rdev))
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// `CreateDenied`, `ReadOnly`, `Widens`; the host's; the store's.
    pub fn link(&self, caller: &Caller, ino: Ino, parent: Ino, name: &EntryName) -> Result<Entry> {
        let (node, parent) = (self.node(ino)?, self.node(parent)?);
        let _tree = self.core.tree.read();
        let path = self.path_in(&parent, name)?;
        let class = self.may_create(&path, false)?;
        if crate::policy::Policy::widens(Some(node.class), Some(class)) {
            return Err(ViewError::Widens(path));
        }
        let _names = parent.file.state.lock();
        let mut state = node.file.state.lock();
        let state = &mut *state;
        let attr = node.file.host.attr()?;
        let from = self.recording_place(&node);
        let place = self.place_of(&path, node.class.unversioned);
        let before = match (&place, state.session.is_some()) {
            (Some(place), false) => Some(self.before(from.as_ref().unwrap_or(place), &node, state, &attr, false)?),
            (Some(_), true) | (None, _) => None,
        };
        let actor = self.actor(caller);
        let announced = match &place {
            Some(place) => {
                let change = self.expected(place, &node, state, ChangeKind::Link, None)?;
                let change = Change { from: from.as_ref().map(|from| from.path.clone()), ..change };
                Some(self.announce(OpKind::Link, &actor, vec![change])?)
            }
            None => None,
        };
        let (target, dir) = (node.file.host.path_fd()?, parent.file.host.path_fd()?);
        let linked = {
            let _caller = host::as_caller(caller);
            host::link(target.as_fd(), dir.as_fd(), name)
        };
        if let Err(error) = linked {
            return match announced {
                Some(op) => self.call_off(op, error),
                None => Err(error.into()),
            };
        }
        crash_point!("linked");
        node.named(&parent, name);
        let old = attr;
        let attr = node.file.host.attr()?;
        state.ours(&old, &attr);
        if let (Some(place), Some(op)) = (place, announced) {
            let mut change = changed(ChangeKind::Link, before, Some(attr));
            change.from = from.map(|from| from.path);
            let mut change = self.change(&place, &node, state, change)?;
            change.before = None;
            self.append(op, OpKind::Link, &actor, vec![change])?;
        }
        self.nodes.hold(&node);
        let mut shown = self.show(&node, attr);
        // A path of another class is another node, with rights of its own.
        if class == node.class {
            return Ok(Entry { node: shown });
        }
        self.nodes.forget(node.ino, 1);
        let other = self.nodes.intern(self.id, &node.file, class);
        other.named(&parent, name);
        shown.ino = other.ino;
        shown.attr.ino = other.ino.0;
        self.nodes.hold(&other);
        Ok(Entry { node: shown })
    }

    /// Removes a name that is not a directory's. The last name of a file takes its inode aside, so that nothing is lost.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `IsADirectory`; the host's; the store's.
    pub fn unlink(&self, caller: &Caller, parent: Ino, name: &EntryName) -> Result<()> {
        let parent = self.node(parent)?;
        let _tree = self.core.tree.read();
        let _names = parent.file.state.lock();
        let (node, attr) = self.child(&parent, name)?;
        self.path_in(&parent, name)?;
        self.writable(&node)?;
        if attr.kind == Kind::Dir {
            return Err(ViewError::IsADirectory(node.path().unwrap_or_default()));
        }
        let mut state = node.file.state.lock();
        if self.remove_transient(caller, &parent, name, &node, &mut state, &attr)? {
            node.file.lost_name(&parent.file, name);
            return Ok(());
        }
        let actor = self.actor(caller);
        let (op, change) = self.take_away(caller, &actor, &parent, name, &node, &mut state, &attr)?;
        self.append(op, OpKind::Remove, &actor, vec![change])?;
        crash_point!("removal-recorded");
        node.file.lost_name(&parent.file, name);
        Ok(())
    }

    /// Removes the name of a file and says what was there. Locks of the directory and the file are held.
    #[expect(clippy::too_many_arguments, reason = "who, what and where")]
    fn take_away(
        &self,
        caller: &Caller,
        actor: &Actor,
        parent: &Arc<Node>,
        name: &EntryName,
        node: &Arc<Node>,
        state: &mut FileState,
        attr: &Attr,
    ) -> Result<(OpId, Change)> {
        let dir = parent.file.host.path_fd()?;
        let path = self.path_in(parent, name)?;
        let Some(place) = self.place_of(&path, node.class.unversioned) else { return Err(Errno::STALE.into()) };
        let last = node.file.links(attr) <= 1;
        let before = self.before_removal(&place, node, state, attr, last)?;
        {
            let _caller = host::as_caller(caller);
            host::access(dir.as_fd(), rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
        }
        node.file.host.pin()?;
        let change = self.expected(&place, node, state, ChangeKind::Remove, Some(before.clone()))?;
        let op = self.announce(OpKind::Remove, actor, vec![change])?;
        self.named(&node.file)?;
        match &before.content {
            Content::Aside(aside) if last && !self.is_copy(&before) => {
                let aside = EntryName::new(aside.as_bytes()).map_err(|_| Errno::INVAL)?;
                let to = self.core.store.aside_dir();
                if let Err(error) = host::rename(dir.as_fd(), name, to, &aside, host::RenameMode::NoReplace) {
                    unpin(node, state);
                    return self.call_off(op, error);
                }
                crash_point!("moved-aside");
                node.file.went_aside();
            }
            Content::None
            | Content::Target(_)
            | Content::Blob(_)
            | Content::Aside(_)
            | Content::Live(_)
            | Content::Lost(_) => {
                if let Err(error) = host::remove_file(dir.as_fd(), name) {
                    unpin(node, state);
                    return self.call_off(op, error);
                }
                crash_point!("name-removed");
            }
        }
        Ok((op, self.removed(&place, node, state, before, last)?))
    }

    /// The change that says that a name is gone. What remains of the file is known under its other names.
    pub(crate) fn removed(
        &self,
        place: &Place,
        node: &Node,
        state: &mut FileState,
        before: State,
        last: bool,
    ) -> Result<Change> {
        let rest = if last { None } else { Some((node.file.host.attr()?, before.clone())) };
        let change = self.change(place, node, state, changed(ChangeKind::Remove, Some(before), None))?;
        match rest {
            Some((attr, mut now)) => {
                // The file lives on under another name.
                state.ours(&Attr { ctime: now.ctime, ..attr }, &attr);
                self.lost_one_name(node, state, place);
                now.nlink = attr.nlink;
                now.ctime = attr.ctime;
                state.head = super::file::Head::Known(change.node, now);
            }
            None => self.abandon(state)?,
        }
        Ok(change)
    }

    /// The state of a file whose name goes. If it is the last one, its content will be in the store: the inode itself, moved
    /// aside, or a copy where it cannot move or somebody still writes to it.
    fn before_removal(
        &self,
        place: &Place,
        node: &Arc<Node>,
        state: &mut FileState,
        attr: &Attr,
        last: bool,
    ) -> Result<State> {
        self.seal_writer(node, state)?;
        let open = state.session.is_some();
        let copies = last && (open || place.source.mode == Mode::Copying);
        let mut before = self.before(place, node, state, attr, copies)?;
        let only_here = match &before.content {
            Content::Live(_) => true,
            // To move it aside is quicker than to wait for the disk.
            Content::Blob(_) => !self.core.store.has_synced(node.file.needs_log()),
            Content::Aside(_) | Content::None | Content::Target(_) | Content::Lost(_) => false,
        };
        if last && !copies && attr.kind == Kind::File && only_here && attr.size > 0 {
            node.file.take_needed_log();
            let id = self.number(node, state)?;
            self.core.store.admit()?;
            before.content = Content::Aside(self.core.store.aside_name(id).to_string());
        }
        if last && attr.size == 0 && matches!(before.content, Content::Live(_)) {
            let (hash, _) = self.core.store.put_blob(&[])?;
            before.content = Content::Blob(hash);
        }
        Ok(before)
    }

    /// True if an aside name in a state is a copy that was made earlier, not the inode itself.
    fn is_copy(&self, state: &State) -> bool {
        match &state.content {
            Content::Aside(name) => self.core.store.has_aside(name),
            Content::None | Content::Target(_) | Content::Blob(_) | Content::Live(_) | Content::Lost(_) => true,
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `NotADirectory`, ENOTEMPTY (also of hidden entries); the host's; the store's.
    pub fn rmdir(&self, caller: &Caller, parent: Ino, name: &EntryName) -> Result<()> {
        let parent = self.node(parent)?;
        // A directory that goes away changes no path but its own, yet nobody may be making a name in it meanwhile.
        let _tree = self.core.tree.write();
        let (node, attr) = self.child(&parent, name)?;
        let path = self.path_in(&parent, name)?;
        self.writable(&node)?;
        if attr.kind != Kind::Dir {
            return Err(ViewError::NotADirectory(path));
        }
        let actor = self.actor(caller);
        let (op, change) = self.take_dir_away(caller, &actor, &parent, name, &node, &attr, &path)?;
        self.append(op, OpKind::Remove, &actor, vec![change])?;
        node.file.lost_name(&parent.file, name);
        Ok(())
    }

    /// Removes an empty directory's name and says what was there. The tree lock is held for writing.
    #[expect(clippy::too_many_arguments, reason = "who, what and where")]
    fn take_dir_away(
        &self,
        caller: &Caller,
        actor: &Actor,
        parent: &Arc<Node>,
        name: &EntryName,
        node: &Arc<Node>,
        attr: &Attr,
        path: &ViewPath,
    ) -> Result<(OpId, Change)> {
        let mut state = node.file.state.lock();
        let state = &mut *state;
        let Some(place) = self.place_of(path, node.class.unversioned) else { return Err(Errno::STALE.into()) };
        let before = self.before(&place, node, state, attr, false)?;
        let change = self.expected(&place, node, state, ChangeKind::Remove, Some(before.clone()))?;
        let dir = parent.file.host.path_fd()?;
        let op = self.announce(OpKind::Remove, actor, vec![change])?;
        let removed = {
            let _caller = host::as_caller(caller);
            host::remove_dir(dir.as_fd(), name)
        };
        if let Err(error) = removed {
            return self.call_off(op, error);
        }
        crash_point!("directory-removed");
        *node.stream.lock() = None;
        Ok((op, self.change(&place, node, state, changed(ChangeKind::Remove, Some(before), None))?))
    }
}

/// A file that keeps its name need not be held, unless somebody writes to it.
fn unpin(node: &Node, state: &FileState) {
    if state.session.is_none() {
        node.file.host.unpin();
    }
}

fn kind_of(mode: u32) -> Kind {
    match mode & 0o170_000 {
        0o010_000 => Kind::Fifo,
        0o020_000 => Kind::CharDevice,
        0o060_000 => Kind::BlockDevice,
        0o140_000 => Kind::Socket,
        _ => Kind::File,
    }
}
