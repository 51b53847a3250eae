//! `history`.

use serde::{Deserialize, Serialize};

use super::{At, Bounds, FileType};
use crate::WirePath;

/// Which operations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryArgs {
    /// Only those that touch this path, or anything below it; renames are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<WirePath>,
    /// Only this one, with all its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// Only by this actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorArgs>,
    /// After this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<At>,
    /// Up to and with this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<At>,
    /// Operations returned, at most: 1 to 1,000. Default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    pub limit: Option<u64>,
    /// `next` of an earlier answer to the same arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Who: a session's name, or what is known of the actor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ActorArgs {
    /// Of this session.
    Session(String),
    /// What is known of the actor.
    Like(ActorLike),
}

/// What is known of an actor: all that is given must fit, and something must be given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActorLike {
    /// `fuse`, `tool`, `external`, `revert` or `recovery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Part of its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Operations, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryResult {
    /// The operations.
    pub operations: Vec<OperationInfo>,
    /// How complete it is.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationInfo {
    /// Its number: the version of each path that it changed.
    pub operation: u64,
    /// When.
    pub time: String,
    /// What: write, create, remove, rename, link, meta, edit, revert, external or recovered.
    pub kind: String,
    /// Who.
    pub actor: ActorInfo,
    /// The caller's `operation_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The tool, or what a revert took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The operation that it takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
    /// Others that it takes back with it: the steps of one save.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes_also: Vec<u64>,
    /// What it did to which paths, at most 100 of them (1,000 if it was asked for by number).
    pub changes: Vec<ChangeInfo>,
    /// How many there are in all.
    pub changes_total: u64,
}

/// Who did something.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActorInfo {
    /// The way in: fuse, tool, external, revert or recovery.
    pub channel: String,
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The session that a tool call named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// What happened to one path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeInfo {
    /// The path, as it was then.
    pub path: WirePath,
    /// What.
    pub change: ChangeWord,
    /// The other path of a rename, an exchange or a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<WirePath>,
    /// Before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StateInfo>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<StateInfo>,
    /// Several writes in one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coalesced: bool,
    /// Why its contents were not kept, if they were not: policy, size, mmap, external, unstable, coalesced, no_space,
    /// transient, trimmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unversioned: Option<String>,
}

/// What happens to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeWord {
    /// It came to be.
    Create,
    /// Its content changed.
    Write,
    /// Its metadata changed.
    Meta,
    /// It went away.
    Remove,
    /// It came from another path.
    Rename,
    /// It changed places with another path.
    Exchange,
    /// It became one more name of another path's file.
    Link,
}

/// What stood at a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateInfo {
    /// What it was.
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Bytes.
    pub size: u64,
    /// Permission bits, in octal.
    pub mode: String,
    /// The content's hash, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}
