//! `search`.

use serde::{Deserialize, Serialize};

use super::{At, Bounds, Case, GlobDialect};
use crate::WirePath;

/// What to look for, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SearchArgs {
    /// The text or the pattern, 1 to 1,000 characters.
    pub query: String,
    /// How `query` is meant.
    #[serde(default)]
    pub mode: SearchMode,
    /// A directory, or one file; the root if left out.
    #[serde(default)]
    pub path: WirePath,
    /// Only files that match one of these globs: their name, or with a `/` in it their path below `path`.
    #[serde(default)]
    pub include: Vec<String>,
    /// No files, and nothing in directories, that match one of these globs.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How the globs are read.
    #[serde(default)]
    pub dialect: GlobDialect,
    /// Does upper and lower case count?
    #[serde(default)]
    pub case: Case,
    /// Whole words only.
    #[serde(default)]
    pub word: bool,
    /// `.` and classes of a regex also match line ends.
    #[serde(default)]
    pub multiline: bool,
    /// Lines around each match: 0 to 20.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 20)))]
    pub context: u64,
    /// Levels below `path`; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub depth: Option<u64>,
    /// Entries looked at, at most; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traversal_limit: Option<u64>,
    /// Matches (or files, for the other outputs) returned, at most: 1 to 10,000. Default 200.
    #[serde(default = "limit")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub limit: u64,
    /// Matches returned of one file, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub limit_per_file: Option<u64>,
    /// Also names that begin with a dot, and what is below them.
    #[serde(default)]
    pub hidden: bool,
    /// Also what ignore rules hide.
    #[serde(default)]
    pub ignored: bool,
    /// What is returned.
    #[serde(default)]
    pub output: SearchOutput,
    /// Search the past: the file at `path`, or all below the directory, as it was then. Ignore rules are those of today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// `next` of an earlier answer to the same arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

fn limit() -> u64 {
    200
}

impl Default for SearchArgs {
    fn default() -> Self {
        SearchArgs {
            query: String::new(),
            mode: SearchMode::default(),
            path: WirePath::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            dialect: GlobDialect::default(),
            case: Case::default(),
            word: false,
            multiline: false,
            context: 0,
            depth: None,
            traversal_limit: None,
            limit: limit(),
            limit_per_file: None,
            hidden: false,
            ignored: false,
            output: SearchOutput::default(),
            at: None,
            cursor: None,
        }
    }
}

/// How a query is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// As the text itself.
    #[default]
    Literal,
    /// As a regular expression of Rust's `regex` crate.
    Regex,
    /// As words; files are ranked (BM25) and each is shown by its best line.
    Keyword,
    /// By meaning, where a provider is set up; else as `keyword`, with a warning.
    Semantic,
}

/// What a search returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchOutput {
    /// Lines.
    #[default]
    Matches,
    /// Files that hold a match.
    Files,
    /// Files, and how many matching lines each has.
    Counts,
}

/// What was found, by path in byte order, then by line. `total` counts what `output` returns: matching lines, or files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchResult {
    /// Matching lines, if `output` is `matches`.
    #[serde(default)]
    pub matches: Vec<SearchMatch>,
    /// Files with matches; for `matches`, those that the lines come from.
    #[serde(default)]
    pub files: Vec<SearchFile>,
    /// Files searched.
    pub files_searched: u64,
    /// Files that hold a match, among those searched.
    pub files_matched: u64,
    /// Files passed over, by reason.
    pub skipped: SkippedFiles,
    /// How complete it is.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// One matching line.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchMatch {
    /// The file.
    pub path: WirePath,
    /// 1-based.
    pub line: u64,
    /// 1-based, in characters, of the first match in the line.
    pub column: u64,
    /// The line; of a long one at most 1,000 characters around the match.
    pub excerpt: String,
    /// The line is longer than the excerpt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Lines before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<ContextLine>,
    /// Lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<ContextLine>,
    /// The hash of the file that the line was read from; null above 64 MiB, and if the file did not stand still.
    pub hash: Option<String>,
    /// How well it fits, for ranked modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// A line around a match.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextLine {
    /// 1-based.
    pub line: u64,
    /// Its text, at most 1,000 characters.
    pub text: String,
}

/// A file with matches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchFile {
    /// Where it is.
    pub path: WirePath,
    /// Matching lines in it, all of them; absent where one was enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How many files were passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedFiles {
    /// They hold NUL bytes.
    pub binary: u64,
    /// Over 256 MiB, or with a line over 64 MiB.
    pub too_large: u64,
    /// The host refused them.
    pub unreadable: u64,
}
