//! Temporary files of builds: made and removed by one process, where history is kept shortly anyway. One row tells of them,
//! and no content is kept.

use std::{os::fd::AsFd, sync::Arc};

use super::{Result, View, file::FileState, file::Head, node::Node};
use crate::{
    host,
    types::{Attr, Caller, EntryName, Kind},
    versions::{Change, ChangeKind, Content, Loss, OpKind, State},
};

impl View {
    /// Removes a file that nobody but its maker saw. False, and nothing done, if it is none of those.
    pub(crate) fn remove_transient(
        &self,
        caller: &Caller,
        parent: &Arc<Node>,
        name: &EntryName,
        node: &Arc<Node>,
        state: &mut FileState,
        attr: &Attr,
    ) -> Result<bool> {
        let store = &self.core.store;
        let Some((op, actor)) = state.born.clone() else { return Ok(false) };
        let path = self.path_in(parent, name)?;
        let Some(place) = self.place_of(&path, node.class.unversioned) else { return Ok(false) };
        let is_one = attr.kind == Kind::File
            && node.file.links(attr) <= 1
            && state.last_op == op
            && state.session.is_none()
            && !place.unversioned
            && store.is_short(&place.path)
            && self.actor(caller) == actor
            && store.last_checkpoint() < op;
        let (true, Head::Known(id, known)) = (is_one, &state.head) else { return Ok(false) };
        if !known.is_current(attr) {
            return Ok(false);
        }
        let (id, was) = (*id, State { content: Content::Lost(Loss::Transient), ..known.clone() });
        let dir = parent.file.host.path_fd()?;
        {
            let _caller = host::as_caller(caller);
            host::access(dir.as_fd(), rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
        }
        node.file.host.pin()?;
        host::remove_file(dir.as_fd(), name)?;
        let change = |kind, before: Option<State>, after: Option<State>| Change {
            source: place.source.id,
            path: place.path.clone(),
            kind,
            from: None,
            node: id,
            key: Some(node.file.stable_key()),
            before,
            after,
            staged: None,
            coalesced: false,
            unversioned: Some(Loss::Transient),
        };
        let changes =
            vec![change(ChangeKind::Create, None, Some(was.clone())), change(ChangeKind::Remove, Some(was), None)];
        // In place of the row of its creation.
        self.append(op, OpKind::Create, &actor, changes)?;
        (state.head, state.born) = (Head::Unknown(Some(id)), None);
        Ok(true)
    }
}
