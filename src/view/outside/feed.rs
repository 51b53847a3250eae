//! The feed: reports become operations of the channel `external`, soon after what they report, and watchers are woken.
//!
//! A report waits a moment, so that a file that is made, written and closed is one operation. A file that stays open for
//! writing is recorded at intervals. Everything here is bounded: what finds no room is found by looking at all known files.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::super::{Core, View, file::File, node::Node, record::Place, resolve::Follow};
use crate::{
    host::{EntryRef, FileKey, Fs, Seen, What},
    types::{Actor, Channel, EntryName, Kind, ViewPath},
};

/// How long a report waits for what belongs to it.
const SETTLE: Duration = Duration::from_millis(30);
/// A file that is being written and stays open is recorded when it was left alone for so long,
const PAUSE: Duration = Duration::from_millis(500);
/// or after so long at the latest.
const AT_LATEST: Duration = Duration::from_secs(5);
/// Reports that wait, at most: as many as the kernel keeps.
const WAITING_MAX: usize = 16_384;
/// Reports or files dealt with before the next look at what the kernel reports.
const SLICE: usize = 64;
/// Directories remembered as no part of any source.
const FOREIGN_MAX: usize = 8192;
/// Watchers are woken for so many paths a second; beyond that for the directories alone that hold them.
const NUDGES: usize = 100;

/// A report that concerns a source.
pub(super) struct Hint {
    pub fs: Arc<Fs>,
    pub seen: Seen,
    pub actor: Actor,
    due: Instant,
    since: Instant,
}

/// An entry of a directory, in a view that shows it.
pub(super) struct Spot {
    pub view: Arc<View>,
    pub parent: Arc<Node>,
    pub name: EntryName,
    pub place: Place,
}

/// What waits to be recorded.
#[derive(Default)]
pub(super) struct Feed {
    names: VecDeque<Hint>,
    changed: HashMap<FileKey, Hint>,
    /// Files to compare with what the log knows, after reports were lost.
    sweep: Vec<Weak<File>>,
    /// Reports found no room.
    lost: bool,
    /// Where files came from that moved on before they were found.
    pub moved: HashMap<FileKey, EntryRef>,
    /// Files that were gone before they were found.
    pub brief: HashSet<FileKey>,
    foreign: HashSet<FileKey>,
    views: usize,
    nudged: Option<(Instant, usize)>,
}

