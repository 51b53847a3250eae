//! `edit`.

use serde::{Deserialize, Serialize};

use super::MutationResult;
use crate::{ToolError, WirePath};

/// What to change in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// The file.
    pub path: WirePath,
    /// The hash of the content that the edits were made for, or a prefix of 16 digits or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_hash: Option<String>,
    /// The edits. All are matched against the content as it is, and all are made or none.
    #[serde(default)]
    pub edits: Vec<EditItem>,
    /// Each edit sees what those before it made.
    #[serde(default)]
    pub sequential: bool,
    /// Make the edits that can be made, and report the others.
    #[serde(default)]
    pub partial: bool,
    /// What to do if the content is not the expected one.
    #[serde(default)]
    pub on_conflict: OnEditConflict,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// One edit, in one of three forms: `old_text` and `new_text`; `insert_at_line` and `text`; `lines` and `text`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EditItem {
    /// The text to replace, exactly as it stands in the file; it must stand there once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// What takes its place, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_text: Option<String>,
    /// Replace it wherever it stands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Replace the n-th, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u64>,
    /// Replace the one nearest to this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_line: Option<u64>,
    /// Insert `text` before this line; the number of lines and one more appends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_at_line: Option<u64>,
    /// Replace these lines, first and last, with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[u64; 2]>,
    /// The new lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What must stand in `lines` now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
}

/// What to do if the content is not the expected one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnEditConflict {
    /// Fail with `hash_conflict`.
    #[default]
    Fail,
    /// Make the edits in the expected content, and merge them with what changed since, if they touch other lines.
    Merge,
}

/// What was changed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditResult {
    /// The file.
    pub path: WirePath,
    /// Its hash now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What was replaced, in order of place.
    pub spans: Vec<EditedSpan>,
    /// Edits that were not made, if `partial` was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<EditFailure>,
    /// The content was not the expected one, and the edits were merged with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
    /// The change.
    #[serde(flatten)]
    pub mutation: MutationResult,
}

/// One replaced place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditedSpan {
    /// Which edit did it, from 0.
    pub edit: u64,
    /// The line at which it began in the text that the edit saw.
    pub line: u64,
}

/// An edit that was not made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditFailure {
    /// Which, from 0.
    pub edit: u64,
    /// Why.
    pub error: ToolError,
}
