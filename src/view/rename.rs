//! Renames through the mount: what moves, what it displaces, and what policy says of both places.

use std::{os::fd::AsFd, sync::Arc};

use super::{Result, View, ViewError, node::Node, record::changed};
use crate::{
    crash_point,
    host::{self, DirStream, Errno, RenameMode},
    policy::Policy,
    types::{Actor, Attr, Caller, EntryName, Ino, Kind, NodeId, ViewPath},
    versions::{Change, ChangeKind, Content, OpKind, State},
};

/// A name in a directory.
pub(crate) struct Spot<'a> {
    pub dir: &'a Arc<Node>,
    pub name: &'a EntryName,
}

impl View {
    /// Renames.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`, `CreateDenied`, `Widens`, EXDEV between sources; the host's; the store's.
    pub fn rename(
        &self,
        caller: &Caller,
        from: (Ino, &EntryName),
        to: (Ino, &EntryName),
        mode: RenameMode,
    ) -> Result<()> {
        let (from_dir, to_dir) = (self.node(from.0)?, self.node(to.0)?);
        let (from, to) = (Spot { dir: &from_dir, name: from.1 }, Spot { dir: &to_dir, name: to.1 });
        let actor = self.actor(caller);
        // Whether a directory moves decides the lock; it is asked again under the lock.
        let plain = {
            let _tree = self.core.tree.read();
            self.child(from.dir, from.name)?.1.kind != Kind::Dir && mode == RenameMode::Replace
        };
        let recorded = if plain {
            let _tree = self.core.tree.read();
            let (first, second) = in_order(&from_dir, &to_dir);
            let _first = first.file.state.lock();
            let _second = second.map(|dir| dir.file.state.lock());
            self.rename_locked(caller, &actor, &from, &to, mode, false)?
        } else {
            None
        };
        if recorded.is_none() {
            let _tree = self.core.tree.write();
            self.rename_locked(caller, &actor, &from, &to, mode, true)?;
        }
        crash_point!("rename-recorded");
        Ok(())
    }

