//! Guarded mutations that were recorded before they were applied: rolled forward, or, once they were withdrawn, taken back.

use std::{collections::HashMap, os::fd::AsFd};

use rustix::fs::OFlags;

use super::{Recovery, Standing, standing, standing_from};
use crate::{
    crash_point,
    host::{self, RenameMode},
    types::{Kind, Timestamp, ViewPath},
    versions::{Bound, Change, ChangeKind, Content, HistoryQuery, OpKind, OpenMark, Operation, State},
    view::{
        Core, Result, Source, ViewError,
        apply::{Applying, dir_of, from_of, inverse},
        core::COPY_MAX,
    },
};

/// What a disk writes whole, or not at all.
const SECTOR: usize = 512;

/// How far one change came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stands {
    /// As before it.
    Due,
    /// As after it.
    Done,
    /// Made, without its owner, mode or times.
    Bare,
    /// Made, and its content never reached the disk, or only parts of it did.
    CutShort,
    /// As it was some time before it: what was written since did not reach the disk.
    Older,
    /// Moved, and the disk has the old name as well.
    Twice,
    /// Neither: somebody changed it since, and what that is stays.
    Foreign,
}

impl Recovery<'_> {
    /// Applies what is due of an operation, and records it as it came out.
    pub(super) fn roll_forward(&mut self, operation: &Operation, unfinished: &[Operation]) -> Result<()> {
        let bytes = HashMap::new();
        let applying = Applying::new(self.core, &bytes, operation.kind == OpKind::Revert);
        let later = self.later(operation, unfinished)?;
        let recorded = operation;
        let mut operation = operation.clone();
        let mut whole = true;
        for change in &mut operation.changes {
            let Some(source) = self.source(change.source) else { return Ok(()) };
            let done = self.settle_staged(&applying, &source, change).and_then(|()| {
                if later.touch(change) {
                    // It was applied, and then the same path was changed by somebody whose change is recorded, too.
                    return Ok(false);
                }
                let stands = self.how_far(&applying, &source, change)?;
                self.finish(&applying, &source, change, stands)
            });
            match done {
                Ok(true) => {
                    crash_point!("recovery-step-applied");
                    self.notes.push(format!("{}: finished operation {}", change.path, operation.op));
                }
                Ok(false) => {}
                Err(error) => {
                    whole = false;
                    self.notes.push(format!(
                        "{}: operation {} could not be finished, and is tried again at the next start: {error}",
                        change.path, operation.op
                    ));
                }
            }
            change.staged = None;
        }
        if !whole {
            return Ok(());
        }
        for change in operation.changes.iter_mut().filter(|change| !later.touch(change)) {
            let Some(source) = self.source(change.source) else { continue };
            self.record_as_it_came_out(&source, change)?;
        }
        if operation == *recorded {
            self.core.store.applied(operation.op)?;
        } else {
            operation.intent = false;
            self.core.store.append(&operation)?;
        }
        crash_point!("recovery-intent-recorded");
        Ok(())
    }

    /// Takes back what was applied of an operation, last change first. It never was.
    pub(super) fn take_back(&mut self, operation: &Operation) -> Result<()> {
        let bytes = HashMap::new();
        let applying = Applying::new(self.core, &bytes, true);
        let mut whole = true;
        for change in operation.changes.iter().rev() {
            let Some(source) = self.source(change.source) else { return Ok(()) };
            let taken = self.settle_staged(&applying, &source, change).and_then(|()| {
                let stands = self.how_far(&applying, &source, change)?;
                let cut_off = stands == Stands::Due && self.is_half_written(&source, change)?;
                let applied = matches!(stands, Stands::Done | Stands::Bare | Stands::CutShort)
                    && self.was_applied(&source, change)?;
                if !cut_off && !applied {
                    return Ok(false);
                }
                applying.apply(&source, &inverse(change)).map(|()| true)
            });
            match taken {
                Ok(true) => {
                    crash_point!("recovery-step-taken-back");
                    self.notes.push(format!("{}: took operation {} back", change.path, operation.op));
                }
                Ok(false) => {}
                Err(error) => {
                    whole = false;
                    self.notes.push(format!(
                        "{}: operation {} could not be taken back, and is tried again at the next start: {error}",
                        change.path, operation.op
                    ));
                }
            }
        }
        if whole {
            self.core.store.aborted(operation.op)?;
        }
        Ok(())
    }

    /// A removal or a move that cannot be seen any more may as well not have been made.
    fn was_applied(&self, source: &Source, change: &Change) -> Result<bool> {
        Ok(match change.kind {
            ChangeKind::Remove => standing(source, &change.path)?.is_none(),
            ChangeKind::Rename => standing(source, &change.path)?.is_some_and(|now| now.is(change.key.as_ref())),
            ChangeKind::Create | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Exchange | ChangeKind::Link => true,
        })
    }

    /// Was a file written in place, and not to the end?
    fn is_half_written(&self, source: &Source, change: &Change) -> Result<bool> {
        let Some(before) = change.before.as_ref().filter(|before| before.nlink > 1) else { return Ok(false) };
        let now = standing(source, &change.path)?;
        Ok(match (change.kind, now) {
            (ChangeKind::Write, Some(now)) => now.content_hash()? != before.hash(),
            (_, _) => false,
        })
    }

    /// What is under the name at which a file was staged: the new content (away with it), the old inode (it is put away as
    /// it would have been), or an inode that nobody looked at, exchanged just before the crash (it gets its name back).
    fn settle_staged(&self, applying: &Applying<'_>, source: &Source, change: &Change) -> Result<()> {
        applying.with_staged(source, change, |stage, name, found| {
            let (host, attr) = source.fs.adopt(found)?;
            let staged = Standing { host, attr };
            if staged.is(change.key.as_ref())
                && let Some(before) = &change.before
            {
                return applying.put_away(stage, name, before);
            }
            let new = self.hash_after(change)?;
            let ours = |standing: &Standing| Ok::<_, ViewError>(new.is_some() && standing.content_hash()? == new);
            let now = standing(source, &change.path)?;
            if change.kind == ChangeKind::Write
                && let Some(now) = now
                && !now.is(change.key.as_ref())
                && ours(&now)?
                && !ours(&staged)?
                && let Some(target) = change.path.file_name()
            {
                host::rename(stage, name, dir_of(source, &change.path)?.as_fd(), &target, RenameMode::Exchange)?;
            }
            Ok(host::remove_file(stage, name)?)
        })?;
        Ok(())
    }

    fn hash_after(&self, change: &Change) -> Result<Option<crate::types::Hash>> {
        let Some(after) = &change.after else { return Ok(None) };
        match &after.content {
            Content::Aside(_) => {
                let bytes = self.core.store.read_all(&after.content, COPY_MAX)?;
                Ok(Some(crate::types::Hash::of(&bytes)))
            }
            Content::None | Content::Target(_) | Content::Blob(_) | Content::Live(_) | Content::Lost(_) => {
                Ok(after.hash())
            }
        }
    }

    fn how_far(&self, applying: &Applying<'_>, source: &Source, change: &Change) -> Result<Stands> {
        let now = standing(source, &change.path)?;
        let same = |now: &Standing| now.is(change.key.as_ref());
        Ok(match (change.kind, now) {
            (ChangeKind::Create, None) => Stands::Due,
            (ChangeKind::Create, Some(now)) => self.how_far_made(applying, change, &now)?,
            (ChangeKind::Link, None) => Stands::Due,
            (ChangeKind::Link, Some(now)) => match &change.key {
                Some(_) if !same(&now) => Stands::Foreign,
                Some(_) | None => Stands::Done,
            },
            (ChangeKind::Remove, Some(now)) if change.key.is_none() || same(&now) => Stands::Due,
            (ChangeKind::Remove, _) => Stands::Done,
            (ChangeKind::Rename, Some(now)) if same(&now) => {
                let only_name = change.before.as_ref().is_some_and(|before| before.nlink <= 1);
                let twice = || Ok::<_, ViewError>(standing_from(source, change)?.is_some_and(|from| same(&from)));
                if only_name && self.after_power_cut() && twice()? { Stands::Twice } else { Stands::Done }
            }
            (ChangeKind::Rename, now) => match standing_from(source, change)? {
                Some(from) if same(&from) && now.is_none() => Stands::Due,
                Some(from) if same(&from) => Stands::Foreign,
                // It moved on by a later step.
                Some(_) | None => Stands::Done,
            },
            (ChangeKind::Exchange, Some(now)) if same(&now) => Stands::Done,
            (ChangeKind::Exchange, now) => match (now, standing_from(source, change)?) {
                (Some(_), Some(from)) if same(&from) => Stands::Due,
                (_, _) => Stands::Foreign,
            },
            (ChangeKind::Meta, Some(now)) if same(&now) => {
                let wanted = change.after.as_ref();
                if wanted.is_some_and(|after| has_meta(applying, after, &now)) { Stands::Done } else { Stands::Due }
            }
            (ChangeKind::Write, Some(now)) => self.how_far_written(change, &now)?,
            (ChangeKind::Meta | ChangeKind::Write, _) => Stands::Foreign,
        })
    }

    fn how_far_made(&self, applying: &Applying<'_>, change: &Change, now: &Standing) -> Result<Stands> {
        let Some(after) = change.after.as_ref().filter(|after| after.kind == now.attr.kind) else {
            return Ok(Stands::Foreign);
        };
        if after.kind == Kind::File {
            if after.size == now.attr.size && self.hash_after(change)? == now.content_hash()? {
                return Ok(Stands::Done);
            }
            return Ok(if self.is_cut_short(after, now)? { Stands::CutShort } else { Stands::Foreign });
        }
        Ok(if has_meta(applying, after, now) { Stands::Done } else { Stands::Bare })
    }

    fn how_far_written(&self, change: &Change, now: &Standing) -> Result<Stands> {
        let Some(before) = &change.before else { return Ok(Stands::Foreign) };
        if now.attr.kind != Kind::File {
            return Ok(Stands::Foreign);
        }
        let hash = now.content_hash()?;
        let is_new = hash.is_some() && hash == self.hash_after(change)?;
        if before.nlink > 1 {
            // Written in place, and perhaps cut off in the middle: then it is neither the one nor the other.
            let ours = now.is(change.key.as_ref());
            return Ok(match (ours, is_new) {
                (true, true) => Stands::Done,
                (true, false) => Stands::Due,
                (false, _) => Stands::Foreign,
            });
        }
        // After a power cut times may be on the disk without the content, so that a hash decides where there is one.
        let is_old = match before.hash() {
            Some(before_hash) if self.after_power_cut() => hash == Some(before_hash),
            before_hash => before.is_current(&now.attr) || (before_hash.is_some() && hash == before_hash),
        };
        let is_ours = !now.is(change.key.as_ref()) || !is_old;
        if let Some(after) = change.after.as_ref().filter(|_| is_ours && !is_new)
            && self.is_cut_short(after, now)?
        {
            return Ok(Stands::CutShort);
        }
        let is_older = self.after_power_cut() && now.attr.mtime <= before.mtime && before_is_kept(self.core, before);
        // A file may be given the content that it had.
        Ok(match (now.is(change.key.as_ref()), is_new, is_old) {
            (false, true, _) => Stands::Done,
            (true, _, true) => Stands::Due,
            (true, _, false) if is_older => Stands::Older,
            (true, _, false) | (false, false, _) => Stands::Foreign,
        })
    }

    /// Is a file what a power cut leaves of a content that was written and not flushed: its beginning, or nothing, with
    /// zeros where nothing reached the disk? Writing all of it destroys nothing that somebody else wrote.
    fn is_cut_short(&self, after: &State, now: &Standing) -> Result<bool> {
        if !self.after_power_cut()
            || now.attr.size > after.size
            || after.size > COPY_MAX
            || !matches!(after.content, Content::Blob(_) | Content::Aside(_))
        {
            return Ok(false);
        }
        let wanted = self.core.store.read_all(&after.content, COPY_MAX)?;
        match host::read_whole(now.host.open(OFlags::RDONLY)?.as_fd(), COPY_MAX) {
            Ok((found, _)) => Ok(is_remnant(&found, &wanted)),
            Err(host::Errno::AGAIN | host::Errno::FBIG) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// True if something was done.
    fn finish(&self, applying: &Applying<'_>, source: &Source, change: &Change, stands: Stands) -> Result<bool> {
        match stands {
            Stands::Done | Stands::Foreign => return Ok(false),
            Stands::Due => applying.apply(source, change)?,
            Stands::CutShort => applying.write_again(source, change)?,
            Stands::Older => applying.apply(source, &without_look(change))?,
            Stands::Twice => {
                let (dir, name) = from_of(source, change)?;
                host::remove_file(dir.as_fd(), &name)?;
            }
            Stands::Bare => {
                if let (Some(now), Some(after)) = (standing(source, &change.path)?, &change.after) {
                    applying.set_meta(now.host.path_fd()?.as_fd(), after)?;
                }
            }
        }
        put_on_disk(source, &change.path)?;
        Ok(true)
    }

    /// The state after a change, and the inode, as they are now.
    fn record_as_it_came_out(&self, source: &Source, change: &mut Change) -> Result<()> {
        let Some(after) = &change.after else { return Ok(()) };
        let Some(now) = standing(source, &change.path)?.filter(|now| now.attr.kind == after.kind) else {
            return Ok(());
        };
        let moved = matches!(change.kind, ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link);
        let is_ours = match (change.kind, after.kind) {
            (ChangeKind::Exchange, _) => false,
            (_, Kind::File) if !moved && change.kind != ChangeKind::Meta => {
                self.hash_after(change)? == now.content_hash()?
            }
            (ChangeKind::Create | ChangeKind::Link, _) => true,
            (_, _) => now.is(change.key.as_ref()),
        };
        if !is_ours {
            return Ok(());
        }
        if after.ctime == now.attr.ctime {
            // It was recorded so.
            return Ok(());
        }
        let mut state = State::of(&now.attr, after.content.clone());
        state.xattrs = crate::view::xattr::all_of(now.host.path_fd()?.as_fd())?;
        change.key = Some(now.key());
        change.after = Some(state);
        Ok(())
    }

    /// Where something happened after an operation.
    fn later(&self, operation: &Operation, unfinished: &[Operation]) -> Result<Later> {
        let query = HistoryQuery { after: Some(Bound::Op(operation.op)), limit: 1_000_000, ..HistoryQuery::default() };
        let mut operations = self.core.store.history(&query)?.operations;
        operations.extend(unfinished.iter().filter(|other| other.op > operation.op).cloned());
        let open = self.core.store.recovered().open.iter().filter(|mark| mark.op > operation.op).cloned().collect();
        Ok(Later { operations, open })
    }
}

/// What happened later.
struct Later {
    operations: Vec<Operation>,
    open: Vec<OpenMark>,
}

impl Later {
    /// Did something happen to a change's path, to its other path, or to a directory above them?
    fn touch(&self, change: &Change) -> bool {
        let above = |at: &ViewPath, other: &ViewPath| at.starts_with(other);
        let ours: Vec<&ViewPath> = std::iter::once(&change.path).chain(&change.from).collect();
        let touches = |source, other: &ViewPath| change.source == source && ours.iter().any(|at| above(at, other));
        let changes = self.operations.iter().flat_map(|operation| &operation.changes);
        changes.into_iter().any(|later| {
            touches(later.source, &later.path) || later.from.as_ref().is_some_and(|from| touches(later.source, from))
        }) || self.open.iter().any(|mark| mark.node == change.node || touches(mark.source, &mark.path))
    }
}

/// Does what stands have the owner, mode and attributes of a state, and its times where they count?
fn has_meta(applying: &Applying<'_>, wanted: &State, now: &Standing) -> bool {
    let xattrs = now.host.path_fd().ok().and_then(|fd| crate::view::xattr::all_of(fd.as_fd()).ok()).unwrap_or_default();
    let mode = wanted.kind == Kind::Symlink || wanted.mode == now.attr.mode;
    let times = !applying.times || wanted.kind == Kind::Dir || wanted.mtime == now.attr.mtime;
    (wanted.uid, wanted.gid) == (now.attr.uid, now.attr.gid) && mode && times && wanted.xattrs == xattrs
}

/// Is the content before a change in the store, so that what stands need not be put there?
fn before_is_kept(core: &Core, before: &State) -> bool {
    match &before.content {
        Content::Aside(name) => core.store.has_aside(name),
        Content::None | Content::Target(_) | Content::Blob(_) | Content::Live(_) | Content::Lost(_) => true,
    }
}

/// A change that does not look whether what it replaces is as it was.
fn without_look(change: &Change) -> Change {
    let mut change = change.clone();
    if let Some(before) = &mut change.before {
        before.ctime = Timestamp::default();
    }
    change
}

/// Nothing of a sector that a disk writes whole is there, or all of it.
fn is_remnant(found: &[u8], wanted: &[u8]) -> bool {
    found.len() <= wanted.len()
        && found
            .chunks(SECTOR)
            .zip(wanted.chunks(SECTOR))
            .all(|(found, wanted)| wanted.starts_with(found) || found.iter().all(|byte| *byte == 0))
}

/// The file and the directory that names it.
fn put_on_disk(source: &Source, path: &ViewPath) -> Result<()> {
    if let Some(now) = standing(source, path)?.filter(|now| now.attr.kind == Kind::File) {
        host::fsync(now.host.open(OFlags::RDONLY)?.as_fd(), false)?;
    }
    let Ok(dir) = dir_of(source, path) else { return Ok(()) };
    let (dir, _) = source.fs.adopt(dir)?;
    Ok(host::fsync(dir.open(OFlags::RDONLY | OFlags::DIRECTORY)?.as_fd(), false)?)
}
