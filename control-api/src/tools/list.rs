//! `list`.

use serde::{Deserialize, Serialize};

use super::{Bounds, FileType, GlobDialect};
use crate::WirePath;

/// Which directory, and what of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListArgs {
    /// The directory; the root if left out.
    #[serde(default)]
    pub path: WirePath,
    /// Levels below it; 1 is its own entries. Default 4.
    #[serde(default = "depth")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub depth: u64,
    /// Entries looked at, at most; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traversal_limit: Option<u64>,
    /// Only entries that match this glob: their name, or with a `/` in it their path below `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// How `pattern` is read.
    #[serde(default)]
    pub dialect: GlobDialect,
    /// Also names that begin with a dot.
    #[serde(default)]
    pub hidden: bool,
    /// Also what `.gitignore`, `.ignore` and `.git/info/exclude` hide.
    #[serde(default)]
    pub ignored: bool,
    /// Entries returned, at most: 1 to 5,000. Default 500.
    #[serde(default = "limit")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 5_000)))]
    pub limit: u64,
    /// Order.
    #[serde(default)]
    pub sort: SortBy,
    /// Also what git says of each entry, where that is quickly told.
    #[serde(default)]
    pub git: bool,
    /// `next` of an earlier answer to the same arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

fn depth() -> u64 {
    4
}

fn limit() -> u64 {
    500
}

impl Default for ListArgs {
    fn default() -> Self {
        ListArgs {
            path: WirePath::default(),
            depth: depth(),
            traversal_limit: None,
            pattern: None,
            dialect: GlobDialect::default(),
            hidden: false,
            ignored: false,
            limit: limit(),
            sort: SortBy::default(),
            git: false,
            cursor: None,
        }
    }
}

/// Order of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SortBy {
    /// By path, in byte order.
    #[default]
    Name,
    /// Largest first.
    Size,
    /// Newest first.
    Mtime,
}

/// The entries, flat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListResult {
    /// The directory from the view's root.
    pub path: WirePath,
    /// Its entries and theirs.
    pub entries: Vec<ListEntry>,
    /// Files (and all that is no directory) counted.
    pub files: u64,
    /// Directories counted.
    pub directories: u64,
    /// Entries that ignore rules hid.
    pub ignored: u64,
    /// How complete it is.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListEntry {
    /// Its path from the view's root.
    pub path: WirePath,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Levels below the directory; 1 for its own entries.
    pub depth: u64,
    /// Bytes.
    pub size: u64,
    /// Permission bits, in octal.
    pub mode: String,
    /// Last change of the content.
    pub mtime: String,
    /// What git says: M, A, D (no longer git's own), R or ?; of a directory M, or ? if git knows nothing in it that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
}
