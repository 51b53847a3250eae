//! `info`.

use serde::{Deserialize, Serialize};

/// Nothing is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InfoArgs {}

/// What this view is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InfoResult {
    /// The view's name.
    pub view: String,
    /// Absolute paths that stand for its root.
    pub roots: Vec<String>,
    /// What it shows.
    pub sources: Vec<SourceInfo>,
    /// What is allowed in it.
    pub policy: PolicyInfo,
    /// Bounds of the tools.
    pub limits: LimitsInfo,
    /// The tool profile.
    pub profile: String,
    /// The version store.
    pub store: StoreInfo,
    /// The machine.
    pub system: SystemInfo,
}

/// A served directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceInfo {
    /// Its name: a directory of the root, where there are several sources.
    pub name: String,
    /// `ok`, or why it cannot be reached.
    pub state: String,
    /// `read` or `write`.
    pub access: String,
    /// The type of its file system.
    pub file_system: String,
    /// How old contents are kept: `linked` or `copying`, and `reflink` where that works.
    pub versioning: String,
    /// What is in it, as this view shows it.
    pub counts: CountsInfo,
    /// How what others change beside the mount is noticed: `told` at once, or `timed`: within a second.
    pub freshness: String,
}

/// How much is in a source.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountsInfo {
    /// Files, and all that is no directory.
    pub files: u64,
    /// Directories below its root.
    pub directories: u64,
    /// There are more: counting stops after a moment.
    pub at_least: bool,
}

/// The policy in words.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyInfo {
    /// Groups of tools that this view has.
    pub features: Vec<String>,
    /// Existing files can be changed only with `expected_hash`.
    pub require_hash: bool,
    /// The whole view is read-only.
    pub read_only: bool,
    /// One sentence for each rule that a caller should know.
    pub words: Vec<String>,
}

/// Hard caps.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitsInfo {
    /// Files in one `read`.
    pub read_files: u64,
    /// Bytes of one file in one `read`.
    pub read_bytes: u64,
    /// Entries of one `list`.
    pub list_entries: u64,
    /// Paths of one `find`.
    pub find_paths: u64,
    /// Matches of one `search`.
    pub search_matches: u64,
    /// Operations of one `history`.
    pub history_operations: u64,
    /// Characters of a diff.
    pub diff_chars: u64,
    /// Seconds of a walk.
    pub walk_seconds: u64,
    /// Bytes of a file that tools can change.
    pub write_bytes: u64,
}

/// The version store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreInfo {
    /// Operations in the log.
    pub operations: u64,
    /// Changes in them.
    pub versions: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of old contents kept as files.
    pub aside_bytes: u64,
    /// Bytes that all of it takes on its disk, as last measured.
    pub used_bytes: u64,
    /// Bytes that it may take.
    pub quota_bytes: u64,
    /// What happens then: `drop_oldest`, or `refuse`: changes whose old content has to be kept are refused.
    pub on_full: String,
    /// Days after which a superseded version goes at the latest.
    pub days: u64,
    /// `strict` or `relaxed`.
    pub durability: String,
    /// Why it takes no more changes, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemInfo {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// wardfs's version.
    pub version: String,
    /// The time now.
    pub time: String,
}