    /// Renames under the locks, and records it; `None` if a directory moves and the tree lock is not held for writing.
    fn rename_locked(
        &self,
        caller: &Caller,
        actor: &Actor,
        from: &Spot<'_>,
        to: &Spot<'_>,
        mode: RenameMode,
        tree_is_ours: bool,
    ) -> Result<Option<()>> {
        let from_path = self.path_in(from.dir, from.name)?;
        let to_path = self.path_in(to.dir, to.name)?;
        let (node, attr) = self.child(from.dir, from.name)?;
        let is_dir = attr.kind == Kind::Dir;
        if is_dir && !tree_is_ours {
            return Ok(None);
        }
        self.writable(&node)?;
        let class = self.may_create(&to_path, is_dir)?;
        if Policy::widens(Some(node.class), Some(class)) {
            return Err(ViewError::Widens(to_path));
        }
        let target = match self.child(to.dir, to.name) {
            Ok(found) => Some(found),
            Err(ViewError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        match (&target, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(Errno::EXIST.into()),
            (None, RenameMode::Exchange) => return Err(ViewError::NotFound(to_path)),
            (Some(_) | None, RenameMode::Replace | RenameMode::Whiteout | RenameMode::NoReplace)
            | (Some(_), RenameMode::Exchange) => {}
        }
        if let Some((target, _)) = &target {
            self.writable(target)?;
            if Arc::ptr_eq(&target.file, &node.file) {
                // Two names of one file: POSIX says that nothing happens.
                return Ok(Some(()));
            }
        }
        let (Some((source, below_from)), Some((to_source, below_to))) =
            (self.locate(&from_path), self.locate(&to_path))
        else {
            return Err(Errno::XDEV.into());
        };
        if !Arc::ptr_eq(source, to_source) {
            return Err(Errno::XDEV.into());
        }
        if is_dir {
            self.check_subtree(&node, &from_path, &to_path)?;
        }
        if mode == RenameMode::Exchange
            && let Some((target, attr)) = &target
        {
            if attr.kind == Kind::Dir {
                self.check_subtree(target, &to_path, &from_path)?;
            }
            return self.exchange(caller, actor, from, to, (&node, target), (below_from, below_to)).map(Some);
        }
        let mut changes = Vec::new();
        let mut aside = None;
        let displaced = match &target {
            Some((target, target_attr)) => Some(self.displace(target, target_attr, &to_path, &mut aside)?),
            None => None,
        };
        let mut state = node.file.state.lock();
        let state = &mut *state;
        self.seal_writer(&node, state)?;
        let place = self.place_of(&to_path, node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let old_place = self.place_of(&from_path, node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let attr = attr_now(&node)?;
        let before = self.before(&old_place, &node, state, &attr, false)?;
        let mut announced = Vec::new();
        if let (Some(displaced), Some((target, _))) = (&displaced, &target) {
            let place = self.place_of(&to_path, target.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
            let mut state = target.file.state.lock();
            announced.push(self.expected(&place, target, &mut state, ChangeKind::Remove, Some(displaced.clone()))?);
        }
        let moves = self.expected(&place, &node, state, ChangeKind::Rename, Some(before.clone()))?;
        announced.push(Change { from: Some(old_place.path.clone()), ..moves });
        let op = self.announce(OpKind::Rename, actor, announced)?;
        if let Some((target, _)) = &target {
            self.named(&target.file)?;
        }
        let done = {
            let _caller = host::as_caller(caller);
            host::rename(
                from.dir.file.host.path_fd()?.as_fd(),
                from.name,
                to.dir.file.host.path_fd()?.as_fd(),
                to.name,
                mode,
            )
        };
        crash_point!("renamed");
        if let Err(error) = done {
            if let Some(aside) = aside {
                // Our own second link; the file still has its name.
                host::remove_file(self.core.store.aside_dir(), &aside)?;
            }
            return self.call_off(op, error);
        }
        if let (Some(displaced), Some((target, target_attr))) = (displaced, &target) {
            let mut target_state = target.file.state.lock();
            let last = target.file.links(target_attr) <= 1 || target_attr.kind == Kind::Dir;
            if aside.is_some() {
                target.file.host.pin()?;
                target.file.went_aside();
            }
            let place = self.place_of(&to_path, target.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
            changes.push(self.removed(&place, target, &mut target_state, displaced, last)?);
            target.file.lost_name(&to.dir.file, to.name);
        }
        node.file.lost_name(&from.dir.file, from.name);
        node.file.got_name(&to.dir.file, to.name);
        let renamed = attr_now(&node)?;
        state.ours(&attr, &renamed);
        let mut change = changed(ChangeKind::Rename, Some(before), Some(renamed));
        change.from = Some(old_place.path.clone());
        changes.push(self.change(&place, &node, state, change)?);
        if let Some(session) = &mut state.session {
            // What is written from here on still belongs to the operation of the open, at the place that it had then.
            session.seen = renamed;
        }
        self.append(op, OpKind::Rename, actor, changes).map(Some)
    }

    /// Makes the content of a file that a rename will displace safe: one more link to it in `aside/`, or a copy.
    fn displace(
        &self,
        target: &Arc<Node>,
        attr: &Attr,
        path: &ViewPath,
        aside: &mut Option<EntryName>,
    ) -> Result<State> {
        let mut state = target.file.state.lock();
        let state = &mut *state;
        let place = self.place_of(path, target.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        self.seal_writer(target, state)?;
        let attr = if state.session.is_some() { attr_now(target)? } else { *attr };
        let last = target.file.links(&attr) <= 1;
        let copies = last && (state.session.is_some() || place.source.mode == crate::versions::Mode::Copying);
        let mut before = self.before(&place, target, state, &attr, copies)?;
        if last && !copies && attr.kind == Kind::File && matches!(before.content, Content::Live(_)) {
            let id = self.number(target, state)?;
            self.core.store.admit()?;
            let name = self.core.store.aside_name(id);
            match host::link(target.file.host.path_fd()?.as_fd(), self.core.store.aside_dir(), &name) {
                Ok(()) => {
                    crash_point!("aside-linked");
                    before.content = Content::Aside(name.to_string());
                    *aside = Some(name);
                }
                Err(Errno::MLINK | Errno::XDEV | Errno::PERM) => {
                    before.content = self.keep(&place, &target.file, &attr, id)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(before)
    }

    fn exchange(
        &self,
        caller: &Caller,
        actor: &Actor,
        from: &Spot<'_>,
        to: &Spot<'_>,
        nodes: (&Arc<Node>, &Arc<Node>),
        paths: (ViewPath, ViewPath),
    ) -> Result<()> {
        let (moved, other) = nodes;
        let sealed = |node: &Arc<Node>| -> Result<Attr> {
            let mut state = node.file.state.lock();
            self.seal_writer(node, &mut state)?;
            attr_now(node)
        };
        let (moved_was, other_was) = (sealed(moved)?, sealed(other)?);
        let to_path = self.path_in(to.dir, to.name)?;
        let place = self.place_of(&to_path, moved.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let change = self.expected(&place, moved, &mut moved.file.state.lock(), ChangeKind::Exchange, None)?;
        let op = self.announce(OpKind::Rename, actor, vec![Change { from: Some(paths.0.clone()), ..change }])?;
        let (a, b) = (from.dir.file.host.path_fd()?, to.dir.file.host.path_fd()?);
        let exchanged = {
            let _caller = host::as_caller(caller);
            host::rename(a.as_fd(), from.name, b.as_fd(), to.name, RenameMode::Exchange)
        };
        if let Err(error) = exchanged {
            return self.call_off(op, error);
        }
        crash_point!("names-exchanged");
        nodes.0.file.lost_name(&from.dir.file, from.name);
        nodes.1.file.lost_name(&to.dir.file, to.name);
        nodes.0.file.got_name(&to.dir.file, to.name);
        nodes.1.file.got_name(&from.dir.file, from.name);
        let source = Arc::clone(&place.source);
        let state_of = |node: &Arc<Node>, was: &Attr, path: &ViewPath| -> Result<(NodeId, State)> {
            let mut state = node.file.state.lock();
            let place = super::record::Place {
                source: Arc::clone(&source),
                path: path.clone(),
                unversioned: node.class.unversioned,
            };
            self.load(node, &mut state)?;
            let id = self.number(node, &mut state)?;
            let attr = attr_now(node)?;
            state.ours(was, &attr);
            let mut now = State::of(
                &attr,
                match state.known() {
                    Some(known) => known.content.clone(),
                    None => self.fresh_content(&place, node, &attr)?,
                },
            );
            now.xattrs = self.xattrs_of(node)?;
            state.head = super::file::Head::Known(id, now.clone());
            Ok((id, now))
        };
        let (id, moved_state) = state_of(moved, &moved_was, &paths.1)?;
        let (_, other_state) = state_of(other, &other_was, &paths.0)?;
        let change = Change {
            source: source.id,
            path: paths.1,
            kind: ChangeKind::Exchange,
            from: Some(paths.0),
            node: id,
            key: Some(moved.file.stable_key()),
            before: Some(moved_state),
            after: Some(other_state),
            staged: None,
            coalesced: false,
            unversioned: None,
        };
        self.append(op, OpKind::Rename, actor, vec![change])
    }

    /// Refuses a move of a directory that would make anything below it more visible or more writable. Looks at what is
    /// really there, hidden entries included.
    pub(crate) fn check_subtree(&self, node: &Arc<Node>, from: &ViewPath, to: &ViewPath) -> Result<()> {
        if self.policy().is_uniform() {
            return Ok(());
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let mut waiting = vec![(node.file.host.open(flags)?, ViewPath::root())];
        while let Some((dir, below)) = waiting.pop() {
            let mut stream = DirStream::new(dir);
            for entry in stream.entries()? {
                let path = below.join(&entry.name);
                let is_dir = entry.kind == Kind::Dir;
                let old = self.class(&from.join_path(&path), is_dir);
                let new = self.class(&to.join_path(&path), is_dir);
                if Policy::widens(old, new) {
                    return Err(ViewError::Widens(to.clone()));
                }
                if is_dir {
                    match host::open_child(stream.fd(), &entry.name).and_then(|fd| node.file.host.fs().adopt(fd)) {
                        Ok((host, attr)) if attr.kind == Kind::Dir => waiting.push((host.open(flags)?, path)),
                        Ok(_) | Err(Errno::NOENT | Errno::XDEV) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }
}

fn attr_now(node: &Node) -> Result<crate::types::Attr> {
    Ok(node.file.host.attr()?)
}

/// Two directories in the order in which their locks are taken; one if they are the same.
pub(crate) fn in_order<'a>(a: &'a Arc<Node>, b: &'a Arc<Node>) -> (&'a Arc<Node>, Option<&'a Arc<Node>>) {
    if Arc::ptr_eq(&a.file, &b.file) {
        return (a, None);
    }
    let (ka, kb) = (a.file.host.key(), b.file.host.key());
    if (ka.fs, ka.ino, &ka.handle) <= (kb.fs, kb.ino, &kb.handle) { (a, Some(b)) } else { (b, Some(a)) }
}
