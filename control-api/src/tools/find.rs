//! `find`.

use serde::{Deserialize, Serialize};

use super::{Bounds, Case, FileType, GlobDialect};
use crate::WirePath;

/// What to look for, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FindArgs {
    /// A glob: `**/*.rs` at any depth, `*.rs` in `path` itself. A trailing `/` means directories only.
    pub pattern: String,
    /// What is matched: the path below `path`, or the name alone.
    #[serde(rename = "match", default)]
    pub on: MatchOn,
    /// Where to look; the root if left out.
    #[serde(default)]
    pub path: WirePath,
    /// Only this type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
    /// Levels below `path`. Default 64.
    #[serde(default = "depth")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub depth: u64,
    /// Paths returned, at most: 1 to 10,000. Default 500.
    #[serde(default = "limit")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub limit: u64,
    /// Entries looked at, at most; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traversal_limit: Option<u64>,
    /// How `pattern` is read.
    #[serde(default)]
    pub dialect: GlobDialect,
    /// Also names that begin with a dot, and what is below them.
    #[serde(default)]
    pub hidden: bool,
    /// Also what ignore rules hide.
    #[serde(default)]
    pub ignored: bool,
    /// Does upper and lower case count? Default yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// Only what changed after this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<String>,
    /// Only files of more bytes than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub larger_than: Option<u64>,
    /// `next` of an earlier answer to the same arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

fn depth() -> u64 {
    64
}

fn limit() -> u64 {
    500
}

impl Default for FindArgs {
    fn default() -> Self {
        FindArgs {
            pattern: String::new(),
            on: MatchOn::default(),
            path: WirePath::default(),
            kind: None,
            depth: depth(),
            limit: limit(),
            traversal_limit: None,
            dialect: GlobDialect::default(),
            hidden: false,
            ignored: false,
            case: None,
            newer_than: None,
            larger_than: None,
            cursor: None,
        }
    }
}

/// What a glob is matched with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MatchOn {
    /// The path below `path`.
    #[default]
    Path,
    /// The last component, at any depth.
    Name,
}

/// The paths, in byte order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindResult {
    /// What was found.
    pub matches: Vec<FindMatch>,
    /// What the pattern might have meant, if it found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How complete it is.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// One path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindMatch {
    /// From the view's root.
    pub path: WirePath,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileType,
}
