//! A walk over what stood below a directory at an earlier moment: what stands there now and was not touched since, as it is;
//! what was touched, and what went away or elsewhere, as the history knows it. Ignore rules are those of today.

use std::collections::{BTreeSet, HashMap};

use super::{
    Found, Past, Reading, Result, View, ViewError, WalkControl, WalkEntry, WalkOptions, Walked,
    history::{At, ViewQuery},
    net::Net,
    resolve::Follow,
};
use crate::{
    search::IgnoreRules,
    types::{Kind, Lsn, OpId, ViewPath},
    versions::Bound,
};

/// What is known of a moment, as far as it concerns one directory.
pub struct Then {
    /// The last operation before it.
    pub op: OpId,
    start: ViewPath,
    /// The history was looked at up to here.
    known: Lsn,
    /// Paths at which something else stands now, or nothing: of what is below them nothing is known by what is there.
    elsewhere: BTreeSet<ViewPath>,
    /// Paths of which the content or metadata changed.
    changed: BTreeSet<ViewPath>,
    /// Files that may have stood where no walk of today meets them.
    apart: BTreeSet<ViewPath>,
}

/// What a walk into the past met.
pub enum MetThen<'a> {
    /// It stands there now, as it stood then; a directory perhaps only now.
    Same(&'a WalkEntry),
    /// A file that may have stood there: [`View::open_then`] tells.
    Perhaps(&'a ViewPath),
}

/// A file as it was.
pub enum PastFile {
    /// It is the same now.
    Live(Reading),
    /// A content that the store keeps.
    Kept(Vec<u8>),
}

impl View {
    /// Looks at a directory as it was. `None` if it was a file.
    ///
    /// # Errors
    /// `NotFound` if there was neither; `VersionNotFound`; the store's.
    pub fn then(&self, start: &ViewPath, at: &At, options: &WalkOptions) -> Result<Option<Then>> {
        self.core.catch_up();
        let op = self.moment(at)?;
        let kind = match self.past_at(start, op)? {
            _ if start.is_root() => Kind::Dir,
            Past::Absent => return Err(ViewError::NotFound(start.clone())),
            Past::Now(found) => found.attr.kind,
            Past::Was(state) => state.kind,
        };
        match kind {
            Kind::Dir => {}
            Kind::File => return Ok(None),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                return Err(ViewError::NotAFile(start.clone()));
            }
        }
        let known = self.core.recorded_up_to();
        let mut net = Net::default();
        let query = ViewQuery { since: Some(Bound::Op(op)), ..ViewQuery::default() };
        self.each_operation(query, &mut |operation| {
            for change in operation.changes.iter().rev() {
                net.undo(operation.op, change);
            }
        })?;
        let mut then = Then {
            op,
            start: start.clone(),
            known,
            elsewhere: net.gone.clone(),
            changed: BTreeSet::new(),
            apart: BTreeSet::new(),
        };
        let mut apart = BTreeSet::new();
        for (path, wanted) in &net.wanted {
            if wanted.now.as_ref() == Some(path) && !wanted.absent {
                then.changed.insert(path.clone());
                continue;
            }
            then.elsewhere.insert(path.clone());
            if wanted.absent {
                continue;
            }
            match &wanted.now {
                Some(now) => self.stood_apart(start, path, now, &mut apart)?,
                None if path.starts_with(start) => drop(apart.insert(path.clone())),
                None => {}
            }
        }
        then.apart = self.would_be_met(start, apart, options)?;
        Ok(Some(then))
    }

    /// What stands at or below `now` and stood at or below `was`, as far as that was below `start`.
    fn stood_apart(
        &self,
        start: &ViewPath,
        was: &ViewPath,
        now: &ViewPath,
        apart: &mut BTreeSet<ViewPath>,
    ) -> Result<()> {
        let (base, now) = match (was.starts_with(start), start.strip_prefix(was)) {
            (true, _) => (was, now.clone()),
            (false, Some(rest)) => (start, now.join_path(&rest)),
            (false, None) => return Ok(()),
        };
        let found = match self.find(&now, Follow::No) {
            Ok(found) => found,
            Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if found.attr.kind != Kind::Dir {
            apart.insert(base.clone());
            return Ok(());
        }
        let everything =
            WalkOptions { depth: usize::MAX, hidden: true, ignored: true, traversal: None, attrs: false, after: None };
        self.walk(&now, &everything, &mut |entry| {
            if entry.kind != Kind::Dir
                && let Some(rest) = entry.path.strip_prefix(&now)
            {
                apart.insert(base.join_path(&rest));
            }
            WalkControl::Continue
        })?;
        Ok(())
    }

    /// Those that a walk with these options would meet.
    fn would_be_met(
        &self,
        start: &ViewPath,
        mut paths: BTreeSet<ViewPath>,
        options: &WalkOptions,
    ) -> Result<BTreeSet<ViewPath>> {
        let mut rules: HashMap<ViewPath, IgnoreRules> = HashMap::new();
        let mut failed = None;
        paths.retain(|path| {
            let Some(below) = path.strip_prefix(start) else { return false };
            let names: Vec<_> = below.components().collect();
            if names.len() > options.depth
                || (!options.hidden && names.iter().any(|name| name.as_bytes().first() == Some(&b'.')))
            {
                return false;
            }
            if options.ignored {
                return true;
            }
            if names.iter().any(|name| name.as_bytes() == b".git") {
                return false;
            }
            let dir = path.parent().unwrap_or_default();
            let known = match rules.get(&dir) {
                Some(known) => known.clone(),
                None => match self.rules_near(&dir) {
                    Ok(found) => rules.entry(dir).or_insert(found).clone(),
                    Err(error) => {
                        failed = Some(error);
                        return false;
                    }
                },
            };
            !known.is_ignored(path, false)
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(paths),
        }
    }

    /// The ignore rules of the nearest directory at or above `dir` that there is.
    fn rules_near(&self, dir: &ViewPath) -> Result<IgnoreRules> {
        let mut at = dir.clone();
        let found: Found = loop {
            match self.find(&at, Follow::No) {
                Ok(found) if found.attr.kind == Kind::Dir => break found,
                Ok(_) | Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => {
                    at = at.parent().unwrap_or_default();
                }
                Err(error) => return Err(error),
            }
        };
        self.rules_of(&found)
    }

    /// Walks over what stood there, in the byte order of whole paths.
    ///
    /// # Errors
    /// The host's.
    pub fn walk_then(
        &self,
        then: &Then,
        options: &WalkOptions,
        visit: &mut dyn FnMut(MetThen<'_>) -> WalkControl,
    ) -> Result<Walked> {
        let behind = |path: &&ViewPath| options.after.as_ref().is_none_or(|after| *path > after);
        let mut apart = then.apart.iter().filter(behind).peekable();
        let walk = self.walk(&then.start, options, &mut |entry| {
            while let Some(path) = apart.next_if(|path| **path < entry.path) {
                if visit(MetThen::Perhaps(path)) == WalkControl::Stop {
                    return WalkControl::Stop;
                }
            }
            let is_apart = apart.next_if(|path| **path == entry.path).is_some();
            let is_dir = entry.kind == Kind::Dir;
            if is_apart || (!is_dir && then.touches(&entry.path)) {
                let control = visit(MetThen::Perhaps(&entry.path));
                if !is_dir || control == WalkControl::Stop {
                    return control;
                }
            }
            visit(MetThen::Same(entry))
        });
        let mut walked = match walk {
            Ok(walked) => walked,
            // All of it is gone.
            Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => Walked::default(),
            Err(error) => return Err(error),
        };
        if !walked.stopped && !walked.traversal_cut {
            walked.stopped = apart.any(|path| visit(MetThen::Perhaps(path)) == WalkControl::Stop);
        }
        Ok(walked)
    }

    /// What was the same when the moment was looked at still is: nothing was recorded since, and everything is.
    pub fn is_still(&self, then: &Then) -> bool {
        self.core.recorded_up_to() == then.known && self.is_recorded_beside()
    }

    /// Opens a file as it was.
    ///
    /// # Errors
    /// `NotFound` if there was none; `NotAFile`; `VersionPruned`, `TooLarge`; the host's; the store's.
    pub fn open_then(&self, path: &ViewPath, op: OpId, limit: u64) -> Result<PastFile> {
        let _tree = self.core.tree.read();
        match self.past_locked(path, op)? {
            Past::Absent => Err(ViewError::NotFound(path.clone())),
            Past::Now(found) if found.attr.kind == Kind::File => {
                Ok(PastFile::Live(self.reading(&found.node, path.clone())?))
            }
            Past::Was(state) if state.kind == Kind::File => Ok(PastFile::Kept(self.state_bytes(path, &state, limit)?)),
            Past::Now(_) | Past::Was(_) => Err(ViewError::NotAFile(path.clone())),
        }
    }
}

impl Then {
    fn touches(&self, path: &ViewPath) -> bool {
        path.ancestors().any(|here| self.elsewhere.contains(&here)) || self.changed.contains(path)
    }
}
