//! The changes since the base, oldest first, each with the session whose it is, as far as it is pending.

use std::collections::{BTreeMap, HashMap};

use super::{Result, View};
use crate::{
    types::{Actor, NodeId, OpId},
    versions::{Content, OpKind, Reviewed, State, Whose},
    view::{history::ViewChange, net::Net},
};

/// One change.
pub(super) struct Step {
    pub op: OpId,
    pub actor: Actor,
    /// Whose pending change it is; none if it is accepted, or was not made through the view.
    pub owner: Option<Whose>,
    pub change: ViewChange,
}

impl Step {
    /// Is it a pending change of theirs?
    pub fn is_of(&self, whose: &Whose) -> bool {
        self.owner.as_ref().is_some_and(|owner| whose.includes(owner))
    }
}

impl View {
    /// All recorded changes after the base that the view may see.
    pub(super) fn review_steps(&self, reviewed: &Reviewed) -> Result<Vec<Step>> {
        let Some(floor) = reviewed.floor() else { return Ok(Vec::new()) };
        let mut owners: HashMap<NodeId, Whose> = HashMap::new();
        let mut steps = Vec::new();
        for (op, lsn) in self.core.store.recorded_from(floor.position)? {
            let Some(operation) = self.core.store.operation(op)?.and_then(|operation| self.shown(operation)) else {
                continue;
            };
            let through = operation.actor.view.as_deref() == Some(self.name.as_str());
            let own = through.then(|| Whose::of(&operation.actor));
            for change in operation.changes {
                let taken_back = match reviewed.rejected(op) {
                    Some(Whose::All) => None,
                    Some(whose) => Some(whose.clone()),
                    // Who takes a change back ends it, whoever he is.
                    None if operation.kind == OpKind::Revert => {
                        owners.get(&change.node).cloned().or_else(|| own.clone())
                    }
                    None => own.clone(),
                };
                let owner = taken_back.filter(|whose| reviewed.is_pending(whose, change.node, op, lsn));
                if let Some(owner) = &owner {
                    owners.insert(change.node, owner.clone());
                }
                steps.push(Step { op, actor: operation.actor.clone(), owner, change });
            }
        }
        Ok(steps)
    }

    /// The net effect of some of the changes, on top of what is accepted of files in part.
    pub(super) fn review_net(&self, reviewed: &Reviewed, steps: &[&Step]) -> Result<Net> {
        let mut net = Net::default();
        let mut parts: BTreeMap<NodeId, State> = BTreeMap::new();
        for step in steps.iter().rev() {
            net.undo(step.op, &step.change);
            let part = step.owner.as_ref().and_then(|owner| reviewed.content(owner, step.change.node));
            if let (Some(hash), Some(before)) = (part, &step.change.before) {
                let size = self.core.store.read_all(&Content::Blob(hash), crate::view::core::COPY_MAX)?.len() as u64;
                parts.insert(step.change.node, State { content: Content::Blob(hash), size, ..before.clone() });
            }
        }
        for wanted in net.wanted.values_mut() {
            let part = wanted.state.as_mut().and_then(|(node, state)| Some((parts.get(node)?, state)));
            if let Some((part, state)) = part {
                // The same content again would bear the time of another one.
                (state.content, state.size) = (part.content.clone(), part.size);
                state.mtime = crate::types::Timestamp::now();
            }
        }
        Ok(net)
    }
}
