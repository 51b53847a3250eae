//! Guarded mutations: what tools ask for. Checked under the locks, recorded before they are applied, applied whole or not
//! at all, and told to the kernel before they are answered.

use std::sync::Arc;

use super::Result;
use crate::{
    types::{Actor, Hash, HashPrefix, Kind, OpId, ViewPath},
    versions::ChangeKind,
};

/// Who asks, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Recorded as the author.
    pub actor: Actor,
    /// The tool's name, for `history`.
    pub tool: String,
    /// The caller's idempotency key, and the hash of the request it came with.
    pub operation: Option<(String, Hash)>,
    /// Check everything, change nothing.
    pub dry_run: bool,
    /// Existing files may only be changed with an expected hash.
    pub require_hash: bool,
    /// Owner of what is created (the peer of the socket).
    pub owner: (u32, u32),
}

/// What the caller believes is at a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Expect {
    /// Whatever.
    #[default]
    Any,
    /// Nothing.
    Absent,
    /// A file of this content.
    Hash(HashPrefix),
}

/// A new content as a function of the old one.
pub type Rewrite = Box<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync>;

/// The content a file is to have.
pub enum NewContent {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Made from the old content, which must exist unless `or_empty`; read and written under the file's lock.
    Rewritten {
        /// The function; an error refuses the whole request.
        rewrite: Rewrite,
        /// A missing file counts as empty.
        or_empty: bool,
    },
}

/// A file to write.
pub struct WriteFile {
    /// Where; a symlink inside the view is followed to the file it names.
    pub path: ViewPath,
    /// What.
    pub content: NewContent,
    /// What is there now.
    pub expect: Expect,
    /// Set or clear the execute bits; `None` keeps them (0644 for a new file).
    pub executable: Option<bool>,
    /// Make missing directories above it.
    pub parents: bool,
}

/// What a guarded mutation did, or would do.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Its operation; none for a dry run, or if nothing had to change.
    pub op: Option<OpId>,
    /// Each path it touched.
    pub paths: Vec<Touched>,
}

/// One path that was changed.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The path.
    pub path: ViewPath,
    /// Where it came from, for moves and links.
    pub from: Option<ViewPath>,
    /// What happened.
    pub change: ChangeKind,
    /// Before.
    pub before: Option<Side>,
    /// After.
    pub after: Option<Side>,
}

/// One side of a change.
#[derive(Clone, Debug)]
pub struct Side {
    /// Type.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Content hash of a file, where it is known or was small enough to take (64 MiB).
    pub hash: Option<Hash>,
    /// The content, if it is a file of at most 1 MiB: for diffs.
    pub bytes: Option<Arc<Vec<u8>>>,
}
