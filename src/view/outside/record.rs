//! What a report says, recorded: the host is looked at again, and compared with what the log knows.

use std::{os::fd::AsFd, sync::Arc};

use rustix::fs::OFlags;

use super::{
    super::{
        Core, Found, Result, View,
        core::WHOLE_COPY_MAX,
        file::{File, FileState, Head},
        lookup::STAGE_PREFIX,
        node::Node,
        plan::new_state,
        record::{Place, changed, loss_of},
    },
    feed::{Feed, Hint, Spot},
    names::stands,
};
use crate::{
    crash_point,
    host::{self, HostRef},
    types::{Actor, Attr, Channel, Kind, NodeId, OpId},
    versions::{Change, ChangeKind, Content, HistoryQuery, Loss, NodeKey, OpKind, State},
};

impl Core {
    /// Records a name that was made, removed or moved. Where watchers are to be woken, if anywhere.
    pub(super) fn record_name(&self, feed: &mut Feed, hint: &Hint) -> Result<Option<Place>> {
        let Some((key, at)) = hint.key().zip(hint.seen.at.as_ref()) else { return Ok(None) };
        let is_dir = hint.what().is_dir();
        if hint.what().renamed() {
            let from = feed.moved.remove(&key);
            let from = from.as_ref().unwrap_or(at);
            let Some(to) = &hint.seen.to else { return Ok(None) };
            let (olds, news) = (self.spots(&hint.fs, from, is_dir), self.spots(&hint.fs, to, is_dir));
            let pair = news.iter().find_map(|new| {
                let same =
                    |old: &&Spot| Arc::ptr_eq(&old.view, &new.view) && old.place.source.id == new.place.source.id;
                Some((olds.iter().find(same)?, new))
            });
            return match (pair, olds.first(), news.first()) {
                (Some((old, new)), _, _) => match new.view.moved_beside(old, new, hint)? {
                    Some(place) => Ok(place),
                    None => {
                        // It moved on, or away: a later report tells.
                        feed.moved.insert(key, from.clone());
                        Ok(None)
                    }
                },
                (None, _, Some(new)) => new.view.made_beside(new, hint),
                (None, Some(old), None) => old.view.gone_beside(old, hint, false),
                (None, None, None) => Ok(None),
            };
        }
        let from = feed.moved.remove(&key);
        let spots = self.spots(&hint.fs, from.as_ref().unwrap_or(at), is_dir);
        let Some(spot) = spots.first() else { return Ok(None) };
        let there = self.reported(&hint.fs, hint.seen.file.as_deref()).is_some_and(|file| spot.holds(&file));
        if hint.what().made() {
            let made = spot.view.made_beside(spot, hint)?;
            if made.is_some() || there {
                return Ok(made);
            }
            if !hint.what().removed() {
                feed.brief.insert(key);
                return Ok(None);
            }
        }
        let brief = feed.brief.remove(&key) || hint.what().made();
        spot.view.gone_beside(spot, hint, brief)
    }

    /// Records another content or other attributes of one inode.
    pub(super) fn record_content(&self, hint: &Hint) -> Result<Option<Place>> {
        let spots = hint.seen.at.as_ref().map(|at| self.spots(&hint.fs, at, hint.what().is_dir())).unwrap_or_default();
        let known = self.reported(&hint.fs, hint.seen.file.as_deref());
        let (view, node, place) = match (spots.first(), known) {
            (Some(spot), _) => {
                let _tree = self.tree.read();
                let Ok((node, _)) = spot.view.child(&spot.parent, &spot.name) else { return Ok(None) };
                if hint.key().as_ref() != Some(node.file.host.key()) {
                    return Ok(None);
                }
                (Arc::clone(&spot.view), node, spot.place.clone())
            }
            (None, Some(file)) => match self.place_of_file(&file) {
                Some(found) => found,
                None => return Ok(None),
            },
            // Of a directory itself the report names no entry.
            (None, None) => {
                let Some(dir) = hint.seen.at.as_ref().filter(|at| at.name.is_none()).map(|at| &at.dir) else {
                    return Ok(None);
                };
                let dirs = self.dirs(&hint.fs, dir);
                let found = dirs.into_iter().find_map(|(view, node)| Some((view.recording_place(&node)?, view, node)));
                let Some((place, view, node)) = found else { return Ok(None) };
                (view, node, place)
            }
        };
        view.changed_beside(&node, &place, &hint.actor, hint.what().modified())
    }

