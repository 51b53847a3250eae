//! `mkdir`.

use serde::{Deserialize, Serialize};

use crate::WirePath;

/// Which directories.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MkdirArgs {
    /// The directories, 1 to 1,000. One that is there already is no error.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1_000)))]
    pub paths: Vec<WirePath>,
    /// Also make missing directories above them.
    #[serde(default)]
    pub parents: bool,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}
