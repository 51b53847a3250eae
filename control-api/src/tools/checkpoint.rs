//! `checkpoint`.

use serde::{Deserialize, Serialize};

/// How to call this moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckpointArgs {
    /// Its name, 1 to 128 characters; a later one of the same name takes it over.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

/// The point in the log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointResult {
    /// Its name.
    pub name: String,
    /// The last operation before it; 0 if there was none.
    pub operation: u64,
    /// When.
    pub time: String,
    /// The answer recorded under the same `operation_id`; the name was not given again.
    #[serde(default)]
    pub replayed: bool,
}
