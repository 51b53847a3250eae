//! What a start after a crash found in the log, for the layer above to finish on the served files.

use super::{OpenMark, Operation};

/// Work left by a crash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Guarded mutations that were recorded and perhaps not applied: roll forward.
    pub intents: Vec<Operation>,
    /// Files that were open for writing: look, and seal if they changed.
    pub open: Vec<OpenMark>,
    /// Names in `aside/` that no record explains (a crash between the move and the record), with the node and the
    /// operation number that their names tell.
    pub orphans: Vec<crate::types::EntryName>,
    /// What was found, one sentence each, for `status` and the log.
    pub notes: Vec<String>,
}
