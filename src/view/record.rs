//! Changes as the log wants them: where, of which inode, from which state to which.

use std::sync::Arc;

use super::{
    Result, Source, View, ViewError,
    file::{FileState, Head},
    node::Node,
};
use crate::{
    crash_point,
    types::{Actor, Attr, NodeId, OpId, Timestamp, ViewPath},
    versions::{Change, ChangeKind, Content, Loss, OpKind, Operation, State},
};

/// Where a change is recorded: a source, and a path in it.
#[derive(Clone)]
pub(crate) struct Place {
    pub source: Arc<Source>,
    pub path: ViewPath,
    /// By policy, contents here are not kept.
    pub unversioned: bool,
}

/// A change about to be recorded.
pub(crate) struct Changed {
    pub kind: ChangeKind,
    pub before: Option<State>,
    pub after: Option<Attr>,
    pub from: Option<ViewPath>,
}

/// A change of one path.
pub(crate) fn changed(kind: ChangeKind, before: Option<State>, after: Option<Attr>) -> Changed {
    Changed { kind, before, after, from: None }
}

impl View {
    /// Where changes of this node are recorded; `None` if it has no name any more.
    pub(crate) fn recording_place(&self, node: &Node) -> Option<Place> {
        self.place_of(&self.true_path(node)?, node.class.unversioned)
    }

    /// The place of a path of this view.
    pub(crate) fn place_of(&self, path: &ViewPath, unversioned: bool) -> Option<Place> {
        let (source, path) = self.locate(path)?;
        Some(Place { source: Arc::clone(source), path, unversioned })
    }

    /// A path by which the node can be found now: names that others moved away are passed over.
    fn true_path(&self, node: &Node) -> Option<ViewPath> {
        use std::os::fd::AsFd;
        let names = node.names.lock().clone();
        if node.ino == crate::types::Ino::ROOT
            || (self.is_multi() && names.iter().any(|(p, _)| p.ino == crate::types::Ino::ROOT))
        {
            return node.path();
        }
        names.iter().rev().find_map(|(parent, name)| {
            let dir = parent.file.host.path_fd().ok()?;
            let attr = crate::host::stat_child(dir.as_fd(), name).ok()?;
            (attr.ino == node.file.host.key().ino).then(|| parent.path().map(|path| path.join(name)))?
        })
    }

    /// Says in the log what is about to be done to names or metadata, so that a crash between the host's call and its record
    /// cannot hide it. Costs no flush.
    pub(crate) fn announce(&self, kind: OpKind, actor: &Actor, changes: Vec<Change>) -> Result<OpId> {
        let op = self.core.store.next_op();
        self.core.store.begun(&operation(op, kind, actor, changes))?;
        crash_point!("announced");
        Ok(op)
    }

    /// The host refused what was announced: nothing came of it.
    pub(crate) fn call_off<T>(&self, op: OpId, error: impl Into<ViewError>) -> Result<T> {
        self.core.store.aborted(op)?;
        Err(error.into())
    }

    /// A change of a file that stands, as it is announced: what stands after it is seen when it is done.
    pub(crate) fn expected(
        &self,
        place: &Place,
        node: &Node,
        state: &mut FileState,
        kind: ChangeKind,
        before: Option<State>,
    ) -> Result<Change> {
        let id = self.number(node, state)?;
        Ok(Change { key: Some(node.file.stable_key()), ..bare(place, kind, id, before) })
    }

    /// Records one operation of one change that was announced, and what the log knows of the file now.
    #[expect(clippy::too_many_arguments, reason = "the parts of one record")]
    pub(crate) fn record(
        &self,
        op: OpId,
        place: &Place,
        node: &Node,
        state: &mut FileState,
        kind: OpKind,
        actor: &Actor,
        change: Changed,
    ) -> Result<()> {
        let change = self.change(place, node, state, change)?;
        self.append(op, kind, actor, vec![change])?;
        state.last_op = op;
        Ok(())
    }

    /// One change; the file's head is what it says after.
    pub(crate) fn change(&self, place: &Place, node: &Node, state: &mut FileState, change: Changed) -> Result<Change> {
        let id = self.number(node, state)?;
        let after = match change.after {
            Some(attr) => Some(self.after(place, node, change.before.as_ref(), change.kind, &attr)?),
            None => None,
        };
        state.head = match (&after, change.kind) {
            (Some(after), _) => Head::Known(id, after.clone()),
            (None, _) => Head::Unknown(Some(id)),
        };
        Ok(Change {
            source: place.source.id,
            path: place.path.clone(),
            kind: change.kind,
            from: change.from,
            node: id,
            key: Some(node.file.stable_key()),
            unversioned: loss_of(place, change.before.as_ref()),
            before: change.before,
            after,
            staged: None,
            coalesced: false,
        })
    }

    /// The file's number in the log, given now if it has none.
    pub(crate) fn number(&self, node: &Node, state: &mut FileState) -> Result<NodeId> {
        self.load(node, state)?;
        Ok(match &state.head {
            Head::Known(id, _) | Head::Unknown(Some(id)) => *id,
            Head::Unknown(None) | Head::Unloaded => {
                let id = self.core.store.next_node();
                state.head = Head::Unknown(Some(id));
                id
            }
        })
    }

    /// The state after a change. Content that only moved or got other metadata stays what it was.
    fn after(
        &self,
        place: &Place,
        node: &Node,
        before: Option<&State>,
        kind: ChangeKind,
        attr: &Attr,
    ) -> Result<State> {
        let content = match (kind, before) {
            (ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Link, Some(before)) => before.content.clone(),
            (ChangeKind::Write | ChangeKind::Create | ChangeKind::Remove | ChangeKind::Exchange, _)
            | (ChangeKind::Meta | ChangeKind::Rename | ChangeKind::Link, None) => {
                self.fresh_content(place, node, attr)?
            }
        };
        let mut after = State::of(attr, content);
        after.nlink = node.file.links(attr);
        after.xattrs = self.xattrs_of(node)?;
        Ok(after)
    }

    /// Appends one operation.
    pub(crate) fn append(&self, op: OpId, kind: OpKind, actor: &Actor, changes: Vec<Change>) -> Result<()> {
        self.core.store.append(&operation(op, kind, actor, changes))?;
        Ok(())
    }
}

fn operation(op: OpId, kind: OpKind, actor: &Actor, changes: Vec<Change>) -> Operation {
    Operation {
        op,
        time: Timestamp::now(),
        actor: actor.clone(),
        kind,
        changes,
        operation_id: None,
        request: None,
        note: None,
        undoes: Vec::new(),
        intent: false,
    }
}

/// A change of which nothing else is known yet.
pub(crate) fn bare(place: &Place, kind: ChangeKind, node: NodeId, before: Option<State>) -> Change {
    Change {
        source: place.source.id,
        path: place.path.clone(),
        kind,
        from: None,
        node,
        key: None,
        unversioned: loss_of(place, before.as_ref()),
        before,
        after: None,
        staged: None,
        coalesced: false,
    }
}

/// Why a change's contents are not kept, if they are not.
pub(crate) fn loss_of(place: &Place, before: Option<&State>) -> Option<Loss> {
    if place.unversioned {
        return Some(Loss::Policy);
    }
    match before.map(|state| &state.content) {
        Some(Content::Lost(loss)) => Some(*loss),
        Some(Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) | Content::Live(_)) | None => {
            None
        }
    }
}
