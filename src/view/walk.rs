//! Walks over what a view shows: sorted, filtered entry by entry, without following symlinks, and stopped at any moment.

use std::sync::Arc;

use super::{Follow, Found, Result, View, ViewError, node::Node};
use crate::{
    host::{self, Errno},
    search::IgnoreRules,
    types::{Attr, EntryName, Kind, ViewPath},
};
use rustix::fs::OFlags;
use std::os::fd::{AsFd, OwnedFd};

/// How to walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Levels below the start; 1 is its own entries.
    pub depth: usize,
    /// Show names that begin with a dot.
    pub hidden: bool,
    /// Show what ignore rules hide.
    pub ignored: bool,
    /// Entries looked at, at most.
    pub traversal: Option<usize>,
    /// Attributes of each entry are wanted (a system call each).
    pub attrs: bool,
    /// Go on behind this path, as if all up to it had been met; nothing of that counts.
    pub after: Option<ViewPath>,
}

/// One entry met.
#[derive(Clone)]
pub struct WalkEntry {
    /// Its path in the view.
    pub path: ViewPath,
    /// 1 for the start's own entries.
    pub depth: usize,
    /// Its type.
    pub kind: Kind,
    /// Its attributes, if they were asked for.
    pub attr: Option<Attr>,
    dir: Arc<Node>,
}

/// A file met on a walk, open for reading.
pub struct MetFile {
    /// Its attributes when it was opened.
    pub attr: Attr,
    fd: OwnedFd,
}

impl MetFile {
    /// Reads at an offset; short only at the end.
    ///
    /// # Errors
    /// The host's.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(host::read_exact_at(self.fd.as_fd(), buf, offset)?)
    }

    /// Its attributes now.
    ///
    /// # Errors
    /// The host's.
    pub fn attr_now(&self) -> Result<Attr> {
        Ok(host::stat(self.fd.as_fd())?)
    }
}

/// What to do after an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkControl {
    /// Go on, into it if it is a directory.
    Continue,
    /// Do not go into this directory.
    Skip,
    /// End the walk.
    Stop,
}

/// How a walk went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Walked {
    /// Entries looked at.
    pub traversed: usize,
    /// A directory was not entered because it lay too deep.
    pub depth_cut: bool,
    /// The budget of entries ran out.
    pub traversal_cut: bool,
    /// The visitor ended it.
    pub stopped: bool,
    /// Entries that ignore rules hid.
    pub ignored: usize,
    /// The last entry looked at.
    pub last: Option<ViewPath>,
    /// Places that could not be read, with the reason.
    pub warnings: Vec<String>,
}

/// What came of one entry.
enum Met {
    Passed,
    /// To be entered.
    Dir(Arc<Node>),
    End,
}

/// Does anything below directory `dir` come behind `after`, which does not come before `dir`?
fn goes_on_below(dir: &ViewPath, after: &ViewPath) -> bool {
    let below = [dir.as_bytes(), b"/"].concat();
    after.as_bytes().starts_with(&below) || below.as_slice() > after.as_bytes()
}

impl View {
    /// Walks below a directory: in the byte order of whole paths, so that what is in `a` comes after `a.txt`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory` for the start; trouble further down becomes a warning.
    pub fn walk(
        &self,
        start: &ViewPath,
        options: &WalkOptions,
        visit: &mut dyn FnMut(&WalkEntry) -> WalkControl,
    ) -> Result<Walked> {
        let found = self.find(start, Follow::Yes)?;
        if found.attr.kind != Kind::Dir {
            return Err(ViewError::NotADirectory(found.path));
        }
        let rules = if options.ignored { IgnoreRules::default() } else { self.rules_above(&found)? };
        let mut walked = Walked::default();
        self.walk_dir(&found.node, &found.path, 1, &rules, options, visit, &mut walked);
        Ok(walked)
    }

