//! Errors of tools: a stable code, a message that says what to do, and whether anything was changed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::WirePath;

/// What went wrong. Codes are only added, never renamed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// Nothing is there: really, or because policy hides it.
    NotFound,
    /// A component of the path is no directory, or a directory was wanted.
    NotADirectory,
    /// A file was wanted.
    IsADirectory,
    /// The content is not text that this tool takes.
    NotText,
    /// The host refuses it to the daemon.
    PermissionDenied,
    /// Policy lets it be read, not changed.
    ReadOnly,
    /// Policy does not let this name be made.
    CreateDenied,
    /// The path, or a symbolic link on it, leads out of the view.
    OutsideView,
    /// Too many symbolic links on the way.
    SymlinkLoop,
    /// Arguments that do not fit the tool.
    InvalidArgument,
    /// `old_text` is empty.
    EmptyOldText,
    /// `old_text` does not stand in the file.
    OldTextNotFound,
    /// `old_text` stands more than once.
    OldTextNotUnique,
    /// Two edits touch the same text.
    EditsOverlap,
    /// The edit would change nothing.
    NoChange,
    /// Policy wants `expected_hash`.
    HashRequired,
    /// The content is not the expected one.
    HashConflict,
    /// Someone has the file open for writing.
    WriterOpen,
    /// Something is there already.
    AlreadyExists,
    /// The directory is not empty.
    NotEmpty,
    /// It is larger than this tool takes.
    TooLarge,
    /// Not a valid glob or regular expression.
    InvalidPattern,
    /// The pattern would cost too much.
    PatternTooComplex,
    /// The caller gave up.
    Cancelled,
    /// It took too long.
    Timeout,
    /// The old content could not be kept, so it was not destroyed.
    Unversionable,
    /// No such version, operation or checkpoint.
    VersionNotFound,
    /// That version's content is not kept any more.
    VersionPruned,
    /// A revert met later changes.
    RevertConflict,
    /// A person has to say yes first.
    ApprovalRequired,
    /// The same `operation_id` came with other arguments before.
    OperationIdReused,
    /// The disk, or the store's share of it, is full.
    NoSpace,
    /// This system or this view does not offer it; also for FIFOs, sockets and devices, which no tool opens.
    Unsupported,
    /// The host's error; its name is in the details.
    HostError,
    /// A fault of ours.
    Internal,
}

impl ErrorCode {
    /// All codes, in the order of the documentation.
    pub const ALL: [ErrorCode; 35] = [
        ErrorCode::NotFound,
        ErrorCode::NotADirectory,
        ErrorCode::IsADirectory,
        ErrorCode::NotText,
        ErrorCode::PermissionDenied,
        ErrorCode::ReadOnly,
        ErrorCode::CreateDenied,
        ErrorCode::OutsideView,
        ErrorCode::SymlinkLoop,
        ErrorCode::InvalidArgument,
        ErrorCode::EmptyOldText,
        ErrorCode::OldTextNotFound,
        ErrorCode::OldTextNotUnique,
        ErrorCode::EditsOverlap,
        ErrorCode::NoChange,
        ErrorCode::HashRequired,
        ErrorCode::HashConflict,
        ErrorCode::WriterOpen,
        ErrorCode::AlreadyExists,
        ErrorCode::NotEmpty,
        ErrorCode::TooLarge,
        ErrorCode::InvalidPattern,
        ErrorCode::PatternTooComplex,
        ErrorCode::Cancelled,
        ErrorCode::Timeout,
        ErrorCode::Unversionable,
        ErrorCode::VersionNotFound,
        ErrorCode::VersionPruned,
        ErrorCode::RevertConflict,
        ErrorCode::ApprovalRequired,
        ErrorCode::OperationIdReused,
        ErrorCode::NoSpace,
        ErrorCode::Unsupported,
        ErrorCode::HostError,
        ErrorCode::Internal,
    ];
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

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
    /// Something was changed nevertheless. Always false for this version's tools.
    pub applied: bool,
}

impl ToolError {
    /// An error without path and details, not retryable, with nothing applied.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ToolError { code, message: message.into(), path: None, details: None, retryable: false, applied: false }
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
    use super::*;

    #[test]
    fn codes_are_words_and_all_are_listed_once() {
        let words: Vec<String> = ErrorCode::ALL.iter().map(ToString::to_string).collect();
        assert!(words.contains(&"not_a_directory".into()), "{words:?}");
        for (at, word) in words.iter().enumerate() {
            assert!(!words[..at].contains(word), "{word} twice");
            let back: ErrorCode = serde_json::from_value(Value::String(word.clone())).expect(word);
            assert_eq!(back, ErrorCode::ALL[at]);
        }
    }
}
