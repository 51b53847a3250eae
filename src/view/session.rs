//! A file that is open for writing: from the first open to the last release its changes are one operation, recorded again
//! at each flush that finds something new.

use std::sync::Arc;

use super::{
    Fh, Result, View,
    file::{FileState, Head},
    node::Node,
    record::{Place, changed, loss_of},
};
use crate::{
    crash_point,
    host::Errno,
    types::{Actor, Attr, Kind, OpId, Timestamp, ViewPath},
    versions::{ChangeKind, Content, Loss, OpKind, OpenMark, State},
};

/// What is known of a file while it is open for writing.
pub(crate) struct Session {
    pub op: OpId,
    /// The operation under which the log has the file marked as open.
    pub marked: OpId,
    pub actor: Actor,
    /// Where the file stood when the operation got its number.
    pub place: Place,
    /// Its other names at that time, as far as we know them.
    others: Vec<ViewPath>,
    /// The state before; none if the session's own open created the file.
    pub before: Option<State>,
    /// What `before` says of the content is safe in the store, or cannot be.
    pub kept: bool,
    /// As the file was when it was last recorded.
    pub seen: Attr,
    /// As the file was at the open, or after the last change since then that we know to be of names or metadata only.
    pub left: Attr,
    /// The operation is in the log.
    pub recorded: bool,
    /// It was recorded more than once, or by several handles.
    pub coalesced: bool,
    /// Handles open for writing.
    pub writers: Vec<(Fh, Actor)>,
}

fn same(one: &Attr, other: &Attr) -> bool {
    (one.size, one.mtime, one.ctime) == (other.size, other.mtime, other.ctime)
}

impl FileState {
    /// We changed names or metadata of the file, and they were `old` before and `new` after: that is no sign that its
    /// content was changed behind us.
    pub(crate) fn ours(&mut self, old: &Attr, new: &Attr) {
        if let Some(session) = &mut self.session
            && same(&session.left, old)
        {
            session.left = *new;
        }
    }

    /// As `ours`, after a plan: the file was as `before` says when it was planned, and was to get this time of change.
    /// What was written meanwhile is still to be recorded.
    pub(crate) fn changed_by_us(&mut self, before: &State, mtime: Timestamp, now: &Attr) {
        let Some(session) = &mut self.session else { return };
        let written = now.size != before.size || (now.mtime != before.mtime && now.mtime != mtime);
        if written {
            return;
        }
        let left = &session.left;
        if (left.size, left.mtime, left.ctime) == (before.size, before.mtime, before.ctime) {
            session.left = *now;
        }
        session.seen = *now;
    }
}

impl View {
    /// A handle opens for writing: begins a session, or joins the one there is. With `keep_now` the content is safe on
    /// return; else before the first byte is written through us.
    pub(crate) fn begin(
        &self,
        node: &Arc<Node>,
        state: &mut FileState,
        fh: Fh,
        actor: Actor,
        keep_now: bool,
    ) -> Result<()> {
        let attr = node.file.host.attr()?;
        if let Some(session) = &mut state.session {
            session.writers.push((fh, actor));
            if keep_now {
                self.keep_session(node, state, &attr)?;
            }
            return Ok(());
        }
        let Some(place) = self.recording_place(node) else { return Ok(()) };
        let before = self.before(&place, node, state, &attr, keep_now)?;
        let kept = keep_now || !matches!(before.content, Content::Live(_));
        let id = self.number(node, state)?;
        let op = self.core.store.next_op();
        self.core.store.opened(&OpenMark {
            op,
            actor: actor.clone(),
            time: Timestamp::now(),
            source: place.source.id,
            path: place.path.clone(),
            node: id,
            key: node.file.stable_key(),
            before: before.clone(),
        })?;
        self.named(&node.file)?;
        crash_point!("open-marked");
        state.session = Some(Session {
            op,
            marked: op,
            actor: actor.clone(),
            others: self.other_names(node, &place),
            place,
            before: Some(before),
            kept,
            seen: attr,
            left: attr,
            recorded: false,
            coalesced: false,
            writers: vec![(fh, actor)],
        });
        Ok(())
    }

    /// A handle that created the file goes on writing to it under the operation that recorded the creation.
    #[expect(clippy::too_many_arguments, reason = "the parts of one session")]
    pub(crate) fn begin_created(
        &self,
        node: &Arc<Node>,
        state: &mut FileState,
        op: OpId,
        place: Place,
        attr: Attr,
        fh: Fh,
        actor: Actor,
    ) -> Result<()> {
        if let Head::Known(id, known) = &state.head {
            self.core.store.opened(&OpenMark {
                op,
                actor: actor.clone(),
                time: Timestamp::now(),
                source: place.source.id,
                path: place.path.clone(),
                node: *id,
                key: node.file.stable_key(),
                before: known.clone(),
            })?;
        }
        state.session = Some(Session {
            op,
            marked: op,
            actor: actor.clone(),
            place,
            others: Vec::new(),
            before: None,
            kept: true,
            seen: attr,
            left: attr,
            recorded: true,
            coalesced: false,
            writers: vec![(fh, actor)],
        });
        Ok(())
    }

    /// The paths in the source by which a file is known, but for `place`.
    fn other_names(&self, node: &Node, place: &Place) -> Vec<ViewPath> {
        let names = node.names.lock();
        if names.len() < 2 {
            return Vec::new();
        }
        let paths = names.iter().filter_map(|(parent, name)| Some(self.locate(&parent.path()?.join(name))?.1));
        paths.filter(|path| *path != place.path).collect()
    }

