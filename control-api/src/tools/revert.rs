//! `revert`.

use serde::{Deserialize, Serialize};

use super::{At, MutationResult};
use crate::WirePath;

/// What to take back: one of `path`, `operation`, `last`, `actor` or `session`, `checkpoint`, `time`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevertArgs {
    /// This path and all below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// With `path`: to this moment. Without it, to the state before its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<At>,
    /// One operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// The last step: the last change that holds (a save of several steps is one; with `actor` or `session`, theirs), or the
    /// last taking back, to put its changes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastStep>,
    /// All that this actor did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<super::ActorArgs>,
    /// All that this session did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// With `actor` or `session`: after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<At>,
    /// All that was done after this checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// All that was done after this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What to do with paths that changed later.
    #[serde(default)]
    pub on_conflict: OnRevertConflict,
    /// The token of a dry run, for exactly what that told, once. Wanted with `to`, `checkpoint` and `time` if more than 100
    /// paths, or more than a tenth of all, would be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_token: Option<String>,
    /// Only if nothing was recorded in this view after this operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_head: Option<u64>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Show what would be done, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The last thing that was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LastStep {
    /// The last change that was not taken back.
    Change,
    /// The last undo, if nothing was done after it: a redo.
    Undo,
}

/// What to do with a path that somebody changed later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnRevertConflict {
    /// Refuse the whole revert.
    #[default]
    Fail,
    /// Leave such paths alone.
    Skip,
    /// Merge texts; what does not merge cleanly refuses the whole revert.
    Merge,
    /// Put the old state back all the same; the present one stays in history.
    Force,
    /// Put the old content beside it, as `NAME.OPERATION.reverted`.
    Aside,
}

/// What was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevertResult {
    /// The operations that were taken back, newest first, at most 1,000.
    pub reverted: Vec<u64>,
    /// Paths that were left alone.
    #[serde(default)]
    pub conflicts: Vec<ConflictInfo>,
    /// Of a dry run: the revert would be refused for its conflicts, and nothing changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Of a dry run that would remove more than 100 paths or a tenth of all: give it back to have just that done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_token: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub mutation: MutationResult,
}

/// A path that stands in the way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConflictInfo {
    /// Which.
    pub path: WirePath,
    /// content, meta (owner, mode or attributes were changed later: they stay, the rest is taken back), modified_since, occupied, no_parent, not_empty, unavailable or busy.
    pub conflict: String,
    /// In words: who changed it, and when.
    pub detail: String,
    /// What the reverted operations did to it, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_diff: Option<String>,
    /// What was done to it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_diff: Option<String>,
}