    /// Compares a file with what the log knows, after reports of it may have been lost.
    pub(super) fn compare(&self, file: &Arc<File>) -> Result<Option<Place>> {
        let Some((view, node, place)) = self.place_of_file(file) else { return Ok(None) };
        view.changed_beside(&node, &place, &Actor::of(Channel::External), false)
    }

    /// A file that somebody refers to, by a name that it has now.
    fn place_of_file(&self, file: &Arc<File>) -> Option<(Arc<View>, Arc<Node>, Place)> {
        let views = self.views();
        file.live_nodes().into_iter().filter(|node| !node.hidden()).find_map(|node| {
            let view = views.iter().find(|view| view.id == node.view())?;
            let place = view.recording_place(&node)?;
            Some((Arc::clone(view), node, place))
        })
    }
}

impl Spot {
    /// Is the file at this entry now?
    fn holds(&self, file: &File) -> bool {
        stands(&self.parent.file, &self.name, file)
    }
}

impl View {
    /// What stands at an entry now, if it is what a report is about.
    fn reported_at(&self, spot: &Spot, hint: &Hint) -> Option<(Arc<Node>, Attr)> {
        if spot.name.as_bytes().starts_with(STAGE_PREFIX) {
            return None;
        }
        let found = self.child(&spot.parent, &spot.name).ok()?;
        (hint.key().as_ref() == Some(found.0.file.host.key())).then_some(found)
    }

    /// A name that somebody made.
    fn made_beside(&self, spot: &Spot, hint: &Hint) -> Result<Option<Place>> {
        let _tree = self.core.tree.read();
        let Some((node, attr)) = self.reported_at(spot, hint) else { return Ok(None) };
        let place = &spot.place;
        let mut state = node.file.state.lock();
        let state = &mut *state;
        self.load(&node, state)?;
        if state.session.is_some() {
            return Ok(None);
        }
        let displaced = if hint.what().renamed() { self.displaced(place, None)? } else { None };
        let kind = match state.known() {
            Some(_) if attr.kind == Kind::Dir => return Ok(None),
            Some(_) if node.file.links(&attr) > 1 => ChangeKind::Link,
            Some(_) | None => ChangeKind::Create,
        };
        let mut change = self.change(place, &node, state, changed(kind, None, Some(attr)))?;
        if kind == ChangeKind::Link {
            let names = node.names.lock().clone();
            let other = names.iter().find(|(dir, name)| !Arc::ptr_eq(dir, &spot.parent) || *name != spot.name);
            let other = other.and_then(|(dir, name)| self.place_of(&dir.path()?.join(name), place.unversioned));
            change.from = other.map(|other| other.path);
        }
        let op = self.core.store.next_op();
        self.append(op, OpKind::External, &hint.actor, displaced.into_iter().chain([change]).collect())?;
        state.last_op = op;
        Ok(Some(place.clone()))
    }

