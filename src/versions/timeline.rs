//! What stood at a path at an earlier moment, found from the first change after it.

use super::State;
use crate::types::{NodeId, OpId, ViewPath};

/// The answer of [`super::Store::path_at`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathAt {
    /// Nothing changed it since: what stands now at this path (perhaps under another name today) is what stood there.
    Now(ViewPath),
    /// It was so; `op` is the last operation that made it so, if the log knows one. `state.content` is resolved
    /// as far as the log can.
    Was {
        /// The inode.
        node: NodeId,
        /// Its state.
        state: State,
        /// The change that came first after the moment.
        next: OpId,
    },
    /// Nothing stood there.
    Absent,
}
