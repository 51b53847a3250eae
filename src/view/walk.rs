//! Walks over what a view shows: sorted, filtered entry by entry, without following symlinks, and stopped at any moment.

use std::sync::Arc;

use super::{Follow, Found, Result, View, ViewError, node::Node};
use crate::{
    search::IgnoreRules,
    types::{Attr, EntryName, Kind, ViewPath},
};
use rustix::fs::OFlags;
use std::os::fd::AsFd;

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
}

/// One entry met.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// Its path in the view.
    pub path: ViewPath,
    /// 1 for the start's own entries.
    pub depth: usize,
    /// Its type.
    pub kind: Kind,
    /// Its attributes, if they were asked for.
    pub attr: Option<Attr>,
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
    /// Places that could not be read, with the reason.
    pub warnings: Vec<String>,
}

impl View {
    /// Walks below a directory: each directory's entries by name in byte order, a directory before what is in it.
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
        for (name, kind) in entries {
            if !options.hidden && name.as_bytes().first() == Some(&b'.') {
                continue;
            }
            if options.traversal.is_some_and(|budget| walked.traversed >= budget) {
                walked.traversal_cut = true;
                return false;
            }
            walked.traversed += 1;
            let child = path.join(&name);
            if !options.ignored && (name.as_bytes() == b".git" || rules.is_ignored(&child, kind == Kind::Dir)) {
                walked.ignored += 1;
                continue;
            }
            let is_dir = kind == Kind::Dir;
            let node = if is_dir || options.attrs {
                let _tree = self.core.tree.read();
                match self.child(dir, &name) {
                    Ok(found) => Some(found),
                    Err(ViewError::NotFound(_)) => continue,
                    Err(error) => {
                        walked.warnings.push(format!("{child}: {error}"));
                        continue;
                    }
                }
            } else {
                None
            };
            let attr = node.as_ref().map(|(node, attr)| self.show(node, *attr).attr);
            let kind = attr.map_or(kind, |attr| attr.kind);
            let entry = WalkEntry { path: child, depth, kind, attr: attr.filter(|_| options.attrs) };
            match visit(&entry) {
                WalkControl::Continue => {}
                WalkControl::Skip => continue,
                WalkControl::Stop => {
                    walked.stopped = true;
                    return false;
                }
            }
            if let Some((node, _)) = node.filter(|_| kind == Kind::Dir) {
                if depth >= options.depth {
                    walked.depth_cut |= self.has_entries(&node);
                } else if !self.walk_dir(&node, &entry.path, depth + 1, rules, options, visit, walked) {
                    return false;
                }
            }
        }
        true
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
        crate::host::DirStream::new(fd).read(0, &mut |entry| {
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

    fn has_entries(&self, dir: &Arc<Node>) -> bool {
        let mut any = false;
        // Unreadable is as good as empty here: the walk would have warned.
        let _ = self.list_node(dir, &mut |_, _| any = true);
        any
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
    fn read_small(&self, dir: &Arc<Node>, name: &EntryName) -> Option<Vec<u8>> {
        let (node, _) = {
            let _tree = self.core.tree.read();
            self.child(dir, name).ok()?
        };
        if node.file.kind != Kind::File {
            return None;
        }
        let fd = node.file.host.open(OFlags::RDONLY).ok()?;
        crate::host::read_whole(fd.as_fd(), 1 << 20).ok().map(|(bytes, _)| bytes)
    }
}
