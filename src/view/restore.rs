//! From the net effect to a plan: moves out of the way, removals, then from the top down what shall stand at each path.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

mod clash;
mod settle;

use super::{
    Conflict, ConflictCode, Found, OnConflict, Request, Result, View, ViewError,
    net::{Expected, Net, Wanted},
    plan::{Plan, Snapshot},
    resolve::Follow,
    source::Source,
};
use crate::{
    types::{EntryName, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath},
    versions::{ChangeKind, Content, HistoryQuery, NodeKey, State},
};
pub(crate) use settle::Settled;

/// A revert on its way to a plan. The tree lock is held for writing.
pub(crate) struct Restore<'a> {
    view: &'a View,
    request: &'a Request,
    net: &'a Net,
    how: OnConflict,
    /// Whoever has a file open for writing may still be waited for.
    waits: bool,
    wanted: BTreeMap<ViewPath, Wanted>,
    gone: BTreeSet<ViewPath>,
    /// Contents that come from a merge, by path.
    merged: BTreeMap<ViewPath, Vec<u8>>,
    plan: Plan,
    /// What the plan has moved so far, in order.
    moved: Vec<(ViewPath, ViewPath)>,
    /// Where in `moved` a path is moved from.
    moved_from: HashMap<ViewPath, Vec<usize>>,
    /// Paths from which the plan takes what stands there now.
    taken: HashSet<ViewPath>,
    /// Paths at which the plan puts something.
    put: HashSet<ViewPath>,
    /// The names of files with several, by source: where handles do not work, once they were looked for.
    linked: HashMap<SourceId, HashMap<NodeKey, Vec<ViewPath>>>,
    unmet: Vec<Conflict>,
}

impl<'a> Restore<'a> {
    pub fn new(view: &'a View, request: &'a Request, net: &'a Net, how: OnConflict, waits: bool) -> Self {
        Restore {
            view,
            request,
            net,
            how,
            waits: waits && how != OnConflict::Force,
            wanted: net.wanted.clone(),
            gone: net.gone.clone(),
            merged: BTreeMap::new(),
            plan: Plan::default(),
            moved: Vec::new(),
            moved_from: HashMap::new(),
            taken: HashSet::new(),
            put: HashSet::new(),
            linked: HashMap::new(),
            unmet: Vec::new(),
        }
    }

    /// The plan, and what it could not do.
    pub fn plan(mut self) -> Result<(Plan, Vec<Conflict>)> {
        self.keep_last_names()?;
        self.removals(false)?;
        let mut between = self.moves()?;
        self.removals(true)?;
        let paths: Vec<ViewPath> = self.wanted.keys().cloned().collect();
        let mut links = Vec::new();
        let mut made: BTreeMap<NodeId, ViewPath> = BTreeMap::new();
        // From the top down, so that each finds its directory.
        for path in paths {
            if let Some((from, found)) = between.remove(&path) {
                self.ready_parent(&path)?;
                self.rename(&found, &from, &path)?;
            }
            self.stand(&path, &mut made, &mut links)?;
        }
        for path in links {
            self.link(&path, &made)?;
        }
        Ok((self.plan, self.unmet))
    }

    /// A file whose every name shall go, and that shall have an old name again, is renamed: removed, it could not be linked.
    fn keep_last_names(&mut self) -> Result<()> {
        let back: Vec<(ViewPath, NodeKey)> = self
            .wanted
            .iter()
            .filter(|(_, wanted)| !wanted.absent && wanted.now.is_none())
            .filter(|(_, wanted)| wanted.state.as_ref().is_some_and(|(_, state)| state.kind != Kind::Dir))
            .filter_map(|(path, wanted)| Some((path.clone(), wanted.key.clone()?)))
            .collect();
        if back.is_empty() {
            return Ok(());
        }
        let mut going: HashMap<NodeKey, (u32, Vec<ViewPath>)> = HashMap::new();
        for path in &self.gone {
            let Some(found) = self.look(path)?.filter(|found| found.attr.kind != Kind::Dir) else { continue };
            let names = going.entry(found.node.file.stable_key()).or_default();
            names.0 = found.node.file.links(&found.attr);
            names.1.push(path.clone());
        }
        for (path, key) in back {
            let Some((links, names)) = going.get_mut(&key) else { continue };
            if u32::try_from(names.len()).is_ok_and(|count| count >= *links)
                && let Some(now) = names.pop()
            {
                *links = u32::MAX;
                self.gone.remove(&now);
                self.wanted.entry(path).or_default().now = Some(now);
            }
        }
        Ok(())
    }

