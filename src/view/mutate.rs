//! The tools' mutations: each plans its steps under the locks, and has them applied as one.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Done, Expect, Found, NewContent, Request, Result, View, ViewError, WriteFile,
    commit::Told,
    content::only_file,
    file::FileState,
    plan::{Plan, Snapshot, inherited, new_state},
    record::Place,
    resolve::Follow,
};
use crate::{
    crash_point,
    host::Errno,
    types::{EntryName, Hash, Kind, OpId, ViewPath},
    versions::{ChangeKind, Content, Loss, OpKind, Replay},
};

/// How long a mutation waits for somebody who has the file open for writing.
const WRITER_WAIT: Duration = Duration::from_secs(2);
/// How often it looks again meanwhile: after so long at first, then after longer and longer, up to the second.
const WRITER_POLL: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));
/// How often a mutation starts over because names moved between two looks.
const RACES_MAX: usize = 100;

/// Where a file is to be written.
pub(super) enum Target {
    Existing(Found),
    /// Its directory exists.
    Missing(Found, EntryName),
    /// Directories above it are missing, too.
    MissingParents,
}

impl View {
    /// The recorded answer of an idempotent call.
    ///
    /// # Errors
    /// `OperationIdReused` if it was another request.
    pub fn replay(&self, id: &str, request: &Hash) -> Result<Option<Replay>> {
        match self.core.store.replay(&self.name, id)? {
            Some(replay) if replay.request != *request => Err(ViewError::OperationIdReused(id.to_owned())),
            found => Ok(found),
        }
    }

    /// Keeps the answer of an idempotent call.
    ///
    /// # Errors
    /// The store's.
    pub fn answered(&self, id: &str, request: &Hash, op: Option<OpId>, response: &str) -> Result<()> {
        let replay = Replay { op, request: *request, response: Some(response.to_owned()) };
        self.core.store.answered(&self.name, id, &replay)?;
        crash_point!("answer-recorded");
        Ok(())
    }

    /// Runs a mutation; waits for writers, starts over after lost races, and tells the kernel when it is done.
    pub(crate) fn guarded(&self, mut attempt: impl FnMut() -> Result<(Done, Vec<Told>)>) -> Result<Done> {
        self.guarded_while(|_| attempt())
    }

