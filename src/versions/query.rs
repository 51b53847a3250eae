//! Questions to the history.

use super::Operation;
use crate::types::{Channel, NodeId, OpId, SourceId, Timestamp, ViewPath};

/// A moment, by number or by clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// An operation.
    Op(OpId),
    /// A time.
    Time(Timestamp),
}

/// Which actors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActorFilter {
    /// Only this way in.
    pub channel: Option<Channel>,
    /// Only this session.
    pub session: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only commands that contain this.
    pub command: Option<String>,
}

/// Which operations. Empty: all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryQuery {
    /// Only these sources; empty for all.
    pub sources: Vec<SourceId>,
    /// Only operations that touch this path, or anything below it; renames are followed backwards.
    pub path: Option<(SourceId, ViewPath)>,
    /// Only operations that touch this inode.
    pub node: Option<NodeId>,
    /// Only this actor.
    pub actor: ActorFilter,
    /// After this moment (exclusive).
    pub after: Option<Bound>,
    /// Up to this moment (inclusive).
    pub until: Option<Bound>,
    /// Oldest first.
    pub oldest_first: bool,
    /// At most so many; 0 is 100.
    pub limit: usize,
}

/// One page of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryPage {
    /// The operations.
    pub operations: Vec<Operation>,
    /// There are more beyond the limit.
    pub more: bool,
}
