//! What stands in the way of a revert: found by comparing what its changes left behind with what is there now.

use std::collections::{HashMap, HashSet};

use super::Restore;
use crate::{
    types::{Kind, NodeId, OpId, ViewPath},
    versions::{Content, State},
    view::{
        Conflict, ConflictCode, Found, Result, View, ViewError,
        history::ViewQuery,
        net::{Expected, Wanted},
    },
};

/// A conflict, and what of the net effect it is about.
pub(super) struct Clash {
    pub conflict: Conflict,
    /// Where what is in conflict shall stand, by its path as it will be.
    pub home: ViewPath,
}

impl Restore<'_> {
    /// What is not as the changes to be taken back left it, and what cannot be put back. With `all`, every later change is
    /// taken back, too, so that only what is open or lost stands in the way.
    pub(super) fn clashes(&mut self, all: bool) -> Result<Vec<Clash>> {
        let homes: HashMap<ViewPath, ViewPath> = self
            .wanted
            .iter()
            .filter(|(_, wanted)| !wanted.absent)
            .filter_map(|(path, wanted)| Some((wanted.now.clone()?, path.clone())))
            .collect();
        let mut clashes = Vec::new();
        for (path, expected) in &self.net.expected {
            let Expected::State { op, node, state } = expected else { continue };
            let home = homes.get(path).unwrap_or(path);
            let found = self.look(path)?;
            let later = if all { None } else { self.changed_later(home, (*op, *node), state, found.as_ref())? };
            let later = match later {
                None | Some((ConflictCode::Meta, _)) if !all && self.changed_between(home, path, found.as_ref())? => {
                    Some(self.between(home))
                }
                later => later,
            };
            let busy = match &found {
                Some(found) if self.touches(home, path) && self.busy(found)? => {
                    Some((ConflictCode::Busy, "it is open for writing"))
                }
                Some(_) | None => None,
            };
            if let Some((code, detail)) = busy.or(later) {
                let detail = self.view.blame(path, detail);
                clashes.push(Clash { conflict: Conflict { path: path.clone(), code, detail }, home: home.clone() });
            }
        }
        let known: HashSet<ViewPath> = clashes.iter().map(|clash| clash.home.clone()).collect();
        let mut more = self.lost()?;
        if !all {
            more.extend(self.without_parents()?);
        }
        clashes.extend(more.into_iter().filter(|clash| !known.contains(&clash.home)));
        Ok(clashes)
    }

    /// How what stands at a path now is not as the last of the changes left it.
    fn changed_later(
        &self,
        home: &ViewPath,
        at: (OpId, NodeId),
        state: &State,
        found: Option<&Found>,
    ) -> Result<Option<(ConflictCode, &'static str)>> {
        let wanted = self.wanted.get(home).filter(|wanted| !wanted.absent);
        let Some(found) = found else {
            return Ok(wanted.map(|_| (ConflictCode::Content, "it was removed later")));
        };
        let old = wanted.and_then(|wanted| wanted.state.as_ref()).map(|(_, old)| old);
        if self.view.is_as(state, Some(at), found)? {
            let kept = match old {
                Some(old) => self.other_meta(state, found)? && self.other_meta(old, found)?,
                None => false,
            };
            return Ok(kept.then_some((ConflictCode::Meta, "its owner, mode or attributes were changed later")));
        }
        if let Some(old) = old
            && wanted.is_some_and(|wanted| wanted.now.as_ref().is_none_or(|now| now == home))
            && self.view.is_as(old, None, found)?
        {
            return Ok(None);
        }
        Ok(Some(match wanted {
            Some(_) => (ConflictCode::Content, "its content was changed later"),
            None => (ConflictCode::ModifiedSince, "it was changed after it was created"),
        }))
    }

    /// Was it changed by others between the changes that are taken back, and is not what it was before all of them?
    fn changed_between(&self, home: &ViewPath, path: &ViewPath, found: Option<&Found>) -> Result<bool> {
        let Some(all) = self.net.between.get(path) else { return Ok(false) };
        let old = self.wanted.get(home).and_then(|wanted| wanted.state.as_ref());
        if let (Some((_, old)), Some(found)) = (old, found)
            && self.view.is_as(old, None, found)?
        {
            return Ok(false);
        }
        for between in all {
            let left = self.view.core.store.content_of(between.node, between.op)?;
            let left = State { content: left, ..between.left.clone() };
            if left.hash().is_none() || left.hash() != between.found.hash() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn between(&self, home: &ViewPath) -> (ConflictCode, &'static str) {
        match self.wanted.get(home).filter(|wanted| !wanted.absent) {
            Some(_) => (ConflictCode::Content, "others changed it in between"),
            None => (ConflictCode::ModifiedSince, "others changed it after it was created"),
        }
    }

    /// Is what stands at `path`, and shall stand at `home`, changed or moved or removed?
    fn touches(&self, home: &ViewPath, path: &ViewPath) -> bool {
        let wanted = self.wanted.get(home).filter(|wanted| !wanted.absent);
        self.gone.contains(path) || wanted.is_some_and(|wanted| wanted.state.is_some() || home != path)
    }

    /// Has somebody the file open for writing? While there is time, he is waited for.
    fn busy(&self, found: &Found) -> Result<bool> {
        if found.attr.kind != Kind::File {
            return Ok(false);
        }
        let free = self.view.no_writer(&found.path, &found.node.file.state.lock());
        match free {
            Ok(()) => Ok(false),
            Err(ViewError::WriterOpen { .. }) if !self.waits => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Files that cannot be put back, since their old content is not there, and they live on under no other name.
    fn lost(&mut self) -> Result<Vec<Clash>> {
        let files = self.wanted.iter().filter(|(_, wanted)| !wanted.absent).filter_map(|(path, wanted)| {
            let (_, state) = wanted.state.as_ref()?;
            let lives = matches!(state.content, Content::Live(_));
            let reason = self.view.unavailable(state).filter(|_| state.kind == Kind::File && !lives)?;
            let key = wanted.key.clone().filter(|_| wanted.now.is_none() && state.nlink > 1);
            Some((path.clone(), key, reason))
        });
        let mut clashes = Vec::new();
        for (path, key, reason) in files.collect::<Vec<_>>() {
            if key.is_none() || !self.lives(&path, &key)? {
                let detail = format!("its old content is not in the store ({reason})");
                clashes.push(clash(&path, &path, ConflictCode::Unavailable, detail));
            }
        }
        Ok(clashes)
    }

    /// What shall move back into a directory that is not there any more.
    fn without_parents(&self) -> Result<Vec<Clash>> {
        let mut clashes = Vec::new();
        for (path, wanted) in &self.wanted {
            let moves = !wanted.absent && wanted.now.as_ref().is_some_and(|now| now != path);
            let Some(parent) = path.parent().filter(|_| moves) else { continue };
            let comes = self.wanted.get(&parent).is_some_and(|wanted| !wanted.absent);
            if !comes && self.look(&self.net.present(&parent))?.is_none() {
                let detail = format!("its directory {parent} is not there any more");
                clashes.push(clash(path, path, ConflictCode::NoParent, detail));
            }
        }
        Ok(clashes)
    }

    /// Directories that shall go and hold what stays.
    pub(super) fn not_empty(&self) -> Result<Vec<Clash>> {
        let mut leaving = self.leaving();
        let mut gone: Vec<&ViewPath> = self.gone.iter().collect();
        gone.sort_by_key(|path| std::cmp::Reverse(path.depth()));
        let mut clashes = Vec::new();
        for path in gone {
            let Some(found) = self.look(path)?.filter(|found| found.attr.kind == Kind::Dir) else { continue };
            if !self.stays(path, &found) && !self.empties(&found, &leaving)? {
                leaving.remove(path);
                let detail = "it holds other entries now, so it stays".to_owned();
                clashes.push(clash(path, path, ConflictCode::NotEmpty, detail));
            }
        }
        Ok(clashes)
    }

    /// What shall stand where something else stands that does not go away.
    pub(super) fn blocked(&self) -> Result<Vec<Clash>> {
        let leaving = self.leaving();
        let mut clashes = Vec::new();
        for (path, wanted) in self.wanted.iter().filter(|(_, wanted)| !wanted.absent) {
            let slot = self.before_moves(path);
            if wanted.now.as_ref() == Some(&slot) || leaving.contains(&slot) {
                continue;
            }
            let Some(found) = self.look(&slot)? else { continue };
            if wanted.now.is_none()
                && let Some((_, state)) = &wanted.state
                && self.view.is_as(state, None, &found)?
            {
                continue;
            }
            let detail = self.view.blame(&slot, "something else stands there now");
            clashes.push(clash(&slot, path, ConflictCode::Occupied, detail));
        }
        Ok(clashes)
    }

    /// Are mode, owner or extended attributes other than a state says?
    pub(super) fn other_meta(&self, state: &State, found: &Found) -> Result<bool> {
        let attr = found.node.file.host.attr()?;
        Ok((state.mode, state.uid, state.gid) != (attr.mode, attr.uid, attr.gid)
            || state.xattrs != self.view.xattrs_of(&found.node)?)
    }

    /// The state that a path shall have, with a content that stayed where it was as the last change left it.
    pub(super) fn old_state(&self, wanted: &Wanted, present: &ViewPath) -> Result<Option<(NodeId, State)>> {
        let Some(Expected::State { op, node, state }) = self.net.expected.get(present) else {
            return Ok(wanted.state.clone());
        };
        let (id, mut old) = wanted.state.clone().unwrap_or_else(|| (*node, (**state).clone()));
        if let (Content::Live(_), Kind::File) = (&old.content, old.kind) {
            old.content = match &state.content {
                Content::Live(_) => self.view.core.store.content_of(*node, *op)?,
                Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) | Content::Lost(_) => {
                    state.content.clone()
                }
            };
            old.size = state.size;
        }
        Ok(Some((id, old)).filter(|(_, old)| self.view.unavailable(old).is_none()))
    }
}

fn clash(path: &ViewPath, home: &ViewPath, code: ConflictCode, detail: String) -> Clash {
    Clash { conflict: Conflict { path: path.clone(), code, detail }, home: home.clone() }
}

impl View {
    /// Who changed a path last, in words.
    fn blame(&self, path: &ViewPath, what: &str) -> String {
        let query = ViewQuery { path: Some(path.clone()), limit: 1, ..ViewQuery::default() };
        let last = self.history(&query).ok().and_then(|page| page.operations.into_iter().next());
        match last {
            Some(last) => {
                let who = last.actor.session.or(last.actor.command).unwrap_or_else(|| last.actor.channel.word().into());
                format!("{what} (operation {} by {who}, {})", last.op, last.time.rfc3339())
            }
            None => format!("{what} (not through wardfs)"),
        }
    }
}
