//! What every tool that changes files answers.

use serde::{Deserialize, Serialize};

use super::{ChangeWord, FileType};
use crate::WirePath;

/// What was done, or by a dry run would be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MutationResult {
    /// Its number in the log; absent for a dry run, and if nothing had to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// The answer recorded under the same `operation_id`; nothing was done again.
    pub replayed: bool,
    /// Nothing was done: it was only checked.
    pub dry_run: bool,
    /// Each path, at most 1,000 of them.
    pub paths: Vec<TouchedPath>,
    /// How many there are in all.
    pub paths_total: u64,
    /// A unified diff of the texts among them, at most 16,000 characters.
    pub diff: String,
    /// It was cut.
    pub diff_truncated: bool,
}

/// One path that was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TouchedPath {
    /// From the view's root.
    pub path: WirePath,
    /// Where it came from, for moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<WirePath>,
    /// What happened.
    pub change: ChangeWord,
    /// Before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SideInfo>,
    /// After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SideInfo>,
}

/// One side of a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideInfo {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Bytes.
    pub size: u64,
    /// The content's hash, for files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The operation that made it so, where the log knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
