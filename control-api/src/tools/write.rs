//! `write`.

use serde::{Deserialize, Serialize};

use super::{MutationResult, given};
use crate::WirePath;

/// What to write, and where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// The file. Missing directories above it are made.
    pub path: WirePath,
    /// Its content, or what is appended.
    pub content: String,
    /// What `content` is.
    #[serde(default)]
    pub encoding: WriteEncoding,
    /// What to do with a file that is there.
    #[serde(default)]
    pub mode: WriteMode,
    /// What `create` does where something is there.
    #[serde(default)]
    pub on_exists: OnExists,
    /// The hash of what is there now, or a prefix of 16 digits or more; null if nothing may be there.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub expected_hash: Option<Option<String>>,
    /// Set or clear the execute bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
    /// Makes the call safe to repeat: the same id again returns the recorded answer. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Check everything, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a written content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WriteEncoding {
    /// Text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Base64 of raw bytes.
    #[serde(rename = "base64")]
    Base64,
}

/// What to do with a file that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Replace its content.
    #[default]
    Overwrite,
    /// There must be none.
    Create,
    /// Add to its end.
    Append,
}

/// What to do if a file to be created is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnExists {
    /// Fail with `already_exists`.
    #[default]
    Error,
    /// Take the first free of `name-2.ext`, `name-3.ext`, …
    Rename,
}

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteResult {
    /// The path really used.
    pub path: WirePath,
    /// The file was made; false if it was there.
    pub created: bool,
    /// Bytes of the file now.
    pub bytes: u64,
    /// The file's hash now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub mutation: MutationResult,
}
