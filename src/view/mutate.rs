//! The tools' mutations: each plans its steps under the locks, and has them applied as one.

use std::{
    collections::HashSet,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Done, Expect, Found, NewContent, Request, Result, View, ViewError, WriteFile,
    commit::Told,
    plan::{Plan, Snapshot, inherited, new_state},
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
/// How often a mutation looks whether a shell that found its file replaced has opened the new one.
const STALE_PAUSE: Duration = Duration::from_millis(1);
/// How often a mutation starts over because names moved between two looks.
const RACES_MAX: usize = 100;

/// Where a file is to be written.
enum Target {
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
        let deadline = Instant::now() + WRITER_WAIT;
        let mut races = 0;
        let (mut pause, longest) = WRITER_POLL;
        loop {
            // From the plan to the record nothing that the plan found in the store may be dropped.
            let hold = self.core.store.hold();
            let attempted = attempt();
            drop(hold);
            match attempted {
                Ok((done, told)) => {
                    self.tell(&told);
                    crash_point!("told");
                    return Ok(done);
                }
                Err(ViewError::WriterOpen { .. }) if Instant::now() < deadline => {
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

    /// Commits a plan, unless it is a dry run or empty.
    pub(crate) fn finish_plan(&self, request: &Request, kind: OpKind, plan: Plan) -> Result<(Done, Vec<Told>)> {
        if request.dry_run || plan.steps.is_empty() {
            return Ok((plan.unapplied(self), Vec::new()));
        }
        self.commit(request, kind, Vec::new(), plan, None)
    }

    fn target(&self, path: &ViewPath) -> Result<Target> {
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
        match found.attr.kind {
            Kind::File => {}
            Kind::Dir => return Err(ViewError::IsADirectory(path.clone())),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                return Err(ViewError::NotAFile(path.clone()));
            }
        }
        let dir = self.find_locked(&path.parent().unwrap_or_default(), Follow::No)?;
        let _names = dir.node.file.state.lock();
        while self.core.owes_an_open() {
            // A shell lost its way to a file that tools keep replacing, and the kernel tries once more and never again: it gets a
            // moment to open the new one.
            std::thread::sleep(STALE_PAUSE);
        }
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
        let bytes = match &write.content {
            NewContent::Bytes(bytes) => Arc::new(bytes.clone()),
            NewContent::Rewritten { rewrite, .. } => {
                let old = self.bytes_for_rewrite(path, node, &before)?;
                Arc::new(rewrite(&old)?)
            }
        };
        let mode = with_execute(before.state.mode, write.executable);
        if before.bytes.as_ref().is_some_and(|old| **old == *bytes) && mode == before.state.mode {
            let mut plan = Plan::default();
            let same = Some((before.state.clone(), before.bytes.clone()));
            plan.push(&place, ChangeKind::Write, before.id, Some(node), None, Some(&before), same);
            return Ok((plan.unapplied(self), Vec::new()));
        }
        let content = if place.unversioned { Content::Lost(Loss::Policy) } else { Content::Live(None) };
        let mut after = new_state(Kind::File, mode, (before.state.uid, before.state.gid), bytes.len() as u64, content);
        after.xattrs.clone_from(&before.state.xattrs);
        after.nlink = before.state.nlink;
        if !request.dry_run {
            // Kept even where policy keeps no history: the record must be able to finish the change.
            after.content = self.store_content(&place, before.id, &bytes)?;
        }
        let mut plan = Plan::default();
        plan.push(&place, ChangeKind::Write, before.id, Some(node), None, Some(&before), Some((after, Some(bytes))));
        if request.dry_run {
            return Ok((plan.unapplied(self), Vec::new()));
        }
        self.commit(request, OpKind::Edit, Vec::new(), plan, Some((&node.file, &mut state)))
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

    fn plan_new_file(
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
            let planned = plan.steps.iter().any(|step| {
                step.change.kind == ChangeKind::Create
                    && self.place(step.source.id, &step.change.path).as_ref() == Some(&next)
            });
            if !planned {
                self.plan_dir(request, plan, &next, above.as_ref())?;
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
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let mut plan = Plan::default();
            for path in paths {
                match self.find_locked(path, Follow::Yes) {
                    Ok(found) if found.attr.kind == Kind::Dir => continue,
                    Ok(found) => return Err(ViewError::AlreadyExists(found.path)),
                    Err(ViewError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
                let parent = path.parent().unwrap_or_default();
                let made = plan
                    .steps
                    .iter()
                    .any(|step| self.place(step.source.id, &step.change.path).as_ref() == Some(&parent));
                if !parents && !made {
                    self.find_locked(&parent, Follow::Yes)?;
                }
                self.plan_parents(request, &mut plan, path)?;
            }
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    /// Removes files and directories.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty` without `recursive`, `HashConflict`, `Unversionable` (named, nothing removed), `ReadOnly`.
    pub fn remove(&self, request: &Request, targets: &[(ViewPath, Expect)], recursive: bool) -> Result<Done> {
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let (mut plan, mut seen) = (Plan::default(), HashSet::new());
            for (path, expect) in targets {
                let found = self.find_locked(path, Follow::No)?;
                self.plan_removal(request, &mut plan, &found, expect, recursive, &mut seen)?;
            }
            self.finish_plan(request, OpKind::Edit, plan)
        })
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
        let place = self.place_of(&found.path, found.node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        self.snapshot(&place, &found.node, &mut state)
    }

    /// The names in a directory that the view shows.
    pub(crate) fn entries_of(&self, found: &Found) -> Result<Vec<EntryName>> {
        let mut names = Vec::new();
        self.list_node(&found.node, &mut |name, _| names.push(name))?;
        names.sort();
        Ok(names)
    }

    /// Does the host's directory hold more than the view shows?
    fn has_hidden(&self, found: &Found, shown: usize) -> Result<bool> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let all = crate::host::DirStream::new(found.node.file.host.open(flags)?).entries()?;
        Ok(all.len() > shown)
    }

    /// Moves a file or directory, also into another source (then it is copied and removed).
    ///
    /// # Errors
    /// `AlreadyExists` without `overwrite`; `Widens`; as `remove`.
    pub fn move_path(
        &self,
        request: &Request,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<Done> {
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let found = self.find_locked(from, Follow::No)?;
            self.writable(&found.node)?;
            let mut plan = Plan::default();
            let to = self.plan_place(request, &mut plan, &found, to, overwrite)?;
            let Some(to) = to else { return Ok((Done::default(), Vec::new())) };
            let is_dir = found.attr.kind == Kind::Dir;
            let class = self.class(&to, is_dir);
            if crate::policy::Policy::widens(Some(found.class), class) {
                return Err(ViewError::Widens(to));
            }
            if is_dir {
                self.check_subtree(&found.node, &found.path, &to)?;
            }
            let before = self.plan_snapshot_kept(&found)?;
            {
                let mut state = found.node.file.state.lock();
                let require = request.require_hash;
                self.check_expected(&found.path, expect, Some((&found.node, &mut state, &before)), require)?;
            }
            let place = self.place_of(&to, found.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
            let old = self.place_of(&found.path, found.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
            if Arc::ptr_eq(&place.source, &old.source) {
                let after = (before.state.clone(), before.bytes.clone());
                let from = Some(old.path);
                plan.push(&place, ChangeKind::Rename, before.id, Some(&found.node), from, Some(&before), Some(after));
            } else {
                self.plan_copy(request, &mut plan, &found, &to)?;
                self.plan_removal(request, &mut plan, &found, &Expect::Any, true, &mut HashSet::new())?;
            }
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    /// As `plan_snapshot`, for a file that only moves: its content stays where it is.
    pub(crate) fn plan_snapshot_kept(&self, found: &Found) -> Result<Snapshot> {
        let mut state = found.node.file.state.lock();
        self.no_writer(&found.path, &state)?;
        let place = self.place_of(&found.path, found.node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let attr = found.node.file.host.attr()?;
        let before = self.before(&place, &found.node, &mut state, &attr, false)?;
        Ok(Snapshot { id: self.number(&found.node, &mut state)?, state: before, bytes: None })
    }

    /// Makes room for something at `to`; `None` if it is there already.
    fn plan_place(
        &self,
        request: &Request,
        plan: &mut Plan,
        found: &Found,
        to: &ViewPath,
        overwrite: bool,
    ) -> Result<Option<ViewPath>> {
        let parent = to.parent().ok_or_else(|| ViewError::AlreadyExists(to.clone()))?;
        let to = self.plan_parents(request, plan, &parent)?.join(&name_of(to)?);
        if to == found.path {
            return Ok(None);
        }
        if to.starts_with(&found.path) {
            return Err(ViewError::InvalidArgument(format!("{to} lies inside {}", found.path)));
        }
        self.may_create(&to, found.attr.kind == Kind::Dir)?;
        match self.find_locked(&to, Follow::No) {
            Ok(_) if !overwrite => Err(ViewError::AlreadyExists(to)),
            Ok(target) => {
                if target.attr.kind == Kind::Dir && found.attr.kind != Kind::Dir {
                    return Err(ViewError::IsADirectory(to));
                }
                self.plan_removal(request, plan, &target, &Expect::Any, false, &mut HashSet::new())?;
                Ok(Some(to))
            }
            Err(ViewError::NotFound(_)) => Ok(Some(to)),
            Err(error) => Err(error),
        }
    }

    /// Copies a file or a directory with all below it; metadata is kept.
    ///
    /// # Errors
    /// As `move_path`.
    pub fn copy_path(
        &self,
        request: &Request,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<Done> {
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let found = self.find_locked(from, Follow::No)?;
            let mut plan = Plan::default();
            let Some(to) = self.plan_place(request, &mut plan, &found, to, overwrite)? else {
                return Err(ViewError::InvalidArgument(format!("{from} and {to} are the same")));
            };
            if !matches!(expect, Expect::Any) {
                let before = self.plan_snapshot(&found)?;
                let mut state = found.node.file.state.lock();
                self.check_expected(&found.path, expect, Some((&found.node, &mut state, &before)), false)?;
            }
            self.plan_copy(request, &mut plan, &found, &to)?;
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    fn plan_copy(&self, request: &Request, plan: &mut Plan, found: &Found, to: &ViewPath) -> Result<()> {
        let class = self.may_create(to, found.attr.kind == Kind::Dir)?;
        let place = self.place_of(to, class.unversioned).ok_or_else(|| ViewError::ReadOnly(to.clone()))?;
        let id = self.core.store.next_node();
        let mut after = new_state(found.attr.kind, found.attr.mode, request.owner, found.attr.size, Content::None);
        after.mode = crate::host::stat(found.node.file.host.path_fd()?.as_fd())?.mode;
        after.rdev = found.attr.rdev;
        after.mtime = found.attr.mtime;
        after.xattrs = self.xattrs_of(&found.node)?;
        let mut bytes = None;
        match found.attr.kind {
            Kind::File => {
                let content = self.live_bytes(found, super::core::COPY_MAX)?;
                after.size = content.len() as u64;
                after.content =
                    if request.dry_run { Content::Live(None) } else { self.store_content(&place, id, &content)? };
                bytes = (content.len() as u64 <= super::core::WHOLE_COPY_MAX).then(|| Arc::new(content));
            }
            Kind::Symlink => after.content = Content::Target(self.target_of(found)?),
            Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {}
        }
        plan.push(&place, ChangeKind::Create, id, None, None, None, Some((after, bytes)));
        if found.attr.kind == Kind::Dir {
            for name in self.entries_of(found)? {
                let child = self.find_locked(&found.path.join(&name), Follow::No)?;
                self.plan_copy(request, plan, &child, &to.join(&name))?;
            }
        }
        Ok(())
    }
}

fn name_of(path: &ViewPath) -> Result<EntryName> {
    path.file_name().ok_or_else(|| ViewError::IsADirectory(path.clone()))
}

/// Execute bits follow the read bits.
fn with_execute(mode: u32, executable: Option<bool>) -> u32 {
    match executable {
        None => mode,
        Some(true) => mode | (mode & 0o444) >> 2,
        Some(false) => mode & !0o111,
    }
}