    #[expect(clippy::too_many_arguments, reason = "one recursion, whose state has no meaning of its own")]
    fn walk_dir(
        &self,
        dir: &Arc<Node>,
        path: &ViewPath,
        depth: usize,
        rules: &IgnoreRules,
        options: &WalkOptions,
        visit: &mut dyn FnMut(&WalkEntry) -> WalkControl,
        walked: &mut Walked,
    ) -> bool {
        let mut entries = Vec::new();
        if let Err(error) = self.list_node(dir, &mut |name, kind| entries.push((name, kind))) {
            walked.warnings.push(format!("{path}: {error}"));
            return true;
        }
        entries.sort();
        let below;
        let rules = if options.ignored {
            rules
        } else {
            below = self.rules_in(dir, path, rules, &entries);
            &below
        };
        // Directories met and not entered yet: their contents come behind siblings that are less than their path and `/`.
        let mut waiting: Vec<(Vec<u8>, Arc<Node>, ViewPath)> = Vec::new();
        for (name, kind) in entries {
            while let Some((_, node, below)) = waiting.pop_if(|(key, _, _)| key.as_slice() < name.as_bytes()) {
                if !self.walk_dir(&node, &below, depth + 1, rules, options, visit, walked) {
                    return false;
                }
            }
            match self.meet(dir, path, &name, kind, depth, rules, options, visit, walked) {
                Met::Passed => {}
                Met::End => return false,
                Met::Dir(node) if depth >= options.depth => {
                    walked.depth_cut = walked.depth_cut || self.shows_any(&node, &path.join(&name), rules, options);
                }
                Met::Dir(node) => waiting.push(([name.as_bytes(), b"/"].concat(), node, path.join(&name))),
            }
        }
        while let Some((_, node, below)) = waiting.pop() {
            if !self.walk_dir(&node, &below, depth + 1, rules, options, visit, walked) {
                return false;
            }
        }
        true
    }

    /// One entry of a directory.
    #[expect(clippy::too_many_arguments, reason = "one step of a recursion, whose state has no meaning of its own")]
    fn meet(
        &self,
        dir: &Arc<Node>,
        path: &ViewPath,
        name: &EntryName,
        kind: Kind,
        depth: usize,
        rules: &IgnoreRules,
        options: &WalkOptions,
        visit: &mut dyn FnMut(&WalkEntry) -> WalkControl,
        walked: &mut Walked,
    ) -> Met {
        if !options.hidden && name.as_bytes().first() == Some(&b'.') {
            return Met::Passed;
        }
        let child = path.join(name);
        let was_met = options.after.as_ref().is_some_and(|after| child <= *after);
        let is_dir = kind == Kind::Dir;
        if was_met && !(is_dir && options.after.as_ref().is_some_and(|after| goes_on_below(&child, after))) {
            return Met::Passed;
        }
        if !was_met {
            if options.traversal.is_some_and(|budget| walked.traversed >= budget) {
                walked.traversal_cut = true;
                return Met::End;
            }
            walked.traversed += 1;
        }
        if !options.ignored && (name.as_bytes() == b".git" || rules.is_ignored(&child, is_dir)) {
            if !was_met {
                walked.ignored += 1;
                walked.last = Some(child);
            }
            return Met::Passed;
        }
        let node = if is_dir || options.attrs {
            let _tree = self.core.tree.read();
            match self.child(dir, name) {
                Ok(found) => Some(found),
                Err(ViewError::NotFound(_)) => return Met::Passed,
                Err(error) => {
                    walked.warnings.push(format!("{child}: {error}"));
                    return Met::Passed;
                }
            }
        } else {
            None
        };
        let attr = node.as_ref().map(|(node, attr)| self.show(node, *attr).attr);
        let kind = attr.map_or(kind, |attr| attr.kind);
        if !was_met {
            walked.last = Some(child.clone());
            let attr = attr.filter(|_| options.attrs);
            let entry = WalkEntry { path: child, depth, kind, attr, dir: Arc::clone(dir) };
            match visit(&entry) {
                WalkControl::Continue => {}
                WalkControl::Skip => return Met::Passed,
                WalkControl::Stop => {
                    walked.stopped = true;
                    return Met::End;
                }
            }
        }
        match node {
            Some((node, _)) if kind == Kind::Dir => Met::Dir(node),
            Some(_) | None => Met::Passed,
        }
    }

