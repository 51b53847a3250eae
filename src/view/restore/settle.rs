//! Conflicts dealt with as the caller chose.

use super::{Restore, clash::Clash};
use crate::{
    text::{Merged, merge},
    types::{EntryName, Kind, ViewPath},
    versions::{Content, State},
    view::{
        Conflict, ConflictCode, OnConflict, Result,
        core::COPY_MAX,
        net::{Expected, Wanted},
    },
};

/// The longest name that a directory takes, in bytes.
const NAME_MAX: usize = 255;

/// What became of the conflicts.
#[derive(Default)]
pub(crate) struct Settled {
    /// Those that stay, and what was left alone for them.
    pub left: Vec<Conflict>,
    /// The caller's choice does not go over them: nothing may be changed.
    pub stops: bool,
}

impl Restore<'_> {
    /// Finds the conflicts and deals with them. With `all`, every later change is taken back, too.
    pub fn settle(&mut self, all: bool) -> Result<Settled> {
        let mut settled = Settled::default();
        for clash in self.clashes(all)? {
            self.settle_one(clash, &mut settled)?;
        }
        loop {
            let mut more = self.not_empty()?;
            // What is left alone may stand in the way of something else.
            if !all || !settled.left.is_empty() {
                more.extend(self.blocked()?);
            }
            if more.is_empty() {
                return Ok(settled);
            }
            for clash in more {
                self.settle_one(clash, &mut settled)?;
            }
        }
    }

    fn settle_one(&mut self, clash: Clash, settled: &mut Settled) -> Result<()> {
        let Clash { mut conflict, home } = clash;
        let present = conflict.path.clone();
        let done = match (conflict.code, self.how) {
            (ConflictCode::Meta, OnConflict::Force) => true,
            (ConflictCode::Meta, _) => {
                self.keep_meta(&home, &present)?;
                conflict.detail += "; they stay";
                settled.left.push(conflict);
                return Ok(());
            }
            (ConflictCode::NotEmpty, _) => {
                self.gone.remove(&present);
                false
            }
            (ConflictCode::Content | ConflictCode::Busy, OnConflict::Force) => {
                self.bring_back(&home, &present)?;
                true
            }
            (ConflictCode::ModifiedSince | ConflictCode::NoParent, OnConflict::Force) => true,
            (ConflictCode::Occupied, OnConflict::Force) => self.displace(&home, &present)?,
            (ConflictCode::Content, OnConflict::Merge) => self.merge(&home, &present)?,
            (
                ConflictCode::Content | ConflictCode::Busy | ConflictCode::Occupied | ConflictCode::NoParent,
                OnConflict::Aside,
            ) => {
                if let Some(beside) = self.put_aside(&home, &present)? {
                    conflict.detail += &format!("; what it was goes to {beside}");
                }
                settled.left.push(conflict);
                return Ok(());
            }
            (
                ConflictCode::Content
                | ConflictCode::Busy
                | ConflictCode::Occupied
                | ConflictCode::NoParent
                | ConflictCode::ModifiedSince
                | ConflictCode::Unavailable,
                _,
            ) => {
                self.leave(&home, &present);
                false
            }
        };
        if !done {
            settled.stops |= matches!(self.how, OnConflict::Fail | OnConflict::Merge);
            settled.left.push(conflict);
        }
        Ok(())
    }

    /// Nothing is wanted any more of what stands at `present` and should stand at `home`, nor of what should stand below.
    fn leave(&mut self, home: &ViewPath, present: &ViewPath) {
        self.wanted.retain(|path, _| !path.starts_with(home));
        self.gone.remove(present);
    }

    /// The mode, owner and attributes that are there now are wanted.
    fn keep_meta(&mut self, home: &ViewPath, present: &ViewPath) -> Result<()> {
        let Some(found) = self.look(present)? else { return Ok(()) };
        let attr = found.node.file.host.attr()?;
        let xattrs = self.view.xattrs_of(&found.node)?;
        if let Some((_, state)) = self.wanted.get_mut(home).and_then(|wanted| wanted.state.as_mut()) {
            (state.mode, state.uid, state.gid, state.xattrs) = (attr.mode, attr.uid, attr.gid, xattrs);
            if matches!(state.content, Content::Live(_)) {
                state.mtime = attr.mtime;
            }
        }
        Ok(())
    }

    /// What was removed later is made anew.
    fn bring_back(&mut self, home: &ViewPath, present: &ViewPath) -> Result<()> {
        if self.look(present)?.is_some() {
            return Ok(());
        }
        let Some(wanted) = self.wanted.get(home).filter(|wanted| !wanted.absent) else { return Ok(()) };
        let state = self.old_state(wanted, present)?;
        self.wanted.insert(home.clone(), Wanted { state, ..Wanted::default() });
        Ok(())
    }

    /// What stands in the way goes, unless it is a directory with something in it. Is there room now?
    fn displace(&mut self, home: &ViewPath, slot: &ViewPath) -> Result<bool> {
        let Some(found) = self.look(slot)? else { return Ok(true) };
        if found.attr.kind == Kind::Dir && !self.empties(&found, &self.leaving())? {
            self.leave(home, slot);
            return Ok(false);
        }
        self.gone.insert(slot.clone());
        Ok(true)
    }

    /// The changes made since are kept, and those to be taken back are taken out from under them. False if that does not go.
    fn merge(&mut self, home: &ViewPath, present: &ViewPath) -> Result<bool> {
        let Some(merged) = self.merged_content(home, present)? else {
            self.leave(home, present);
            return Ok(false);
        };
        if let Some(bytes) = merged {
            if let (Some(Expected::State { state, .. }), Some(found)) =
                (self.net.expected.get(present), self.look(present)?)
                && self.other_meta(state, &found)?
            {
                self.keep_meta(home, present)?;
            }
            self.merged.insert(home.clone(), bytes);
        }
        Ok(true)
    }

    /// The content of both; none if there is none, none inside if the content was not changed by what is taken back.
    #[expect(clippy::option_option, reason = "no merge, and nothing to merge")]
    fn merged_content(&self, home: &ViewPath, present: &ViewPath) -> Result<Option<Option<Vec<u8>>>> {
        let Some(Expected::State { op, state, .. }) = self.net.expected.get(present) else { return Ok(None) };
        let (Some(wanted), Some(found)) = (self.wanted.get(home), self.look(present)?) else { return Ok(None) };
        if found.attr.kind != Kind::File || state.kind != Kind::File {
            return Ok(None);
        }
        let Some((_, old)) = wanted.state.as_ref().filter(|(_, old)| !matches!(old.content, Content::Live(_))) else {
            return Ok(Some(None));
        };
        if old.kind != Kind::File
            || self.view.unavailable(old).is_some()
            || wanted.now.as_ref().is_some_and(|now| now != present)
        {
            return Ok(None);
        }
        let base = match &state.content {
            Content::Live(_) => self.view.past_bytes_locked(present, *op, COPY_MAX),
            Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) | Content::Lost(_) => {
                self.view.state_bytes(present, state, COPY_MAX)
            }
        };
        let mut bases = vec![base];
        let mut olds = Vec::new();
        for between in self.net.between.get(present).into_iter().flatten() {
            let content = self.view.core.store.content_of(between.node, between.op)?;
            let left = State { content, ..between.left.clone() };
            bases.push(self.view.state_bytes(present, &left, COPY_MAX));
            olds.push(self.view.state_bytes(present, &between.found, COPY_MAX));
        }
        olds.push(self.view.state_bytes(present, old, COPY_MAX));
        let mut merged = self.view.live_bytes(&found, COPY_MAX)?;
        // Newest first, each run of changes is taken out from under what came after it.
        for (base, old) in bases.into_iter().zip(olds) {
            let (Ok(base), Ok(old)) = (base, old) else { return Ok(None) };
            merged = match merge(&base, &merged, &old) {
                Merged::Clean(bytes) => bytes,
                Merged::Conflict(_) => return Ok(None),
            };
        }
        Ok(Some(Some(merged)))
    }

    /// What should stand at `home` goes to a name beside what stands at `present`, which stays as it is. None if there is
    /// nothing to put.
    fn put_aside(&mut self, home: &ViewPath, present: &ViewPath) -> Result<Option<ViewPath>> {
        let Some(wanted) = self.wanted.get(home).filter(|wanted| !wanted.absent).cloned() else {
            self.leave(home, present);
            return Ok(None);
        };
        let moves = wanted.now.as_ref().is_some_and(|now| now != present);
        let state = if moves { wanted.state.clone() } else { self.old_state(&wanted, present)? };
        let Some(beside) = self.name_beside(present, &wanted, state.as_ref().map(|(_, state)| state))? else {
            self.leave(home, present);
            return Ok(None);
        };
        if moves {
            let below: Vec<ViewPath> = self.wanted.keys().filter(|path| path.starts_with(home)).cloned().collect();
            for path in below {
                if let (Some(rest), Some(wanted)) = (path.strip_prefix(home), self.wanted.remove(&path)) {
                    self.wanted.insert(beside.join_path(&rest), wanted);
                }
            }
            self.gone.remove(present);
            return Ok(Some(beside));
        }
        self.leave(home, present);
        let Some((node, state)) = state else { return Ok(None) };
        let key = wanted.key.filter(|_| wanted.now.is_none());
        let state = Some((node, State { nlink: if key.is_some() { state.nlink } else { 1 }, ..state }));
        self.wanted.insert(beside.clone(), Wanted { state, key, ..Wanted::default() });
        Ok(Some(beside))
    }

    /// `NAME.OPERATION.reverted` in the nearest directory that is there, or the next such name that is free; one where just
    /// this stands already will do.
    fn name_beside(&self, path: &ViewPath, wanted: &Wanted, state: Option<&State>) -> Result<Option<ViewPath>> {
        let (Some(name), Some(mut dir)) = (path.file_name(), path.parent()) else { return Ok(None) };
        if state.is_none() && wanted.now.is_none() {
            return Ok(None);
        }
        while self.look(&dir)?.is_none() {
            let Some(above) = dir.parent() else { break };
            dir = above;
        }
        let op = [Some(path), wanted.now.as_ref()].into_iter().flatten().find_map(|at| self.net.expected.get(at));
        let op = op.map_or_else(|| self.view.core.store.last_op(), Expected::op);
        for number in 1_u32.. {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let suffix = format!(".{op}{again}.reverted");
            let stem = &name.as_bytes()[..name.as_bytes().len().min(NAME_MAX - suffix.len())];
            let Ok(name) = EntryName::new(&[stem, suffix.as_bytes()].concat()) else { break };
            let beside = dir.join(&name);
            let free = !self.wanted.contains_key(&beside)
                && match (self.look(&beside)?, state) {
                    (None, _) => true,
                    (Some(found), Some(state)) => wanted.now.is_none() && self.view.is_as(state, None, &found)?,
                    (Some(_), None) => false,
                };
            if free {
                return Ok(Some(beside));
            }
        }
        Ok(None)
    }
}
