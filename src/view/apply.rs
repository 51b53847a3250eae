//! Changes carried out on the host, one at a time, by path below a source: by guarded mutations, and again by recovery.
//! Nothing here asks the policy or takes a lock: whoever calls has done both.

use std::{
    cell::Cell,
    collections::HashMap,
    io::Read,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::OFlags;

use super::{Core, Result, Source, ViewError, lookup::STAGE_PREFIX, plan::write_whole};
use crate::{
    crash_point,
    host::{self, Errno, RenameMode, SetTime, XattrMode},
    types::{EntryName, Hash, Kind, Timestamp, ViewPath},
    versions::{Change, ChangeKind, Content, Mode, State, crash},
};

/// How to carry changes out.
pub(crate) struct Applying<'a> {
    pub core: &'a Core,
    /// Contents at hand.
    pub bytes: &'a HashMap<Hash, Arc<Vec<u8>>>,
    /// Put modification times back too (reverts do).
    pub times: bool,
    /// A file was begun to be written in place.
    begun_in_place: Cell<bool>,
}

/// A directory that is being worked in: the store's `tmp/`, or one of a source.
enum StageDir<'a> {
    Store(BorrowedFd<'a>),
    Beside(&'a OwnedFd),
}

impl StageDir<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            StageDir::Store(fd) => *fd,
            StageDir::Beside(fd) => fd.as_fd(),
        }
    }
}

impl<'a> Applying<'a> {
    pub fn new(core: &'a Core, bytes: &'a HashMap<Hash, Arc<Vec<u8>>>, times: bool) -> Self {
        Applying { core, bytes, times, begun_in_place: Cell::new(false) }
    }
}

