//! What several tools share: bounds that cut a result, moments, types of files.

use serde::{Deserialize, Deserializer, Serialize};

/// A moment of the past: an operation's number (as `history` and results give it; "just after it"), a checkpoint's name, or an
/// RFC 3339 time. An object says which: `{"operation": 7}`, `{"before": 7}`, `{"version": 7}`, `{"checkpoint": "x"}`,
/// `{"time": "..."}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum At {
    /// Just after this operation.
    Number(u64),
    /// A number, a time, or a checkpoint's name.
    Text(String),
    /// Just after an operation.
    Operation {
        /// Its number.
        operation: u64,
    },
    /// Just before an operation.
    Before {
        /// Its number.
        before: u64,
    },
    /// A version of a path: the operation that made it.
    Version {
        /// Its number.
        version: u64,
    },
    /// A checkpoint.
    Checkpoint {
        /// Its name.
        checkpoint: String,
    },
    /// A time.
    Time {
        /// RFC 3339.
        time: String,
    },
}

/// What cut a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The number of results.
    Limit,
    /// The depth of the walk: something lies deeper.
    Depth,
    /// The number of entries looked at.
    Traversal,
    /// The size of the answer.
    Bytes,
    /// The clock.
    Time,
}

/// How complete a result is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bounds {
    /// Something was left out, because of `truncated_by`.
    pub truncated: bool,
    /// Which bounds cut it.
    #[serde(default)]
    pub truncated_by: Vec<Bound>,
    /// How many results there are in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Where it is not: there are at least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_at_least: Option<u64>,
    /// Not everything could be looked at, so that what is missing here may exist.
    pub incomplete: bool,
    /// What could not be looked at, and why.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Give it as `cursor` with the same arguments to go on where this ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// Upper and lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// It counts if the pattern holds an upper-case letter.
    #[default]
    Smart,
    /// It counts.
    Yes,
    /// It does not count.
    No,
}

/// How a glob is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GlobDialect {
    /// `*` and `?` do not cross `/`, `**` does; `{a,b}`, `[a-z]`, `\` escapes.
    #[default]
    Native,
    /// `*`, `?` and `**` alone; all else is literal.
    Plain,
    /// One line of a `.gitignore`.
    Gitignore,
}

/// Tells an argument that is given as `null` from one that is not given.
///
/// # Errors
/// As the value's own.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(value).map(Some)
}
