//! `read`.

use serde::{Deserialize, Serialize};

use super::At;
use crate::{ToolError, WirePath};

/// One file, or up to 64.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// One file to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// Several files, 1 to 64, each with its own window; each succeeds or fails on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub files: Option<Vec<ReadFile>>,
    /// First and last line wanted, 1-based and inclusive; for files without a window of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[u64; 2]>,
    /// Offset and length in bytes; for files without a window of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[u64; 2]>,
    /// How the content is to travel.
    #[serde(default)]
    pub encoding: ReadEncoding,
    /// Put the line number and a tab before each line.
    #[serde(default)]
    pub numbered: bool,
    /// Bytes returned per file, at most: 1 to 4,194,304. Default 262,144; 8,388,608 for images, audio and PDF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 8_388_608)))]
    pub max_bytes: Option<u64>,
    /// Read the past: the content as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// Hash also files above 64 MiB.
    #[serde(default)]
    pub hash: bool,
}

/// A file of a batch: its path alone, or with a window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ReadFile {
    /// With a window.
    Windowed(ReadFileArgs),
    /// Its path.
    Path(WirePath),
}

/// A file of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadFileArgs {
    /// Where it is.
    pub path: WirePath,
    /// First and last line wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[u64; 2]>,
    /// Offset and length in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[u64; 2]>,
}

/// How a content travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReadEncoding {
    /// Text as text, images, audio and PDF as media, other binary content as its metadata alone.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// As text, or `not_text`.
    #[serde(rename = "utf-8")]
    Utf8,
    /// As base64.
    #[serde(rename = "base64")]
    Base64,
}

/// What was read, in the order asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadResult {
    /// One for each file asked for.
    pub files: Vec<ReadFileResult>,
}

/// One file, or why it could not be read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadFileResult {
    /// Its path from the view's root.
    pub path: WirePath,
    /// Why it could not be read; then nothing else is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The window of the content. Absent for media (they travel as blocks) and for binary content that nobody asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// `utf-8`; `utf-16le` or `utf-16be` (decoded); `unknown-8bit` (text that is not UTF-8, shown with U+FFFD); `base64`;
    /// `media` or `binary`.
    #[serde(default)]
    pub encoding: String,
    /// The media type of images, audio and PDF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// `sha256:` and 64 hex digits over the whole file, also where only a window is returned. Null above 64 MiB unless asked for.
    #[serde(default)]
    pub hash: Option<String>,
    /// Bytes of the whole file.
    #[serde(default)]
    pub size: u64,
    /// Last change of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtime: Option<String>,
    /// Lines of the whole file, if it is text; null where the file was not read to its end.
    #[serde(default)]
    pub lines: Option<u64>,
    /// The line end that most lines have: `lf`, `crlf` or `cr`; only for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_end: Option<String>,
    /// First and last line of what is returned; absent if there is none, and for windows of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<[u64; 2]>,
    /// Offset and length in bytes of what is returned, in the file (of UTF-16, in its UTF-8 form).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[u64; 2]>,
    /// More was asked for than is returned: the size of the answer cut it.
    #[serde(default)]
    pub truncated: bool,
    /// The window to ask for next; absent if the file was read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ReadNext>,
}

/// A window to go on with: give it as `lines` or `bytes`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReadNext {
    /// First and last line.
    Lines([u64; 2]),
    /// Offset and length.
    Bytes([u64; 2]),
}
