//! `delete`.

use serde::{Deserialize, Serialize};

use crate::WirePath;

/// What to remove: `path`, or `paths`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteArgs {
    /// One file or directory; of a symbolic link, the link itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// Several, 1 to 1,000: all are removed or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1_000)))]
    pub paths: Option<Vec<WirePath>>,
    /// Also directories that are not empty, with all that is in them.
    #[serde(default)]
    pub recursive: bool,
    /// The hash of the content at `path`, or a prefix of 16 digits or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_hash: Option<String>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}
