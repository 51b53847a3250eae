//! Errors of tools: a stable code, a message that says what to do, and whether anything was changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ErrorCode, WirePath};

/// Why a tool call failed: the structured content of a result with `isError: true`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{code}: {message}")]
pub struct ToolError {
    /// What went wrong.
    pub code: ErrorCode,
    /// In words, with what to do next.
    pub message: String,
    /// On what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// More, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Value>>,
    /// The same call may succeed in a moment.
    pub retryable: bool,
    /// Something may have been changed nevertheless: the store failed on the way, and the next start of the daemon decides.
    pub applied: bool,
}

impl ToolError {
    /// An error without path and details, retryable if its code is, with nothing applied.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ToolError {
            code,
            message: message.into(),
            path: None,
            details: None,
            retryable: code.retryable(),
            applied: false,
        }
    }

    /// The same, on a path.
    #[must_use]
    pub fn on(mut self, path: WirePath) -> Self {
        self.path = Some(path);
        self
    }

    /// The same, with details.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same, worth another try.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_says_whether_to_try_again() {
        let check = |error: ToolError, expected: Value| assert_eq!(serde_json::to_value(error).unwrap(), expected);
        check(
            ToolError::new(ErrorCode::NotFound, "so").on("a".into()),
            json!({"code": "not_found", "message": "so", "path": "a", "retryable": false, "applied": false}),
        );
        check(
            ToolError::new(ErrorCode::WriterOpen, "so").with(json!({"pid": 1})),
            json!({"code": "writer_open", "message": "so", "details": {"pid": 1}, "retryable": true, "applied": false}),
        );
        check(
            ToolError::new(ErrorCode::HostError, "so").retryable(),
            json!({"code": "host_error", "message": "so", "retryable": true, "applied": false}),
        );
    }
}
