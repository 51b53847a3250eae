//! The vocabulary that every layer shares: names, paths, patterns of paths, hashes, ids, attributes, callers.

mod actor;
mod attr;
mod hash;
mod id;
mod path;
mod pattern;

pub use actor::{Actor, Caller, Channel};
pub use attr::{Attr, Kind, Timestamp};
pub use hash::{Hash, HashPrefix, Hasher, ParseHashError};
pub use id::{Ino, Lsn, NodeId, OpId, SourceId};
pub use path::{EntryName, PathError, ViewPath};
pub use pattern::{MatchName, Part, Parts, PathPattern, PatternError, Progress};