    /// Opens a regular file that a walk met, without looking its path up again.
    ///
    /// # Errors
    /// `NotFound` if it went away; `NotAFile`; the host's.
    pub fn open_met(&self, entry: &WalkEntry) -> Result<MetFile> {
        if entry.kind != Kind::File {
            return Err(ViewError::NotAFile(entry.path.clone()));
        }
        let name = entry.path.file_name().ok_or_else(|| ViewError::IsADirectory(entry.path.clone()))?;
        let dir = entry.dir.file.host.path_fd()?;
        let fd = match host::open_file_at(dir.as_fd(), &name) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::XDEV) => return Err(ViewError::NotFound(entry.path.clone())),
            Err(error) => return Err(error.into()),
        };
        let attr = host::stat(fd.as_fd())?;
        if attr.kind != Kind::File {
            return Err(ViewError::NotAFile(entry.path.clone()));
        }
        Ok(MetFile { attr, fd })
    }

    /// The entries of a directory that the view shows, by a stream of this call's own.
    pub(crate) fn list_node(&self, dir: &Arc<Node>, each: &mut dyn FnMut(EntryName, Kind)) -> Result<()> {
        if self.is_multi() && View::is_root(dir) {
            for source in &self.sources {
                each(source.name.clone(), Kind::Dir);
            }
            return Ok(());
        }
        let path = dir.path().unwrap_or_default();
        let policy = self.policy();
        let uniform = policy.is_uniform();
        let dev = dir.file.host.fs().dev();
        let fd = dir.file.host.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        host::DirStream::new(fd).read(0, &mut |entry| {
            let hidden = entry.name.as_bytes().starts_with(super::lookup::STAGE_PREFIX)
                || self.is_hidden_inode(dev, entry.ino)
                || (!uniform && policy.class(&path.join(&entry.name), entry.kind == Kind::Dir).is_none());
            if !hidden {
                each(entry.name, entry.kind);
            }
            true
        })?;
        Ok(())
    }

    /// Would a walk into this directory meet anything?
    fn shows_any(&self, dir: &Arc<Node>, path: &ViewPath, rules: &IgnoreRules, options: &WalkOptions) -> bool {
        let mut entries = Vec::new();
        // Unreadable is as good as empty here: the walk would have warned.
        let _ = self.list_node(dir, &mut |name, kind| entries.push((name, kind)));
        let below;
        let rules = if options.ignored {
            rules
        } else {
            below = self.rules_in(dir, path, rules, &entries);
            &below
        };
        entries.iter().any(|(name, kind)| {
            let name_shown = options.hidden || name.as_bytes().first() != Some(&b'.');
            let is_ignored = || name.as_bytes() == b".git" || rules.is_ignored(&path.join(name), *kind == Kind::Dir);
            name_shown && (options.ignored || !is_ignored())
        })
    }

    /// The ignore rules of all directories from the root down to, and without, `found`.
    fn rules_above(&self, found: &Found) -> Result<IgnoreRules> {
        let mut rules = IgnoreRules::default();
        let mut at = ViewPath::root();
        for name in found.path.components() {
            let dir = self.find(&at, Follow::No)?;
            let mut entries = Vec::new();
            self.list_node(&dir.node, &mut |name, kind| entries.push((name, kind)))?;
            rules = self.rules_in(&dir.node, &at, &rules, &entries);
            at.push(&name);
        }
        Ok(rules)
    }

    /// The ignore rules in a directory, for what is in it.
    pub(super) fn rules_of(&self, dir: &Found) -> Result<IgnoreRules> {
        let mut entries = Vec::new();
        self.list_node(&dir.node, &mut |name, kind| entries.push((name, kind)))?;
        Ok(self.rules_in(&dir.node, &dir.path, &self.rules_above(dir)?, &entries))
    }

    fn rules_in(
        &self,
        dir: &Arc<Node>,
        path: &ViewPath,
        above: &IgnoreRules,
        entries: &[(EntryName, Kind)],
    ) -> IgnoreRules {
        let has = |wanted: &[u8]| entries.iter().any(|(name, _)| name.as_bytes() == wanted);
        let read = |name: &[u8]| -> Option<Vec<u8>> {
            if !has(name) {
                return None;
            }
            self.read_small(dir, &EntryName::new(name).ok()?)
        };
        let (gitignore, ignore) = (read(b".gitignore"), read(b".ignore"));
        let exclude = has(b".git").then(|| self.read_exclude(dir)).flatten();
        if gitignore.is_none() && ignore.is_none() && exclude.is_none() {
            return above.clone();
        }
        above.descend(path, gitignore.as_deref(), ignore.as_deref(), exclude.as_deref())
    }

    fn read_exclude(&self, dir: &Arc<Node>) -> Option<Vec<u8>> {
        let mut at = Arc::clone(dir);
        for name in [&b".git"[..], b"info"] {
            let _tree = self.core.tree.read();
            at = self.child(&at, &EntryName::new(name).ok()?).ok()?.0;
        }
        self.read_small(&at, &EntryName::new(b"exclude").ok()?)
    }

    /// A small file of ignore rules; none if it cannot be read.
    pub(super) fn read_small(&self, dir: &Arc<Node>, name: &EntryName) -> Option<Vec<u8>> {
        let (node, _) = {
            let _tree = self.core.tree.read();
            self.child(dir, name).ok()?
        };
        if node.file.kind != Kind::File {
            return None;
        }
        let fd = node.file.host.open(OFlags::RDONLY).ok()?;
        host::read_whole(fd.as_fd(), 1 << 20).ok().map(|(bytes, _)| bytes)
    }
}