    /// A name that somebody moved; `None` if it is not there any more, so that it must have moved on.
    fn moved_beside(&self, old: &Spot, new: &Spot, hint: &Hint) -> Result<Option<Option<Place>>> {
        let _tree = self.core.tree.read();
        let Some((node, attr)) = self.reported_at(new, hint) else { return Ok(None) };
        if old.place.path == new.place.path || old.holds(&node.file) {
            return Ok(Some(None));
        }
        let mut state = node.file.state.lock();
        let state = &mut *state;
        self.load(&node, state)?;
        if state.session.is_none() {
            self.external(&old.place, &node, state, &attr, &hint.actor)?;
        }
        let before = match state.known() {
            Some(known) => known.clone(),
            None => {
                let mut fresh = State::of(&attr, self.fresh_content(&new.place, &node, &attr)?);
                fresh.nlink = node.file.links(&attr);
                fresh.xattrs = self.xattrs_of(&node)?;
                fresh
            }
        };
        let id = self.number(&node, state)?;
        let displaced = self.displaced(&new.place, Some(id))?;
        let mut change = changed(ChangeKind::Rename, Some(before), Some(attr));
        change.from = Some(old.place.path.clone());
        let change = self.change(&new.place, &node, state, change)?;
        let op = self.core.store.next_op();
        self.append(op, OpKind::External, &hint.actor, displaced.into_iter().chain([change]).collect())?;
        state.last_op = op;
        Ok(Some(Some(new.place.clone())))
    }

    /// A name that somebody removed. `brief`: it was made so shortly before that nobody knew it.
    fn gone_beside(&self, spot: &Spot, hint: &Hint, brief: bool) -> Result<Option<Place>> {
        let _tree = self.core.tree.read();
        let Some(handle) = hint.seen.file.as_deref() else { return Ok(None) };
        if self.reported_at(spot, hint).is_some() || spot.name.as_bytes().starts_with(STAGE_PREFIX) {
            return Ok(None);
        }
        let key = NodeKey([&hint.fs.fsid()[..], handle].concat().into());
        let file = self.core.files.get(&hint.fs.key_of(handle));
        let mut state = file.as_ref().map(|file| file.state.lock());
        let (id, known) = match self.core.store.head(&key)? {
            Some((id, known)) => (id, known),
            None => (self.core.store.next_node(), None),
        };
        if known.is_none() && brief {
            return Ok(None);
        }
        let left = spot.place.source.open_key(&key).ok();
        let attr = left.as_ref().and_then(|left| left.attr().ok());
        let before = known.unwrap_or_else(|| unknown(attr.as_ref(), hint.what().is_dir()));
        let links = match (&file, &attr) {
            (Some(file), Some(attr)) => file.links(attr),
            (None, Some(attr)) => attr.nlink,
            (_, None) => 0,
        };
        let last = links == 0 || before.kind == Kind::Dir;
        let before = if last { self.rescued(&spot.place, before, left.as_ref())? } else { before };
        let change = removal(&spot.place, id, Some(key), before.clone());
        self.append(self.core.store.next_op(), OpKind::External, &hint.actor, vec![change])?;
        if let Some(state) = &mut state {
            if last {
                self.abandon(state)?;
                state.head = Head::Unknown(Some(id));
            } else if let Some(attr) = &attr {
                state.head = Head::Known(id, State { nlink: links, ctime: attr.ctime, ..before });
            }
        }
        // The directory is what watchers can be woken for.
        let place = spot.place.path.parent().map(|path| Place { path, ..spot.place.clone() });
        Ok(place)
    }

    /// A content or attributes that somebody changed. `written`: the content was, so that also of a file that the log does
    /// not know it is said that the old one is lost.
    fn changed_beside(&self, node: &Arc<Node>, place: &Place, actor: &Actor, written: bool) -> Result<Option<Place>> {
        let _tree = self.core.tree.read();
        self.changed_beside_locked(node, place, actor, written)
    }

    /// Where nobody tells of changes beside us: records one that a file shows which the log has not changed since an
    /// operation. False if there is none. The tree lock is held by the caller.
    pub(in crate::view) fn changed_unseen(&self, found: &Found, since: OpId) -> Result<bool> {
        if found.attr.kind != Kind::File || self.is_recorded_beside() {
            return Ok(false);
        }
        let Some(place) = self.recording_place(&found.node) else { return Ok(false) };
        // The kernel's clock for inodes is behind ours, never before it.
        let then = self.core.store.operation(since)?.map_or(self.core.started, |operation| operation.time);
        let written = found.attr.ctime > then;
        Ok(self.changed_beside_locked(&found.node, &place, &Actor::of(Channel::External), written)?.is_some())
    }