    /// A file that is open for writing lost one of its names. If that is the one under which its operation will be recorded,
    /// another is taken that it had at the open, too: what stands at the old one by then is not the file.
    pub(crate) fn lost_one_name(&self, node: &Node, state: &mut FileState, lost: &Place) {
        let Some(session) = &mut state.session else { return };
        if session.recorded || session.place.path != lost.path {
            return;
        }
        if let Some(place) = self.recording_place(node)
            && session.others.contains(&place.path)
        {
            session.place = place;
        }
    }

    /// Makes the old content safe, before the first byte is destroyed.
    pub(crate) fn keep_session(&self, node: &Node, state: &mut FileState, attr: &Attr) -> Result<()> {
        let Some(session) = &state.session else { return Ok(()) };
        if session.kept {
            return Ok(());
        }
        let place = session.place.clone();
        let id = self.number(node, state)?;
        let content = self.keep(&place, &node.file, attr, id)?;
        let Some(session) = &mut state.session else { return Ok(()) };
        if let Some(before) = &mut session.before {
            // Else something changed since the open that we were not shown: a store through a mapping, or somebody beside us.
            before.content = if same(&session.left, attr) { content } else { Content::Lost(Loss::Mmap) };
        }
        session.kept = true;
        // The log has the file open with its content in place, which from here on is not there any more.
        if let Some(before) = session.before.clone()
            && !session.recorded
        {
            self.core.store.opened(&OpenMark {
                op: session.marked,
                actor: session.actor.clone(),
                time: Timestamp::now(),
                source: place.source.id,
                path: place.path,
                node: id,
                key: node.file.stable_key(),
                before,
            })?;
        }
        self.named(&node.file)
    }

    /// Records what changed since the last time, for the writer `by`.
    pub(crate) fn seal(&self, node: &Node, state: &mut FileState, by: &Actor) -> Result<()> {
        if state.session.is_none() {
            return Ok(());
        }
        let attr = match node.file.host.attr() {
            Ok(attr) => attr,
            Err(Errno::STALE) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(session) = &state.session else { return Ok(()) };
        if same(&session.seen, &attr) || node.file.links(&attr) == 0 {
            return Ok(());
        }
        if !session.kept && same(&session.left, &attr) {
            // Only metadata changed so far. The record of it closes the log's mark that the file is open.
            self.keep_session(node, state, &attr)?;
        }
        let Some(session) = &state.session else { return Ok(()) };
        let known = state.known().cloned();
        // It may have moved since the open.
        let place = (session.recorded && session.actor != *by).then(|| self.recording_place(node)).flatten();
        let Some(session) = &mut state.session else { return Ok(()) };
        if session.recorded && session.actor != *by {
            // Another writer's turn: an operation of its own, from what was last recorded.
            session.op = self.core.store.next_op();
            if let Some(place) = place {
                session.place = place;
            }
            session.before = known.map(|mut before| {
                if matches!(before.content, Content::Live(_)) {
                    before.content = Content::Lost(Loss::Coalesced);
                }
                before
            });
            session.coalesced = true;
        }
        session.actor = by.clone();
        if let Some(before) = &mut session.before
            && !session.kept
        {
            // It changed without a write that we saw.
            before.content = Content::Lost(Loss::Mmap);
            session.kept = true;
        }
        let (op, place, before) = (session.op, session.place.clone(), session.before.clone());
        let (kind, op_kind) = match &before {
            None => (ChangeKind::Create, OpKind::Create),
            Some(old) if old.size == attr.size && old.mtime == attr.mtime => (ChangeKind::Meta, OpKind::Meta),
            Some(_) => (ChangeKind::Write, OpKind::Write),
        };
        let coalesced = session.coalesced;
        let loss = loss_of(&place, before.as_ref());
        let mut change = self.change(&place, node, state, changed(kind, before, Some(attr)))?;
        change.coalesced = coalesced;
        change.unversioned = loss;
        crash_point!("sealing");
        self.append(op, op_kind, by, vec![change])?;
        crash_point!("sealed");
        state.last_op = op;
        if let Some(session) = &mut state.session {
            session.seen = attr;
            session.recorded = true;
        }
        Ok(())
    }

    /// As `seal`, for whoever has the file open for writing, if anybody has.
    pub(crate) fn seal_writer(&self, node: &Node, state: &mut FileState) -> Result<()> {
        match state.session.as_ref().map(|session| session.actor.clone()) {
            Some(by) => self.seal(node, state, &by),
            None => Ok(()),
        }
    }

    /// A writing handle is released: seals, and ends the session with the last one.
    pub(crate) fn end(&self, node: &Arc<Node>, state: &mut FileState, fh: Fh) -> Result<()> {
        let Some(session) = &state.session else { return Ok(()) };
        let Some(by) = session.writers.iter().find(|(writer, _)| *writer == fh).map(|(_, actor)| actor.clone()) else {
            return Ok(());
        };
        let sealed = self.seal(node, state, &by);
        let Some(session) = &mut state.session else { return sealed };
        session.writers.retain(|(writer, _)| *writer != fh);
        if session.writers.is_empty() {
            let (op, recorded, place) = (session.marked, session.recorded, session.place.clone());
            state.session = None;
            self.core.store.closed(op)?;
            crash_point!("session-ended");
            if recorded && node.file.kind == Kind::File {
                self.core.storer.offer(&place, &node.file);
            }
        }
        sealed
    }

    /// Closes a session whose file lost its last name: nothing more of it is recorded.
    pub(crate) fn abandon(&self, state: &mut FileState) -> Result<()> {
        if let Some(session) = state.session.take() {
            self.core.store.closed(session.marked)?;
            state.head = match std::mem::take(&mut state.head) {
                Head::Known(id, _) => Head::Unknown(Some(id)),
                other @ (Head::Unknown(_) | Head::Unloaded) => other,
            };
        }
        Ok(())
    }
}