    /// As `guarded`; the attempt is told whether a writer that it meets will be waited for.
    pub(super) fn guarded_while(&self, mut attempt: impl FnMut(bool) -> Result<(Done, Vec<Told>)>) -> Result<Done> {
        let deadline = Instant::now() + WRITER_WAIT;
        let mut races = 0;
        let (mut pause, longest) = WRITER_POLL;
        loop {
            // From the plan to the record nothing that the plan found in the store may be dropped.
            let hold = self.core.store.hold();
            let waits = Instant::now() < deadline;
            let attempted = attempt(waits);
            drop(hold);
            match attempted {
                Ok((done, told)) => {
                    self.tell(&told);
                    crash_point!("told");
                    return Ok(done);
                }
                Err(ViewError::WriterOpen { .. }) if waits => {
                    std::thread::sleep(pause);
                    pause = longest.min(pause * 2);
                }
                Err(ViewError::Host(Errno::AGAIN)) if races < RACES_MAX => races += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes one file.
    ///
    /// # Errors
    /// `HashConflict`, `HashRequired`, `AlreadyExists`, `WriterOpen`, `NotFound`, `ReadOnly`, `CreateDenied`, …
    pub fn write_file(&self, request: &Request, write: WriteFile) -> Result<Done> {
        self.guarded(|| {
            {
                let _tree = self.core.tree.read();
                match self.target(&write.path)? {
                    Target::Existing(found) => return self.write_existing(request, &write, &found),
                    Target::Missing(dir, name) => return self.write_missing(request, &write, &dir, &name),
                    Target::MissingParents => {}
                }
            }
            if !write.parents {
                return Err(ViewError::NotFound(write.path.parent().unwrap_or_default()));
            }
            let _tree = self.core.tree.write();
            let mut plan = Plan::default();
            let parent = write.path.parent().unwrap_or_default();
            let path = self.plan_parents(request, &mut plan, &parent)?.join(&name_of(&write.path)?);
            self.plan_new_file(request, &write, &mut plan, &path, None)?;
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    /// Plans while nothing moves, and commits that.
    pub(super) fn planned(&self, request: &Request, mut make: impl FnMut(&mut Plan) -> Result<()>) -> Result<Done> {
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let mut plan = Plan::default();
            make(&mut plan)?;
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    /// Commits a plan, unless it is a dry run or empty.
    pub(crate) fn finish_plan(&self, request: &Request, kind: OpKind, plan: Plan) -> Result<(Done, Vec<Told>)> {
        if request.dry_run || plan.steps.is_empty() {
            return Ok((plan.unapplied(self), Vec::new()));
        }
        self.commit(request, kind, Vec::new(), plan, None)
    }

    pub(super) fn target(&self, path: &ViewPath) -> Result<Target> {
        match self.find_locked(path, Follow::No) {
            Ok(found) if found.attr.kind == Kind::Symlink => match self.find_locked(path, Follow::Yes) {
                Ok(found) => Ok(Target::Existing(found)),
                // Whether it is missing or hidden is not told; nothing is made through a link.
                Err(error) => Err(error),
            },
            Ok(found) => Ok(Target::Existing(found)),
            Err(ViewError::NotFound(_)) => {
                let Some(parent) = path.parent() else { return Err(ViewError::IsADirectory(path.clone())) };
                match self.find_locked(&parent, Follow::Yes) {
                    Ok(dir) if dir.attr.kind == Kind::Dir => Ok(Target::Missing(dir, name_of(path)?)),
                    Ok(_) => Err(ViewError::NotADirectory(parent)),
                    Err(ViewError::NotFound(_)) => Ok(Target::MissingParents),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn write_existing(&self, request: &Request, write: &WriteFile, found: &Found) -> Result<(Done, Vec<Told>)> {
        let (node, path) = (&found.node, &found.path);
        only_file(found.attr.kind, path)?;
        let dir = self.find_locked(&path.parent().unwrap_or_default(), Follow::No)?;
        let _names = dir.node.file.state.lock();
        let _replacing = self.core.lost.give_way();
        // Under the directory's lock the name cannot move through us any more; it may have moved before.
        if !Arc::ptr_eq(&self.child(&dir.node, &name_of(path)?)?.0.file, &node.file) {
            return Err(Errno::AGAIN.into());
        }
        let mut state = node.file.state.lock();
        self.writable(node)?;
        self.no_writer(path, &state)?;
        let place = self.place_of(path, node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let before = self.snapshot(&place, node, &mut state)?;
        self.check_expected(path, &write.expect, Some((node, &mut state, &before)), request.require_hash)?;
        let mut plan = Plan::default();
        if !self.plan_content(request, &mut plan, write, found, &place, &before)? {
            let same = Some((before.state.clone(), before.bytes.clone()));
            plan.push(&place, ChangeKind::Write, before.id, Some(node), None, Some(&before), same);
            return Ok((plan.unapplied(self), Vec::new()));
        }
        if request.dry_run {
            return Ok((plan.unapplied(self), Vec::new()));
        }
        self.commit(request, OpKind::Edit, Vec::new(), plan, Some((&node.file, &mut state)))
    }

    /// The new content of a file whose state was looked at. False, and nothing planned, if the file is so already.
    pub(super) fn plan_content(
        &self,
        request: &Request,
        plan: &mut Plan,
        write: &WriteFile,
        found: &Found,
        place: &Place,
        before: &Snapshot,
    ) -> Result<bool> {
        let node = &found.node;
        let bytes = Arc::new(match &write.content {
            NewContent::Bytes(bytes) => bytes.clone(),
            NewContent::Rewritten { rewrite, .. } => rewrite(&self.bytes_for_rewrite(&found.path, node, before)?)?,
        });
        let mode = with_execute(before.state.mode, write.executable);
        if before.bytes.as_ref().is_some_and(|old| **old == *bytes) && mode == before.state.mode {
            return Ok(false);
        }
        let content = if place.unversioned { Content::Lost(Loss::Policy) } else { Content::Live(None) };
        let mut after = new_state(Kind::File, mode, (before.state.uid, before.state.gid), bytes.len() as u64, content);
        after.xattrs.clone_from(&before.state.xattrs);
        after.nlink = before.state.nlink;
        if !request.dry_run {
            // Kept even where policy keeps no history: the record must be able to finish the change.
            after.content = self.store_content(place, before.id, &bytes)?;
        }
        plan.push(place, ChangeKind::Write, before.id, Some(node), None, Some(before), Some((after, Some(bytes))));
        Ok(true)
    }

    fn write_missing(
        &self,
        request: &Request,
        write: &WriteFile,
        dir: &Found,
        name: &EntryName,
    ) -> Result<(Done, Vec<Told>)> {
        let _names = dir.node.file.state.lock();
        if self.child(&dir.node, name).is_ok() {
            return Err(Errno::AGAIN.into());
        }
        let mut plan = Plan::default();
        self.plan_new_file(request, write, &mut plan, &dir.path.join(name), Some(dir))?;
        self.finish_plan(request, OpKind::Edit, plan)
    }

    pub(super) fn plan_new_file(
        &self,
        request: &Request,
        write: &WriteFile,
        plan: &mut Plan,
        path: &ViewPath,
        dir: Option<&Found>,
    ) -> Result<()> {
        if matches!(write.content, NewContent::Rewritten { or_empty: false, .. }) {
            return Err(ViewError::NotFound(path.clone()));
        }
        let class = self.may_create(path, false)?;
        self.check_expected(path, &write.expect, None, false)?;
        let bytes = match &write.content {
            NewContent::Bytes(bytes) => bytes.clone(),
            NewContent::Rewritten { rewrite, or_empty: true } => rewrite(&[])?,
            NewContent::Rewritten { or_empty: false, .. } => return Err(ViewError::NotFound(path.clone())),
        };
        let place = self.place_of(path, class.unversioned).ok_or_else(|| ViewError::ReadOnly(path.clone()))?;
        let id = self.core.store.next_node();
        let mode = with_execute(0o644, write.executable);
        let (owner, mode) = match dir {
            Some(dir) => inherited(&dir.attr, request.owner, Kind::File, mode),
            None => (request.owner, mode),
        };
        let content = if request.dry_run { Content::Live(None) } else { self.store_content(&place, id, &bytes)? };
        let after = new_state(Kind::File, mode, owner, bytes.len() as u64, content);
        plan.push(&place, ChangeKind::Create, id, None, None, None, Some((after, Some(Arc::new(bytes)))));
        Ok(())
    }

    /// Plans the directories that are missing on the way to `path`. Returns the path with symlinks resolved.
    pub(crate) fn plan_parents(&self, request: &Request, plan: &mut Plan, path: &ViewPath) -> Result<ViewPath> {
        let mut at = ViewPath::root();
        let mut missing = false;
        let mut above = None;
        for name in path.components() {
            let next = at.join(&name);
            if !missing {
                match self.find_locked(&next, Follow::Yes) {
                    Ok(found) if found.attr.kind == Kind::Dir => {
                        at.clone_from(&found.path);
                        above = Some(found);
                        continue;
                    }
                    Ok(found) => return Err(ViewError::NotADirectory(found.path)),
                    Err(ViewError::NotFound(_)) => missing = true,
                    Err(error) => return Err(error),
                }
            }
            let planned = plan.steps.iter().find(|step| {
                step.change.kind == ChangeKind::Create
                    && self.place(step.source.id, &step.change.path).as_ref() == Some(&next)
            });
            match planned.and_then(|step| step.change.after.as_ref()).map(|after| after.kind) {
                None => self.plan_dir(request, plan, &next, above.as_ref())?,
                Some(Kind::Dir) => {}
                Some(_) => return Err(ViewError::NotADirectory(next)),
            }
            at = next;
        }
        Ok(at)
    }

    fn plan_dir(&self, request: &Request, plan: &mut Plan, path: &ViewPath, above: Option<&Found>) -> Result<()> {
        let class = self.may_create(path, true)?;
        match self.find_locked(path, Follow::No) {
            // A link to something missing, hidden or outside: nothing is made through it.
            Ok(found) if found.attr.kind == Kind::Symlink => return Err(ViewError::NotFound(path.clone())),
            Ok(_) => return Err(ViewError::AlreadyExists(path.clone())),
            Err(_) => {}
        }
        let place = self.place_of(path, class.unversioned).ok_or_else(|| ViewError::ReadOnly(path.clone()))?;
        let (owner, mode) = match above {
            Some(dir) => inherited(&dir.attr, request.owner, Kind::Dir, 0o755),
            None => (request.owner, 0o755),
        };
        let after = new_state(Kind::Dir, mode, owner, 0, Content::None);
        plan.push(&place, ChangeKind::Create, self.core.store.next_node(), None, None, None, Some((after, None)));
        Ok(())
    }

    /// Makes directories; one that is there already is no error.
    ///
    /// # Errors
    /// `AlreadyExists` for something else there; `NotFound` for a missing parent without `parents`.
    pub fn make_dirs(&self, request: &Request, paths: &[ViewPath], parents: bool) -> Result<Done> {
        self.planned(request, |plan| self.plan_dirs(request, plan, paths, parents))
    }

    pub(super) fn plan_dirs(
        &self,
        request: &Request,
        plan: &mut Plan,
        paths: &[ViewPath],
        parents: bool,
    ) -> Result<()> {
        for path in paths {
            match self.find_locked(path, Follow::Yes) {
                Ok(found) if found.attr.kind == Kind::Dir => continue,
                Ok(found) => return Err(ViewError::AlreadyExists(found.path)),
                Err(ViewError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            let parent = path.parent().unwrap_or_default();
            let made =
                plan.steps.iter().any(|step| self.place(step.source.id, &step.change.path).as_ref() == Some(&parent));
            if !parents && !made {
                self.find_locked(&parent, Follow::Yes)?;
            }
            self.plan_parents(request, plan, path)?;
        }
        Ok(())
    }

    /// Removes files and directories.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty` without `recursive`, `HashConflict`, `Unversionable` (named, nothing removed), `ReadOnly`.
    pub fn remove(&self, request: &Request, targets: &[(ViewPath, Expect)], recursive: bool) -> Result<Done> {
        self.planned(request, |plan| self.plan_removals(request, plan, targets, recursive))
    }

    pub(super) fn plan_removals(
        &self,
        request: &Request,
        plan: &mut Plan,
        targets: &[(ViewPath, Expect)],
        recursive: bool,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        for (path, expect) in targets {
            let found = self.find_locked(path, Follow::No)?;
            self.plan_removal(request, plan, &found, expect, recursive, &mut seen)?;
        }
        Ok(())
    }

    /// Plans the removal of one path, and of all below it.
    pub(crate) fn plan_removal(
        &self,
        request: &Request,
        plan: &mut Plan,
        found: &Found,
        expect: &Expect,
        recursive: bool,
        seen: &mut HashSet<ViewPath>,
    ) -> Result<()> {
        if found.path.is_root() || (self.is_multi() && found.path.depth() == 1) {
            return Err(ViewError::InvalidArgument(format!(
                "{} is a root of the view and cannot be removed",
                found.path
            )));
        }
        if !seen.insert(found.path.clone()) {
            return Ok(());
        }
        self.writable(&found.node)?;
        if found.attr.kind == Kind::Dir {
            let shown = self.entries_of(found)?;
            if (!recursive && !shown.is_empty()) || self.has_hidden(found, shown.len())? {
                return Err(ViewError::NotEmpty(found.path.clone()));
            }
            for name in shown {
                let child = self.find_locked(&found.path.join(&name), Follow::No)?;
                self.plan_removal(request, plan, &child, &Expect::Any, recursive, seen)?;
            }
        }
        let before = self.plan_snapshot(found)?;
        let mut state = found.node.file.state.lock();
        let require = request.require_hash && !recursive;
        self.check_expected(&found.path, expect, Some((&found.node, &mut state, &before)), require)?;
        let place = self.place_of(&found.path, found.node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        plan.push(&place, ChangeKind::Remove, before.id, Some(&found.node), None, Some(&before), None);
        Ok(())
    }

    /// A snapshot of something found, for a plan under the tree lock. The file has no writer.
    pub(crate) fn plan_snapshot(&self, found: &Found) -> Result<Snapshot> {
        let mut state = found.node.file.state.lock();
        self.no_writer(&found.path, &state)?;
        self.snapshot_of(found, &mut state, false)
    }

    /// As `plan_snapshot`, for a file that only moves: its content stays where it is.
    pub(crate) fn plan_snapshot_kept(&self, found: &Found) -> Result<Snapshot> {
        let mut state = found.node.file.state.lock();
        self.no_writer(&found.path, &state)?;
        self.snapshot_of(found, &mut state, true)
    }

    fn snapshot_of(&self, found: &Found, state: &mut FileState, stays: bool) -> Result<Snapshot> {
        let place = self.place_of(&found.path, found.node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        if !stays {
            return self.snapshot(&place, &found.node, state);
        }
        let attr = found.node.file.host.attr()?;
        let before = self.before(&place, &found.node, state, &attr, false)?;
        Ok(Snapshot { id: self.number(&found.node, state)?, state: before, bytes: None })
    }

    /// As `plan_snapshot`, or `plan_snapshot_kept` if its content stays, of a file that somebody may have open for writing:
    /// what he wrote so far is recorded first.
    pub(crate) fn plan_snapshot_sealed(&self, found: &Found, stays: bool) -> Result<Snapshot> {
        let mut state = found.node.file.state.lock();
        self.seal_writer(&found.node, &mut state)?;
        self.snapshot_of(found, &mut state, stays)
    }

    /// The names in a directory that the view shows.
    pub(crate) fn entries_of(&self, found: &Found) -> Result<Vec<EntryName>> {
        let mut names = Vec::new();
        self.list_node(&found.node, &mut |name, _| names.push(name))?;
        names.sort();
        Ok(names)
    }

    /// Does the host's directory hold more than the view shows?
    pub(super) fn has_hidden(&self, found: &Found, shown: usize) -> Result<bool> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let all = crate::host::DirStream::new(found.node.file.host.open(flags)?).entries()?;
        Ok(all.len() > shown)
    }
}

pub(super) fn name_of(path: &ViewPath) -> Result<EntryName> {
    path.file_name().ok_or_else(|| ViewError::IsADirectory(path.clone()))
}

/// Execute bits follow the read bits.
pub(super) fn with_execute(mode: u32, executable: Option<bool>) -> u32 {
    match executable {
        None => mode,
        Some(true) => mode | (mode & 0o444) >> 2,
        Some(false) => mode & !0o111,
    }
}