    fn unmet(&mut self, path: &ViewPath, code: ConflictCode, detail: &str) {
        self.unmet.push(Conflict { path: path.clone(), code, detail: detail.to_owned() });
    }

    fn look(&self, path: &ViewPath) -> Result<Option<Found>> {
        match self.view.find_locked(path, Follow::No) {
            Ok(found) => Ok(Some(found)),
            Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes what shall not be: by the names of now. Files first; directories when what shall leave them has left.
    fn removals(&mut self, dirs: bool) -> Result<()> {
        let mut gone: Vec<ViewPath> = self.gone.iter().cloned().collect();
        gone.sort_by_key(|path| std::cmp::Reverse(path.depth()));
        for path in gone {
            let Some(found) = self.look(&path)? else { continue };
            if !self.stays(&path, &found) && (found.attr.kind == Kind::Dir) == dirs {
                self.remove(&found)?;
            }
        }
        Ok(())
    }

    /// What stands where the same kind of thing shall stand again is changed, not removed.
    fn stays(&self, path: &ViewPath, found: &Found) -> bool {
        self.wanted.get(path).is_some_and(|wanted| {
            let state = wanted.state.as_ref().map(|(_, state)| state);
            !wanted.absent
                && wanted.now.is_none()
                && self.before_moves(path) == *path
                && state.is_some_and(|s| s.kind == found.attr.kind && (s.kind == Kind::Dir || s.nlink <= 1))
        })
    }

    /// What is removed, and what is moved, from where it stands now.
    fn leaving(&self) -> HashSet<ViewPath> {
        let moving = self
            .wanted
            .iter()
            .filter_map(|(path, wanted)| wanted.now.clone().filter(|now| !wanted.absent && now != path));
        moving.chain(self.gone.iter().cloned()).collect()
    }

    /// Will a directory be empty once the plan is applied so far?
    fn empties(&self, found: &Found, leaving: &HashSet<ViewPath>) -> Result<bool> {
        let names = self.view.entries_of(found)?;
        let all_leave = names.iter().all(|name| leaving.contains(&found.path.join(name)));
        Ok(all_leave && !self.view.has_hidden(found, names.len())?)
    }

    /// What is there before a change that leaves the content where it is, or does not. Whoever has it open for writing is
    /// waited for; under force, what he wrote so far is recorded.
    fn snapshot(&self, found: &Found, stays: bool) -> Result<Snapshot> {
        match (self.how, stays) {
            (OnConflict::Force, _) => self.view.plan_snapshot_sealed(found, stays),
            (_, true) => self.view.plan_snapshot_kept(found),
            (_, false) => self.view.plan_snapshot(found),
        }
    }

    fn remove(&mut self, found: &Found) -> Result<()> {
        self.view.writable(&found.node)?;
        let before = self.snapshot(found, false)?;
        // A directory that the plan moves takes along what is in it.
        let path = self.after_moves(&found.path);
        let place = self
            .view
            .place_of(&path, found.class.unversioned)
            .ok_or_else(|| ViewError::ReadOnly(found.path.clone()))?;
        self.plan.push(&place, ChangeKind::Remove, before.id, Some(&found.node), None, Some(&before), None);
        self.taken.insert(path);
        Ok(())
    }

    /// Where something that stands at `path` now stands when the steps planned so far are done.
    fn after_moves(&self, path: &ViewPath) -> ViewPath {
        let mut path = path.clone();
        let mut done = 0;
        // The next of the moves that takes the path, or a directory above it, along.
        let next = |path: &ViewPath, done: usize| {
            let of = |dir: &ViewPath| self.moved_from.get(dir)?.iter().copied().find(|at| *at >= done);
            path.ancestors().filter_map(|dir| of(&dir)).min()
        };
        while let Some(at) = next(&path, done) {
            let (from, to) = &self.moved[at];
            if let Some(rest) = path.strip_prefix(from) {
                path = to.join_path(&rest);
            }
            done = at + 1;
        }
        path
    }

    /// Moves what stands elsewhere now: directly where the way is free, else to a name of our own in between. Returns those,
    /// by where they go.
    fn moves(&mut self) -> Result<BTreeMap<ViewPath, (ViewPath, Found)>> {
        let mut moves: Vec<(ViewPath, ViewPath)> = self
            .wanted
            .iter()
            .filter(|(_, wanted)| !wanted.absent)
            .filter_map(|(path, wanted)| wanted.now.clone().map(|now| (now, path.clone())))
            .filter(|(from, to)| from != to)
            .collect();
        // A directory carries what is in it.
        let mut targets: HashMap<ViewPath, Vec<ViewPath>> = HashMap::new();
        for (from, to) in &moves {
            targets.entry(from.clone()).or_default().push(to.clone());
        }
        moves.retain(|(from, to)| {
            !from.ancestors().skip(1).any(|dir| {
                let carried =
                    |dir_to: &ViewPath| from.strip_prefix(&dir).is_some_and(|rest| dir_to.join_path(&rest) == *to);
                targets.get(&dir).is_some_and(|all| all.iter().any(carried))
            })
        });
        moves.sort_by_key(|(from, _)| std::cmp::Reverse(from.depth()));
        let entangled = entangled(&moves);
        let mut later = BTreeMap::new();
        for (at, (from, to)) in moves.into_iter().enumerate() {
            let Some(found) = self.look(&from)? else {
                self.unmet(&from, ConflictCode::Content, "it was removed later");
                continue;
            };
            let blocked = !self.taken.contains(&to) && self.look(&to)?.is_some();
            let parent_stands = to.parent().is_none_or(|parent| matches!(self.look(&parent), Ok(Some(_))));
            if !entangled && !blocked && parent_stands {
                self.rename(&found, &from, &to)?;
                continue;
            }
            let Some((source, _)) = self.view.locate(&from) else { continue };
            let name = format!(
                "{}revert-{}-{at}",
                String::from_utf8_lossy(super::lookup::STAGE_PREFIX),
                self.net.expected.values().map(Expected::op).max().unwrap_or(OpId(0))
            );
            let Ok(name) = EntryName::new(name.as_bytes()) else { continue };
            let base = if self.view.is_multi() {
                let mut base = ViewPath::root();
                base.push(&source.name);
                base
            } else {
                ViewPath::root()
            };
            let between = base.join(&name);
            self.rename(&found, &from, &between)?;
            later.insert(to, (between, found));
        }
        Ok(later)
    }

    fn rename(&mut self, found: &Found, from: &ViewPath, to: &ViewPath) -> Result<()> {
        self.view.writable(&found.node)?;
        let before = self.snapshot(found, true)?;
        let unversioned = found.class.unversioned;
        let (Some(place), Some(old)) = (self.view.place_of(to, unversioned), self.view.place_of(from, unversioned))
        else {
            return Err(ViewError::ReadOnly(to.clone()));
        };
        let after = (before.state.clone(), None);
        self.plan.push(
            &place,
            ChangeKind::Rename,
            before.id,
            Some(&found.node),
            Some(old.path),
            Some(&before),
            Some(after),
        );
        self.moved_from.entry(from.clone()).or_default().push(self.moved.len());
        self.moved.push((from.clone(), to.clone()));
        self.taken.insert(from.clone());
        self.put.insert(to.clone());
        Ok(())
    }

    /// Makes what shall stand at one path.
    fn stand(
        &mut self,
        path: &ViewPath,
        made: &mut BTreeMap<NodeId, ViewPath>,
        links: &mut Vec<ViewPath>,
    ) -> Result<()> {
        let Some(wanted) = self.wanted.get(path).cloned().filter(|wanted| !wanted.absent) else { return Ok(()) };
        let Some((node, mut state)) = wanted.state else { return Ok(()) };
        let now = match &wanted.now {
            Some(now) => self.look(now)?,
            None => self.occupant(path)?,
        };
        if let Some(bytes) = self.merged.get(path) {
            let (hash, _) = self.view.core.store.put_blob(bytes)?;
            (state.content, state.size, state.mtime) = (Content::Blob(hash), bytes.len() as u64, Timestamp::now());
        }
        let is_file = state.kind == Kind::File;
        if now.is_none() && state.kind != Kind::Dir {
            // Another name of a file that comes back, or that lived on when this name went.
            let lives =
                (state.nlink > 1 || matches!(state.content, Content::Live(_))) && self.lives(path, &wanted.key)?;
            if made.contains_key(&node) || lives || (is_file && matches!(state.content, Content::Live(_))) {
                links.push(path.clone());
                return Ok(());
            }
        }
        match now {
            Some(found) if found.attr.kind == state.kind => self.change_to(path, &found, node, state)?,
            Some(found) => {
                if found.attr.kind == Kind::Dir && !self.view.entries_of(&found)?.is_empty() {
                    self.unmet(path, ConflictCode::Occupied, "a directory that is not empty stands there now");
                    return Ok(());
                }
                self.remove(&found)?;
                self.create(path, node, state)?;
            }
            None => self.create(path, node, state)?,
        }
        made.insert(node, path.clone());
        Ok(())
    }

    /// A name in the source that a file will have when moves and removals are done. `None` where it can be opened by handle.
    fn other_name(&mut self, source: &Arc<Source>, key: &NodeKey) -> Result<Option<ViewPath>> {
        if source.fs.caps().handles {
            return Ok(None);
        }
        let linked = match self.linked.entry(source.id) {
            Entry::Vacant(entry) => entry.insert(source.linked_names()?),
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let names = linked.get(key).map(Vec::as_slice).unwrap_or_default();
        let stays = names
            .iter()
            .filter_map(|name| self.view.place(source.id, name))
            .find(|name| !name.ancestors().any(|here| self.gone.contains(&here)));
        let then = stays.map(|name| self.after_moves(&name));
        Ok(then.and_then(|name| self.view.locate(&name).map(|(_, below)| below)))
    }

    /// Does an inode still stand somewhere, by the log and by the host? (One in `aside/` does not.)
    fn lives(&mut self, path: &ViewPath, key: &Option<NodeKey>) -> Result<bool> {
        let (Some(key), Some((source, _))) = (key, self.view.locate(path)) else { return Ok(false) };
        if !source.fs.caps().handles {
            return Ok(self.other_name(source, key)?.is_some());
        }
        if !source.lives(key) {
            return Ok(false);
        }
        let Some((node, _)) = self.view.core.store.head(key)? else { return Ok(true) };
        let query = HistoryQuery { node: Some(node), limit: 1, ..HistoryQuery::default() };
        let last = self.view.core.store.history(&query)?.operations.into_iter().next();
        let last = last.and_then(|operation| operation.changes.into_iter().rev().find(|change| change.node == node));
        // Its last name went: what still exists of it is ours, in `aside/`.
        let gone = last.is_some_and(|change| {
            change.kind == ChangeKind::Remove && change.before.is_none_or(|before| before.nlink <= 1)
        });
        Ok(!gone)
    }

    /// What will stand at a path when moves and removals are done, before anything is put there.
    fn occupant(&self, path: &ViewPath) -> Result<Option<Found>> {
        let stands = self.before_moves(path);
        if self.taken.contains(&stands) { Ok(None) } else { self.look(&stands) }
    }

    /// Where something that will be carried to `path` by a directory's move stands now.
    fn before_moves(&self, path: &ViewPath) -> ViewPath {
        let mut above = path.parent();
        while let Some(dir) = above {
            if let Some(now) =
                self.wanted.get(&dir).filter(|wanted| !wanted.absent).and_then(|wanted| wanted.now.as_ref())
                && let Some(rest) = path.strip_prefix(&dir)
            {
                return now.join_path(&rest);
            }
            above = dir.parent();
        }
        path.clone()
    }

    fn create(&mut self, path: &ViewPath, node: NodeId, state: State) -> Result<()> {
        let class = self.view.may_create(path, state.kind == Kind::Dir)?;
        self.ready_parent(path)?;
        let place = self.view.place_of(path, class.unversioned).ok_or_else(|| ViewError::ReadOnly(path.clone()))?;
        let after = State { nlink: 1, ..state };
        self.plan.push(&place, ChangeKind::Create, node, None, None, None, Some((after, None)));
        self.put.insert(path.clone());
        Ok(())
    }

    /// Is something put at `path`, or at a directory above it, by what is planned?
    fn puts(&self, path: &ViewPath) -> bool {
        path.ancestors().any(|dir| self.put.contains(&dir))
    }

    /// Makes the directories above a path that somebody else removed.
    fn ready_parent(&mut self, path: &ViewPath) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if self.puts(&parent) || self.look(&parent)?.is_some() {
            return Ok(());
        }
        self.view.plan_parents(self.request, &mut self.plan, &parent)?;
        self.put.insert(parent);
        Ok(())
    }

    fn change_to(&mut self, path: &ViewPath, found: &Found, node: NodeId, mut state: State) -> Result<()> {
        self.view.writable(&found.node)?;
        let place =
            self.view.place_of(path, found.class.unversioned).ok_or_else(|| ViewError::ReadOnly(path.clone()))?;
        let attr = found.node.file.host.attr()?;
        let meta_differs = (state.mode, state.uid, state.gid) != (attr.mode, attr.uid, attr.gid)
            || state.xattrs != self.view.xattrs_of(&found.node)?
            || (state.mtime != attr.mtime && state.kind != Kind::Dir);
        let same_content = match (&state.content, state.kind) {
            (Content::Live(_), _) | (_, Kind::Dir) => true,
            (Content::Target(target), Kind::Symlink) => *target == self.view.target_of(found)?,
            (content, Kind::File) => {
                let reading = self.view.reading(&found.node, found.path.clone())?;
                let hash = match content {
                    Content::Blob(hash) => Some(*hash),
                    Content::None | Content::Target(_) | Content::Aside(_) | Content::Live(_) | Content::Lost(_) => {
                        None
                    }
                };
                hash.is_some() && hash == Some(self.view.hash(&reading)?)
            }
            (_, Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice) => {
                state.rdev == attr.rdev
            }
        };
        if same_content && !meta_differs {
            return Ok(());
        }
        if !same_content && state.kind != Kind::File {
            self.remove(found)?;
            return self.create(path, node, state);
        }
        let before = self.snapshot(found, same_content)?;
        let kind = if same_content { ChangeKind::Meta } else { ChangeKind::Write };
        if same_content {
            state.content.clone_from(&before.state.content);
            state.size = before.state.size;
        }
        state.nlink = before.state.nlink;
        self.plan.push(&place, kind, before.id, Some(&found.node), None, Some(&before), Some((state, None)));
        Ok(())
    }

    /// A name more for a file that another path has again, or has still.
    fn link(&mut self, path: &ViewPath, made: &BTreeMap<NodeId, ViewPath>) -> Result<()> {
        let Some((node, state)) = self.wanted.get(path).and_then(|wanted| wanted.state.clone()) else { return Ok(()) };
        let key = self.wanted.get(path).and_then(|wanted| wanted.key.clone());
        let class = self.view.may_create(path, false)?;
        let place = self.view.place_of(path, class.unversioned).ok_or_else(|| ViewError::ReadOnly(path.clone()))?;
        let from = match made.get(&node) {
            Some(other) => {
                self.view.locate(other).filter(|(source, _)| Arc::ptr_eq(source, &place.source)).map(|(_, at)| at)
            }
            None => None,
        };
        let from = match (from, &key) {
            (None, Some(key)) => self.other_name(&place.source, key)?,
            (from, _) => from,
        };
        if from.is_none() && !self.lives(path, &key)? {
            self.unmet(path, ConflictCode::Unavailable, "the file it was a name of is gone");
            return Ok(());
        }
        let by_key = from.is_none();
        self.plan.push(&place, ChangeKind::Link, node, None, from, None, Some((state, None)));
        if by_key && let Some(step) = self.plan.steps.last_mut() {
            step.change.key = key;
        }
        Ok(())
    }
}

/// Does one move stand in another's way, or carry its end along?
fn entangled(moves: &[(ViewPath, ViewPath)]) -> bool {
    let mut from_at: HashMap<&ViewPath, usize> = HashMap::new();
    for (at, (from, _)) in moves.iter().enumerate() {
        if from_at.insert(from, at).is_some() {
            return true;
        }
    }
    let other =
        |path: &ViewPath, at: usize| path.ancestors().any(|dir| from_at.get(&dir).is_some_and(|found| *found != at));
    moves.iter().enumerate().any(|(at, (from, to))| other(from, at) || other(to, at))
}
