//! `diff`.

use serde::{Deserialize, Serialize};

use super::At;
use crate::WirePath;

/// What to compare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiffArgs {
    /// One file.
    pub a: DiffSide,
    /// The other.
    pub b: DiffSide,
    /// Only these lines of the one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_lines: Option<[u64; 2]>,
    /// Only these lines of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_lines: Option<[u64; 2]>,
    /// Equal lines around each change: 0 to 100. Default 3.
    #[serde(default = "context")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub context: u64,
}

fn context() -> u64 {
    3
}

/// A path, or a path at an earlier moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum DiffSide {
    /// At a moment (or now, without one).
    Moment {
        /// The path.
        path: WirePath,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<At>,
    },
    /// As it is now.
    Path(WirePath),
}

/// How they differ.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffResult {
    /// They do not.
    pub identical: bool,
    /// A unified diff, at most 16,000 characters.
    pub diff: String,
    /// It was cut.
    pub diff_truncated: bool,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The one side.
    pub a: DiffSideResult,
    /// The other.
    pub b: DiffSideResult,
}

/// One side of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffSideResult {
    /// Its path.
    pub path: WirePath,
    /// Its whole content's hash.
    pub hash: String,
    /// Its size.
    pub size: u64,
}
