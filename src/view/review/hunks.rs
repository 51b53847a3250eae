//! Hunks of a pending change: as they are shown, with a mark that stands for just what was shown; accepted, they are part of
//! the base; rejected, they are taken out from under what came later.

use super::{Pending, PendingChange, PendingPath, Result, ReviewSelection, View, ViewError};
use crate::{
    text,
    types::{Hash, Kind, OpId, Timestamp, ViewPath},
    versions::{Content, Mark, ReviewStep, State, Whose},
    view::{
        Guard, OnConflict, Request, RevertTarget, Reverted,
        net::{Expected, Wanted},
        revert::Selected,
    },
};

/// Characters of a mark.
const MARK: usize = 12;

/// Hunks of one file that are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HunkSelection {
    /// The file.
    pub path: ViewPath,
    /// Whose change of it; everybody's if only one changed it.
    pub whose: Whose,
    /// Their numbers, from 1, as they were shown.
    pub hunks: Vec<usize>,
    /// The mark that was shown with them.
    pub mark: String,
}

/// What a session did to a file, as texts.
pub struct Patch {
    /// Its base.
    pub before: Vec<u8>,
    /// As the session left it.
    pub after: Vec<u8>,
    /// Stands for the difference between the two.
    pub mark: String,
    /// Its hunks; none if a side is binary, or they cannot be chosen from.
    pub hunks: Option<Vec<text::Hunk>>,
}

/// One file of which hunks are chosen.
struct Chosen {
    whose: Whose,
    row: PendingPath,
    patch: Patch,
    hunks: Vec<text::Hunk>,
}

impl View {
    /// The contents of a pending change of a file; none if it has none, or they are too large or not kept.
    ///
    /// # Errors
    /// The store's; the host's.
    pub fn patch(&self, whose: &Whose, row: &PendingPath) -> Result<Option<Patch>> {
        let _tree = self.core.tree.read();
        self.patch_locked(whose, row)
    }