    fn changed_beside_locked(
        &self,
        node: &Arc<Node>,
        place: &Place,
        actor: &Actor,
        written: bool,
    ) -> Result<Option<Place>> {
        let mut state = node.file.state.lock();
        let state = &mut *state;
        self.load(node, state)?;
        let attr = node.file.host.attr()?;
        if state.session.is_some() || node.file.links(&attr) == 0 {
            return Ok(None);
        }
        if state.known().is_none() {
            if !written || attr.kind != Kind::File {
                return Ok(None);
            }
            let id = self.number(node, state)?;
            let mut old = State::of(&attr, Content::Lost(Loss::External));
            (old.nlink, old.xattrs) = (node.file.links(&attr), self.xattrs_of(node)?);
            // Not as it is, so that it is recorded as changed.
            (old.mtime, old.ctime) = Default::default();
            state.head = Head::Known(id, old);
        }
        let recorded = self.external(place, node, state, &attr, actor);
        if let (Err(_), Head::Known(id, _)) = (&recorded, &state.head) {
            // Perhaps not as just made up.
            state.head = Head::Unknown(Some(*id));
        }
        Ok(recorded?.then(|| place.clone()))
    }

    /// Records that a file is not as the log has it, unless only its links or times of attributes differ. What is new is kept
    /// if what was there was.
    pub(in crate::view) fn external(
        &self,
        place: &Place,
        node: &Node,
        state: &mut FileState,
        attr: &Attr,
        actor: &Actor,
    ) -> Result<bool> {
        let Head::Known(id, old) = &state.head else { return Ok(false) };
        // What is current of a directory says nothing of its extended attributes.
        if old.is_current(attr) && (attr.kind != Kind::Dir || old.xattrs == self.xattrs_of(node)?) {
            return Ok(false);
        }
        let (id, mut old) = (*id, old.clone());
        self.core.store.freshen(&mut old)?;
        let stored = matches!(old.content, Content::Blob(_) | Content::Aside(_)) && !place.unversioned;
        let mut same = old.kind != Kind::File || (old.size, old.mtime) == (attr.size, attr.mtime);
        let mut now = State::of(attr, self.fresh_content(place, node, attr)?);
        (now.nlink, now.xattrs) = (node.file.links(attr), self.xattrs_of(node)?);
        if stored && attr.kind == Kind::File && attr.size <= WHOLE_COPY_MAX {
            let fd = node.file.host.open(OFlags::RDONLY)?;
            if let Ok((bytes, read)) = host::read_whole(fd.as_fd(), WHOLE_COPY_MAX)
                && (read.size, read.mtime, read.ctime) == (attr.size, attr.mtime, attr.ctime)
            {
                now.content = Content::Blob(self.core.store.put_blob(&bytes)?.0);
                same = now.content == old.content;
            }
        }
        if same {
            now.content.clone_from(&old.content);
            let told = |state: &State| (state.mode, state.uid, state.gid, state.xattrs.clone(), state.mtime);
            if told(&old) == told(&now) {
                state.head = Head::Known(id, now);
                return Ok(false);
            }
        } else {
            old.content = self.lost(old.size, old.content)?;
        }
        let change = Change {
            source: place.source.id,
            path: place.path.clone(),
            kind: if same { ChangeKind::Meta } else { ChangeKind::Write },
            from: None,
            node: id,
            key: Some(node.file.stable_key()),
            unversioned: loss_of(place, Some(&old)),
            before: Some(old),
            after: Some(now.clone()),
            staged: None,
            coalesced: false,
        };
        let op = self.core.store.next_op();
        self.append(op, OpKind::External, actor, vec![change])?;
        crash_point!("outside-recorded");
        state.last_op = op;
        state.head = Head::Known(id, now);
        Ok(true)
    }