impl Applying<'_> {
    /// True if the change that was carried out last, and failed, may have left a file half written.
    pub fn left_half_written(&self) -> bool {
        self.begun_in_place.get()
    }

    /// Carries one change out.
    ///
    /// # Errors
    /// The host's; `HashConflict` if somebody beside us put something else there since it was looked at. Then it was not
    /// carried out.
    pub fn apply(&self, source: &Source, change: &Change) -> Result<()> {
        self.begun_in_place.set(false);
        let dir = dir_of(source, &change.path)?;
        let name = name_of(&change.path)?;
        match (change.kind, &change.before, &change.after) {
            (ChangeKind::Create, _, Some(after)) => self.create(source, &dir, &name, change, after),
            (ChangeKind::Write, Some(before), Some(after)) if before.nlink > 1 => {
                self.overwrite(source, &dir, &name, after)
            }
            (ChangeKind::Write, Some(before), Some(after)) => self.replace(source, &dir, &name, change, before, after),
            (ChangeKind::Meta, _, Some(after)) => {
                let fd = host::open_child(dir.as_fd(), &name)?;
                self.set_meta(fd.as_fd(), after)
            }
            (ChangeKind::Remove, Some(before), _) => self.remove(&dir, &name, before),
            (ChangeKind::Rename, _, _) => {
                let (from_dir, from) = from_of(source, change)?;
                Ok(host::rename(from_dir.as_fd(), &from, dir.as_fd(), &name, RenameMode::NoReplace)?)
            }
            (ChangeKind::Exchange, _, _) => {
                let (from_dir, from) = from_of(source, change)?;
                Ok(host::rename(from_dir.as_fd(), &from, dir.as_fd(), &name, RenameMode::Exchange)?)
            }
            (ChangeKind::Link, _, _) if change.from.is_none() => {
                let key = change.key.as_ref().ok_or(ViewError::Host(Errno::INVAL))?;
                let host = source.open_key(key)?;
                Ok(host::link(host.path_fd()?.as_fd(), dir.as_fd(), &name)?)
            }
            (ChangeKind::Link, _, _) => {
                let (from_dir, from) = from_of(source, change)?;
                let fd = host::open_child(from_dir.as_fd(), &from)?;
                Ok(host::link(fd.as_fd(), dir.as_fd(), &name)?)
            }
            (ChangeKind::Create | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove, _, _) => {
                Err(Errno::INVAL.into())
            }
        }
    }

    fn create(&self, source: &Source, dir: &OwnedFd, name: &EntryName, change: &Change, after: &State) -> Result<()> {
        match after.kind {
            Kind::File => {
                let (stage, staged) = self.stage(source, dir, change, after)?;
                crash_point!("staged");
                let placed = host::rename(stage.fd(), &staged, dir.as_fd(), name, RenameMode::NoReplace);
                crash_point!("placed");
                if let Err(error) = placed {
                    host::remove_file(stage.fd(), &staged)?;
                    return Err(error.into());
                }
                return Ok(());
            }
            Kind::Dir => host::make_dir(dir.as_fd(), name, after.mode & 0o7777)?,
            Kind::Symlink => {
                let Content::Target(target) = &after.content else { return Err(Errno::INVAL.into()) };
                host::make_symlink(dir.as_fd(), name, target)?;
            }
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                host::make_node(dir.as_fd(), name, type_bits(after.kind) | after.mode & 0o7777, after.rdev)?;
            }
        }
        crash_point!("made-bare");
        let fd = host::open_child(dir.as_fd(), name)?;
        self.set_meta(fd.as_fd(), after)
    }

    /// Puts a new inode in the place of a file: exchanged, then checked to be the one that was looked at.
    fn replace(
        &self,
        source: &Source,
        dir: &OwnedFd,
        name: &EntryName,
        change: &Change,
        before: &State,
        after: &State,
    ) -> Result<()> {
        let expected = host::open_child(dir.as_fd(), name)?;
        let (stage, staged) = self.stage(source, dir, change, after)?;
        let exchange = || host::rename(stage.fd(), &staged, dir.as_fd(), name, RenameMode::Exchange);
        if let Err(error) = exchange() {
            host::remove_file(stage.fd(), &staged)?;
            return Err(error.into());
        }
        crash_point!("exchanged");
        let verified = (|| -> Result<()> {
            let out = host::open_child(stage.fd(), &staged)?;
            let same = !crash::planted("exchange-mismatch")
                && host::is_same_inode(out.as_fd(), expected.as_fd())?
                && change.key.as_ref().is_none_or(|key| source.key_of(&out).is_ok_and(|found| found == *key));
            let ours = before.ctime == Timestamp::default();
            if same && (ours || self.unchanged_content(before, &out, source)?) {
                return Ok(());
            }
            Err(ViewError::HashConflict { path: change.path.clone(), current: None })
        })();
        let taken = verified.and_then(|()| {
            crash_point!("exchange-verified");
            self.put_away(stage.fd(), &staged, before)
        });
        if let Err(error) = taken {
            // What came out is somebody's file: it goes back before anything is removed.
            exchange().map_err(ViewError::undecided)?;
            crash_point!("exchanged-back");
            host::remove_file(stage.fd(), &staged).map_err(ViewError::undecided)?;
            return Err(error);
        }
        Ok(())
    }

    /// What was at a path and came out in exchange: goes aside if its content is kept so, else away.
    pub(super) fn put_away(&self, stage: BorrowedFd<'_>, staged: &EntryName, before: &State) -> Result<()> {
        match &before.content {
            Content::Aside(aside) if !self.core.store.has_aside(aside) => {
                let aside = EntryName::new(aside.as_bytes()).map_err(|_| Errno::INVAL)?;
                host::rename(stage, staged, self.core.store.aside_dir(), &aside, RenameMode::NoReplace)?;
            }
            Content::Aside(_)
            | Content::Blob(_)
            | Content::None
            | Content::Target(_)
            | Content::Live(_)
            | Content::Lost(_) => host::remove_file(stage, staged)?,
        }
        Ok(())
    }

    /// Being exchanged changes an inode's ctime: then the content itself decides.
    fn unchanged_content(&self, before: &State, out: &OwnedFd, source: &Source) -> Result<bool> {
        let attr = host::stat(out.as_fd())?;
        if attr.size != before.size || attr.mtime != before.mtime {
            return Ok(false);
        }
        let Content::Blob(hash) = &before.content else { return Ok(true) };
        let (host, _) = source.fs.adopt(out.try_clone().map_err(|_| Errno::MFILE)?)?;
        let fd = host.open(OFlags::RDONLY)?;
        match host::read_whole(fd.as_fd(), before.size) {
            Ok((bytes, _)) => Ok(self.bytes.get(hash).map_or_else(|| Hash::of(&bytes) == *hash, |old| **old == bytes)),
            Err(Errno::FBIG | Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a file of several names in place; the record holds the content, so that recovery can finish it.
    fn overwrite(&self, source: &Source, dir: &OwnedFd, name: &EntryName, after: &State) -> Result<()> {
        let (host, _) = source.fs.adopt(host::open_child(dir.as_fd(), name)?)?;
        let fd = host.open(OFlags::RDWR)?;
        self.begun_in_place.set(true);
        self.fill(fd.as_fd(), after)?;
        crash_point!("overwritten");
        host::truncate(fd.as_fd(), after.size)?;
        self.set_meta(fd.as_fd(), after)
    }

    /// Writes once more, into the file that stands there, what a power cut left unwritten of a change.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn write_again(&self, source: &Source, change: &Change) -> Result<()> {
        let after = change.after.as_ref().ok_or(ViewError::Host(Errno::INVAL))?;
        self.overwrite(source, &dir_of(source, &change.path)?, &name_of(&change.path)?, after)
    }

    fn remove(&self, dir: &OwnedFd, name: &EntryName, before: &State) -> Result<()> {
        if before.kind == Kind::Dir {
            return Ok(host::remove_dir(dir.as_fd(), name)?);
        }
        match &before.content {
            Content::Aside(aside) if before.nlink <= 1 && !self.core.store.has_aside(aside) => {
                let aside = EntryName::new(aside.as_bytes()).map_err(|_| Errno::INVAL)?;
                Ok(host::rename(dir.as_fd(), name, self.core.store.aside_dir(), &aside, RenameMode::NoReplace)?)
            }
            Content::Aside(_)
            | Content::Blob(_)
            | Content::None
            | Content::Target(_)
            | Content::Live(_)
            | Content::Lost(_) => Ok(host::remove_file(dir.as_fd(), name)?),
        }
    }

    /// A new file with content and metadata, under a name of ours: the one that the log knows, so that a crash cannot leave
    /// something there that nobody knows.
    fn stage<'b>(
        &'b self,
        source: &Source,
        dir: &'b OwnedFd,
        change: &Change,
        state: &State,
    ) -> Result<(StageDir<'b>, EntryName)> {
        let plain = match &change.staged {
            Some(name) => EntryName::new(name.as_bytes()).map_err(|_| Errno::INVAL)?,
            None => self.core.store.tmp_name(),
        };
        let (stage, name) = self.staging(source, dir, &plain)?;
        let fd = host::create_file(stage.fd(), &name, 0o600)?;
        let made = self.fill(fd.as_fd(), state).and_then(|()| self.set_meta(fd.as_fd(), state));
        if let Err(error) = made {
            host::remove_file(stage.fd(), &name)?;
            return Err(error);
        }
        Ok((stage, name))
    }

    /// Where a staged file stands: in `tmp/`, or beside its target if it could not be moved from there.
    fn staging<'b>(
        &'b self,
        source: &Source,
        dir: &'b OwnedFd,
        plain: &EntryName,
    ) -> Result<(StageDir<'b>, EntryName)> {
        Ok(match source.mode {
            Mode::Linked => (StageDir::Store(self.core.store.tmp_dir()), plain.clone()),
            Mode::Copying => {
                let name = EntryName::new(&[STAGE_PREFIX, plain.as_bytes()].concat()).map_err(|_| Errno::INVAL)?;
                (StageDir::Beside(dir), name)
            }
        })
    }

    /// Does `work` with the directory and the name under which a change was staged, and what stands there, if anything does.
    pub(super) fn with_staged<T>(
        &self,
        source: &Source,
        change: &Change,
        work: impl FnOnce(BorrowedFd<'_>, &EntryName, OwnedFd) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(name) = &change.staged else { return Ok(None) };
        let plain = EntryName::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        let dir = match dir_of(source, &change.path) {
            Ok(dir) => dir,
            Err(ViewError::Host(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (stage, name) = self.staging(source, &dir, &plain)?;
        match host::open_child(stage.fd(), &name) {
            Ok(found) => work(stage.fd(), &name, found).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a state's content from the start of a file.
    fn fill(&self, fd: BorrowedFd<'_>, state: &State) -> Result<()> {
        if let Some(bytes) = state.hash().and_then(|hash| self.bytes.get(&hash)) {
            return Ok(write_whole(fd, bytes)?);
        }
        if let Content::Aside(name) = &state.content
            && let Ok(kept) = self.core.store.open_aside(name)
            && host::reflink(kept.as_fd(), fd).is_ok()
        {
            return Ok(());
        }
        if state.size == 0 && !matches!(state.content, Content::Blob(_) | Content::Aside(_)) {
            return Ok(());
        }
        let mut reader = self.core.store.read(&state.content)?;
        let mut buf = vec![0; 256 << 10];
        let mut offset = 0;
        loop {
            let got =
                reader.read(&mut buf).map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
            if got == 0 {
                return Ok(());
            }
            let mut done = 0;
            while done < got {
                done += host::write_at(fd, &buf[done..got], offset + done as u64)?;
            }
            offset += got as u64;
        }
    }

    /// Owner, mode, extended attributes, and times if they are to be put back.
    pub(super) fn set_meta(&self, fd: BorrowedFd<'_>, state: &State) -> Result<()> {
        let now = host::stat(fd)?;
        if (now.uid, now.gid) != (state.uid, state.gid) {
            match host::chown(fd, Some(state.uid), Some(state.gid)) {
                Ok(()) => {}
                // Not root: what it is, it stays.
                Err(Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if state.kind != Kind::Symlink && (now.mode != state.mode || now.uid != state.uid) {
            host::chmod(fd, state.mode & 0o7777)?;
        }
        let wanted = &state.xattrs;
        for (name, value) in wanted {
            match host::set_xattr(fd, name, value, XattrMode::Set) {
                Ok(()) | Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for name in host::list_xattr(fd).unwrap_or_default() {
            if !wanted.iter().any(|(have, _)| *have == name) {
                match host::remove_xattr(fd, &name) {
                    Ok(()) | Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS | Errno::NODATA) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if self.times {
            host::set_times(fd, SetTime::Keep, SetTime::At(state.mtime))?;
        }
        Ok(())
    }
}

/// The change that takes `change` back, as long as nothing else happened.
pub(crate) fn inverse(change: &Change) -> Change {
    let mut back = change.clone();
    std::mem::swap(&mut back.before, &mut back.after);
    back.key = None;
    back.staged = None;
    if let Some(before) = &mut back.before {
        // What it is now was not looked at; the one we made is the one that is there.
        before.ctime = Timestamp::default();
    }
    match change.kind {
        ChangeKind::Create | ChangeKind::Link => back.kind = ChangeKind::Remove,
        // It lives on under its other names.
        ChangeKind::Remove if back.after.as_ref().is_some_and(|state| state.nlink > 1 && state.kind != Kind::Dir) => {
            back.kind = ChangeKind::Link;
            back.key.clone_from(&change.key);
        }
        ChangeKind::Remove => back.kind = ChangeKind::Create,
        ChangeKind::Write | ChangeKind::Meta | ChangeKind::Exchange => {}
        ChangeKind::Rename => {
            if let Some(from) = back.from.take() {
                back.from = Some(std::mem::replace(&mut back.path, from));
            }
        }
    }
    back
}

/// The directory that holds a path of a source, opened step by step.
pub(crate) fn dir_of(source: &Source, path: &ViewPath) -> Result<OwnedFd> {
    let parent = path.parent().ok_or(ViewError::Host(Errno::BUSY))?;
    let root = source.root.path_fd()?;
    let mut dir = root.try_clone().map_err(|_| Errno::MFILE)?;
    for name in parent.components() {
        dir = host::open_child(dir.as_fd(), &name)?;
    }
    Ok(dir)
}

fn name_of(path: &ViewPath) -> Result<EntryName> {
    path.file_name().ok_or(ViewError::Host(Errno::BUSY))
}

pub(super) fn from_of(source: &Source, change: &Change) -> Result<(OwnedFd, EntryName)> {
    let from = change.from.as_ref().ok_or(ViewError::Host(Errno::INVAL))?;
    Ok((dir_of(source, from)?, name_of(from)?))
}

fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::File => 0o100_000,
        Kind::Dir => 0o040_000,
        Kind::Symlink => 0o120_000,
        Kind::Fifo => 0o010_000,
        Kind::Socket => 0o140_000,
        Kind::CharDevice => 0o020_000,
        Kind::BlockDevice => 0o060_000,
    }
}
