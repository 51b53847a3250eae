//! `move` and `copy`.

use serde::{Deserialize, Serialize};

use crate::WirePath;

/// From where to where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveArgs {
    /// The file or directory; of a symbolic link, the link itself.
    pub from: WirePath,
    /// Its new path. Missing directories above it are made.
    pub to: WirePath,
    /// Replace a file or an empty directory that is there.
    #[serde(default)]
    pub overwrite: bool,
    /// The hash of the content at `from`, or a prefix of 16 digits or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_hash: Option<String>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}