    /// A content that was never stored, and is not there any more.
    fn lost(&self, size: u64, content: Content) -> Result<Content> {
        Ok(match content {
            Content::Live(_) if size == 0 => Content::Blob(self.core.store.put_blob(&[])?.0),
            Content::Live(_) => Content::Lost(Loss::External),
            Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) | Content::Lost(_) => content,
        })
    }

    /// The state of a file whose last name went, with its content read from the inode itself as long as somebody holds it.
    fn rescued(&self, place: &Place, mut state: State, left: Option<&HostRef>) -> Result<State> {
        self.core.store.freshen(&mut state)?;
        if place.unversioned && state.kind == Kind::File {
            state.content = Content::Lost(Loss::Policy);
            return Ok(state);
        }
        if matches!(state.content, Content::Live(_))
            && let Some(left) = left
            && let Ok(fd) = left.open(OFlags::RDONLY)
            && let Ok((bytes, attr)) = host::read_whole(fd.as_fd(), WHOLE_COPY_MAX)
            && (attr.size, attr.mtime) == (state.size, state.mtime)
        {
            state.content = Content::Blob(self.core.store.put_blob(&bytes)?.0);
        }
        state.content = self.lost(state.size, state.content)?;
        Ok(state)
    }

    /// What the log says stood at a path that something else moved to.
    fn displaced(&self, place: &Place, mover: Option<NodeId>) -> Result<Option<Change>> {
        let path = &place.path;
        let query = HistoryQuery { path: Some((place.source.id, path.clone())), limit: 1, ..HistoryQuery::default() };
        let Some(last) = self.core.store.history(&query)?.operations.pop() else { return Ok(None) };
        let touched = |change: &&Change| change.path == *path || change.from.as_ref() == Some(path);
        let Some(change) = last.changes.into_iter().rev().find(|change| touched(&change)) else { return Ok(None) };
        let stood = match change.kind {
            ChangeKind::Exchange | ChangeKind::Remove => None,
            ChangeKind::Rename | ChangeKind::Link if change.path != *path => None,
            ChangeKind::Create | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Link => {
                change.after
            }
        };
        let Some(mut state) = stood.filter(|_| Some(change.node) != mover) else { return Ok(None) };
        let key = change.key.clone();
        // Its content may have been stored since.
        if let Some(key) = &key
            && let Some((_, Some(head))) = self.core.store.head(key)?
        {
            state = head;
        }
        let left = key.as_ref().and_then(|key| place.source.open_key(key).ok());
        if left.as_ref().and_then(|left| left.attr().ok()).is_none_or(|attr| attr.nlink == 0) {
            state = self.rescued(place, state, left.as_ref())?;
        }
        Ok(Some(removal(place, change.node, key, state)))
    }
}

/// What is known of something that nobody looked at before it went.
fn unknown(attr: Option<&Attr>, is_dir: bool) -> State {
    match (attr, is_dir) {
        (Some(attr), false) => State::of(attr, Content::Live(None)),
        (Some(attr), true) => State::of(attr, Content::None),
        (None, true) => new_state(Kind::Dir, 0o755, (0, 0), 0, Content::None),
        (None, false) => new_state(Kind::File, 0o644, (0, 0), 0, Content::Lost(Loss::External)),
    }
}

fn removal(place: &Place, node: NodeId, key: Option<NodeKey>, before: State) -> Change {
    Change {
        source: place.source.id,
        path: place.path.clone(),
        kind: ChangeKind::Remove,
        from: None,
        node,
        key,
        unversioned: loss_of(place, Some(&before)),
        before: Some(before),
        after: None,
        staged: None,
        coalesced: false,
    }
}
