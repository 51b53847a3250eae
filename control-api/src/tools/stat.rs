//! `stat`.

use serde::{Deserialize, Serialize};

use super::FileType;
use crate::WirePath;

/// Which path.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StatArgs {
    /// The path; of a symbolic link, the link itself.
    pub path: WirePath,
    /// Also the content's hash and newest version.
    #[serde(default)]
    pub hash: bool,
}

/// What is there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatResult {
    /// The path from the view's root.
    pub path: WirePath,
    /// Is anything there? False is no error.
    pub exists: bool,
    /// What it is.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits, in octal: `0644`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerInfo>,
    /// Last change of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtime: Option<String>,
    /// Where a symbolic link leads, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<WirePath>,
    /// Hard links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<u64>,
    /// What policy allows here; also where nothing is.
    pub access: AccessInfo,
    /// The hash of a file's content, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The operation that gave it its present state, if asked for and known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Who owns it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerInfo {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What policy allows at a path.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessInfo {
    /// It can be read; false where nothing is.
    pub read: bool,
    /// It can be changed, or made where nothing is.
    pub write: bool,
    /// Old contents are kept, so that changes can be taken back.
    pub versioned: bool,
    /// Why, in words.
    pub why: String,
}