impl Feed {
    /// When there is something to do, from now.
    pub fn due(&self) -> Option<Duration> {
        if !self.sweep.is_empty() {
            return Some(Duration::ZERO);
        }
        let changed = self.changed.values().map(|hint| hint.due).min();
        let next = self.names.front().map(|hint| hint.due).into_iter().chain(changed).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Takes reports in. What we did ourselves was recorded when it was done.
    pub fn take(&mut self, core: &Core, batch: Vec<Seen>) {
        let ours = std::process::id();
        let views = core.views().len();
        if views != self.views || batch.iter().any(|seen| seen.what.renamed() && seen.what.is_dir()) {
            self.views = views;
            self.foreign.clear();
        }
        for seen in batch.into_iter().filter(|seen| seen.pid != ours) {
            for fs in core.watched(&seen) {
                if self.concerns(core, &fs, &seen) {
                    self.wait(core, fs, seen.clone());
                }
            }
        }
        self.moved.retain(|_, _| self.names.len() < WAITING_MAX);
        if self.brief.len() > WAITING_MAX {
            self.brief.clear();
        }
    }

    /// Reports were lost: all files that somebody refers to are compared with the log.
    pub fn compare_all(&mut self, core: &Core) {
        self.sweep = core.files.all();
    }

    fn concerns(&mut self, core: &Core, fs: &Arc<Fs>, seen: &Seen) -> bool {
        match (&seen.at, &seen.to) {
            (None, None) => core.reported(fs, seen.file.as_deref()).is_some(),
            (at, to) => [at, to].into_iter().flatten().any(|at| self.is_inside(core, fs, &at.dir)),
        }
    }

    fn is_inside(&mut self, core: &Core, fs: &Fs, dir: &[u8]) -> bool {
        let key = fs.key_of(dir);
        if self.foreign.contains(&key) {
            return false;
        }
        let inside = !core.dirs(fs, dir).is_empty();
        if !inside {
            if self.foreign.len() >= FOREIGN_MAX {
                self.foreign.clear();
            }
            self.foreign.insert(key);
        }
        inside
    }

    fn wait(&mut self, core: &Core, fs: Arc<Fs>, seen: Seen) {
        let now = Instant::now();
        let actor = Actor {
            pid: (seen.pid != 0).then_some(seen.pid),
            command: core.actors.command(seen.pid),
            ..Actor::of(Channel::External)
        };
        if self.names.len().max(self.changed.len()) >= WAITING_MAX {
            self.lost = true;
            return;
        }
        let what = seen.what;
        let hint = Hint { fs, seen, actor, due: now + SETTLE, since: now };
        if what.made() || what.removed() || what.renamed() {
            self.names.push_back(hint);
            return;
        }
        let Some(key) = hint.key() else { return };
        let entry = self.changed.entry(key).or_insert(hint);
        entry.seen.what = entry.seen.what.and(what);
        entry.due =
            if what.modified() && !what.closed() { (now + PAUSE).min(entry.since + AT_LATEST) } else { now + SETTLE };
    }

    /// Records all that waits.
    pub fn record_all(&mut self, core: &Core) {
        for hint in self.names.iter_mut().chain(self.changed.values_mut()) {
            hint.due = hint.since;
        }
        while self.due() == Some(Duration::ZERO) {
            self.record(core);
        }
    }

    /// Records some of what is due.
    pub fn record(&mut self, core: &Core) {
        let now = Instant::now();
        let mut told = Vec::new();
        for _ in 0..SLICE {
            if self.names.front().is_none_or(|hint| hint.due > now) {
                break;
            }
            let Some(hint) = self.names.pop_front() else { break };
            // What cannot be looked at now is looked at when it is next touched.
            told.extend(core.record_name(self, &hint).ok().flatten());
        }
        let due: Vec<FileKey> =
            self.changed.iter().filter(|(_, hint)| hint.due <= now).map(|(key, _)| key.clone()).take(SLICE).collect();
        for key in due {
            if let Some(hint) = self.changed.remove(&key) {
                told.extend(core.record_content(&hint).ok().flatten());
            }
        }
        for file in self.sweep.split_off(self.sweep.len().saturating_sub(SLICE)) {
            if let Some(file) = file.upgrade() {
                told.extend(core.compare(&file).ok().flatten());
            }
        }
        if self.lost && self.names.is_empty() {
            self.lost = false;
            self.compare_all(core);
        }
        self.nudge(core, &told);
    }

    /// Wakes watchers in the mounts of all views.
    fn nudge(&mut self, core: &Core, told: &[Place]) {
        if told.is_empty() {
            return;
        }
        let second = self.nudged.filter(|(start, _)| start.elapsed() < Duration::from_secs(1));
        let (start, count) = second.unwrap_or((Instant::now(), 0));
        let count = count + told.len();
        let few = count <= NUDGES;
        self.nudged = Some((start, count));
        for view in core.views() {
            let Some(notify) = view.notify.get() else { continue };
            let of_view = told.iter().filter_map(|place| view.place(place.source.id, &place.path));
            let paths: HashSet<ViewPath> =
                of_view.map(|path| if few { path } else { path.parent().unwrap_or_default() }).collect();
            notify.nudge(paths.into_iter().filter(|path| view.class(path, true).is_some()).collect());
        }
    }
}

impl Hint {
    /// The inode that it is about.
    pub fn key(&self) -> Option<FileKey> {
        let handle = self.seen.file.as_ref().or(self.seen.at.as_ref().map(|at| &at.dir))?;
        Some(self.fs.key_of(handle))
    }

    pub fn what(&self) -> What {
        self.seen.what
    }
}

impl Core {
    /// A directory that a report names, in each view that shows it.
    pub(super) fn dirs(&self, fs: &Fs, handle: &[u8]) -> Vec<(Arc<View>, Arc<Node>)> {
        let views = self.views();
        if let Some(file) = self.reported(fs, Some(handle)) {
            let nodes = file.live_nodes().into_iter().filter(|node| !node.hidden() && node.path().is_some());
            let shown = nodes.filter_map(|node| Some((Arc::clone(views.iter().find(|v| v.id == node.view())?), node)));
            let shown: Vec<_> = shown.collect();
            if !shown.is_empty() {
                return shown;
            }
        }
        let found = views.into_iter().filter_map(|view| {
            let path = view.path_of_dir(fs, handle)?;
            let found = view.find(&path, Follow::No).ok().filter(|found| found.attr.kind == Kind::Dir)?;
            (found.node.file.host.key() == &fs.key_of(handle)).then_some((view, found.node))
        });
        found.collect()
    }

    /// An entry that a report names, in each view that shows it.
    pub(super) fn spots(&self, fs: &Fs, at: &EntryRef, is_dir: bool) -> Vec<Spot> {
        let Some(name) = &at.name else { return Vec::new() };
        let shown = self.dirs(fs, &at.dir).into_iter().filter_map(|(view, parent)| {
            let path = view.path_in(&parent, name).ok()?;
            let class = view.class(&path, is_dir)?;
            let place = view.place_of(&path, class.unversioned)?;
            Some(Spot { view, parent, name: name.clone(), place })
        });
        shown.collect()
    }
}
