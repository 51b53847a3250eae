//! `transaction`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is to be done, all of it or nothing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransactionArgs {
    /// 1 to 256 operations, checked and applied in this order. No two of them may touch the same path, but that a file may be
    /// written or edited again, and that directories made earlier may be filled.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub ops: Vec<TransactionOp>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything and show what would be done, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// One operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransactionOp {
    /// The tool.
    pub tool: TransactionTool,
    /// Its arguments, without `operation_id` and `dry_run`.
    pub arguments: Map<String, Value>,
}

/// The tools that a transaction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TransactionTool {
    /// `write`, but not with `on_exists: "rename"`.
    Write,
    /// `edit`, but not with `on_conflict: "merge"` or `partial`.
    Edit,
    /// `move`.
    Move,
    /// `copy`.
    Copy,
    /// `mkdir`.
    Mkdir,
    /// `delete`.
    Delete,
}