    fn patch_locked(&self, whose: &Whose, row: &PendingPath) -> Result<Option<Patch>> {
        let is_file = |state: &Option<State>| state.as_ref().is_none_or(|state| state.kind == Kind::File);
        let untouched = matches!(row.change, PendingChange::Metadata)
            || (row.change == PendingChange::Renamed && row.before.is_none());
        if untouched || !is_file(&row.before) || !is_file(&row.after) {
            return Ok(None);
        }
        let bytes = |state: &Option<State>, left| match state {
            None => Ok(Some(Vec::new())),
            Some(state) => match self.bytes_left(state, left, &row.path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(ViewError::VersionPruned { .. } | ViewError::TooLarge { .. } | ViewError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            },
        };
        let (Some(before), Some(after)) = (bytes(&row.before, None)?, bytes(&row.after, row.left)?) else {
            return Ok(None);
        };
        let named = format!("{}\n{whose:?}\n{}\n{}", row.path, Hash::of(&before).hex(), Hash::of(&after).hex());
        let mark = Hash::of(named.as_bytes()).hex()[..MARK].to_owned();
        let may_choose = row.before.is_some() && row.after.is_some() && !row.mixed;
        let hunks = if may_choose { text::hunks(&before, &after) } else { None };
        Ok(Some(Patch { before, after, mark, hunks }))
    }

    fn chosen(&self, selection: &HunkSelection, pending: Pending) -> Result<Chosen> {
        let invalid = |text: String| ViewError::InvalidArgument(format!("{}: {text}", selection.path));
        let mut found = pending
            .sessions
            .into_iter()
            .flat_map(|session| session.paths.into_iter().map(move |path| (session.whose.clone(), path)))
            .filter(|(_, row)| row.path == selection.path);
        let (whose, row) = match (found.next(), found.next()) {
            (Some(only), None) => only,
            (None, _) => return Err(invalid("nothing of it is pending; `wardfs review list` tells what is".into())),
            (Some(_), Some(_)) => return Err(invalid("several sessions changed it; name one with --session".into())),
        };
        let patch = self.patch_locked(&whose, &row)?;
        let patch = patch.ok_or_else(|| invalid("it has no hunks; accept or reject the whole path".into()))?;
        if patch.mark != selection.mark {
            return Err(invalid(format!(
                "the file moved on since mark {} was shown; look at it again with `wardfs review show`, and give the mark \
                 that it prints",
                selection.mark
            )));
        }
        let Some(hunks) = patch.hunks.clone() else {
            return Err(invalid(
                "it is binary, new, or was changed by others in between; accept or reject the whole file".into(),
            ));
        };
        if let Some(number) = selection.hunks.iter().find(|number| !(1..=hunks.len()).contains(*number)) {
            return Err(invalid(format!(
                "there is no hunk {number}; `wardfs review show` numbers them 1 to {}",
                hunks.len()
            )));
        }
        Ok(Chosen { whose, row, patch, hunks })
    }

    fn pending_file(&self, selection: &HunkSelection) -> Result<Pending> {
        let of = ReviewSelection { whose: selection.whose.clone(), paths: vec![selection.path.clone()] };
        self.pending_locked(&of)
    }

    /// Accepts hunks of a pending change: its base has them from now on.
    ///
    /// # Errors
    /// `InvalidArgument`: the file moved on, or has no such hunks; `MovedOn`; the store's.
    pub fn accept_hunks(&self, selection: &HunkSelection, if_head: Option<OpId>) -> Result<()> {
        self.core.record_all_so_far()?;
        if let Some(head) = if_head {
            self.nothing_since(head)?;
        }
        self.core.storer.drain();
        let hold = self.core.store.hold();
        let _tree = self.core.tree.read();
        let Chosen { whose, row, patch, hunks } = self.chosen(selection, self.pending_file(selection)?)?;
        let node = row.base.ok_or_else(|| ViewError::NotFound(row.path.clone()))?;
        let accepted = text::with_hunks(&patch.before, &patch.after, &hunks, |at| selection.hunks.contains(&(at + 1)));
        let (hash, _) = self.core.store.put_blob(&accepted)?;
        let base = self.core.store.reviewed(&self.name)?.base(&whose, node);
        let recorded = self.record_review(ReviewStep::Accepted, &whose, Some(vec![node]), base, Some(hash));
        drop(hold);
        recorded
    }

    /// Takes hunks of a pending change out from under what came later, as one operation.
    ///
    /// # Errors
    /// As `accept_hunks`; `RevertConflict`: they do not come out cleanly, and nothing is changed.
    pub fn reject_hunks(
        &self,
        request: &Request,
        selection: &HunkSelection,
        if_head: Option<OpId>,
    ) -> Result<Reverted> {
        let pending =
            self.pending(&ReviewSelection { whose: selection.whose.clone(), paths: vec![selection.path.clone()] })?;
        let Chosen { whose, row, .. } = {
            let _tree = self.core.tree.read();
            self.chosen(selection, pending)?
        };
        let target = RevertTarget::Hunks(selection.clone());
        let guard = Guard { confirm_token: None, if_head };
        let reverted = self.revert(request, &target, OnConflict::Merge, guard)?;
        if let Some(op) = reverted.done.op {
            let mark = Mark { op, ..self.core.store.now() };
            self.record_review(ReviewStep::Rejected, &whose, Some(row.nodes.into_iter().collect()), mark, None)?;
        }
        Ok(reverted)
    }

    /// What a rejection of hunks takes back: the file as the session left it becomes one without them. The tree lock is held.
    pub(in crate::view) fn select_hunks(&self, selection: &HunkSelection) -> Result<Selected> {
        let Chosen { row, patch, hunks, .. } = self.chosen(selection, self.pending_file(selection)?)?;
        let without = text::with_hunks(&patch.before, &patch.after, &hunks, |at| !selection.hunks.contains(&(at + 1)));
        let (hash, _) = self.core.store.put_blob(&without)?;
        let mut selected = Selected::default();
        if let (Some((op, node)), Some(left)) = (row.left, row.after) {
            let (size, mtime) = (without.len() as u64, Timestamp::now());
            let state = State { content: Content::Blob(hash), size, mtime, ..left.clone() };
            let wanted = Wanted { now: Some(row.path.clone()), state: Some((node, state)), ..Wanted::default() };
            selected.net.wanted.insert(row.path.clone(), wanted);
            selected.net.expected.insert(row.path, Expected::State { op, node, state: Box::new(left) });
            selected.operations = row.operations.into_iter().rev().collect();
        }
        Ok(selected)
    }
}
