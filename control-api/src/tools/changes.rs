//! `changes`.

use serde::{Deserialize, Serialize};

use super::{ActorArgs, OperationInfo};

/// Since when.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangesArgs {
    /// `next` of an earlier answer; without it, from now on: the answer holds nothing but `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only by this actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorArgs>,
    /// If nothing changed yet, how long to wait for something, in milliseconds: 0 to 60,000.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 60_000)))]
    pub wait_ms: u64,
}

/// What changed, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangesResult {
    /// The operations. One whose file is still open and was written again is told again, with the same number.
    pub operations: Vec<OperationInfo>,
    /// There are more already: ask again with `next`.
    pub more: bool,
    /// Give it as `since` the next time.
    pub next: String,
}
