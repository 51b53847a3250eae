//! What the log says: operations, the changes in them, and the state of a path before and after.

use super::Trim;
use crate::types::{Actor, Attr, Hash, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath};

/// An inode's identity as the log keeps it: stable over restarts (file system id and file handle).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeKey(pub Box<[u8]>);

/// What an operation was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// A change of content through an open file.
    Write,
    /// A name made: file, directory, symlink, node.
    Create,
    /// A name taken away.
    Remove,
    /// A name moved (what it displaced is in the same operation).
    Rename,
    /// A second name.
    Link,
    /// Mode, owner, times or extended attributes.
    Meta,
    /// A tool's write, edit, patch or transaction.
    Edit,
    /// A revert, undo or redo.
    Revert,
    /// Found on the host, made by nobody through us.
    External,
    /// Found by recovery after a crash.
    Recovered,
}

/// Why a content is not in the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Loss {
    /// `unversioned` in the policy.
    Policy,
    /// Larger than the store takes.
    Size,
    /// Changed through a mapping before it could be kept.
    Mmap,
    /// Changed on the host before it could be kept.
    External,
    /// It did not stand still while it was read.
    Unstable,
    /// An intermediate state of one open file.
    Coalesced,
    /// The store was full.
    NoSpace,
    /// Made and removed by one process: it was never to stay.
    Transient,
    /// Dropped by retention, quota or a person.
    Trimmed(Trim),
}

/// Where a state's content is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The kind has none (directories, FIFOs, sockets, devices).
    None,
    /// A symlink's target.
    Target(Vec<u8>),
    /// In the log.
    Blob(Hash),
    /// An inode in `aside/` of this name, which nobody writes any more.
    Aside(String),
    /// The served file itself, as long as it still is as the state says; a later change's `before` may hold it.
    Live(Option<Hash>),
    /// Nowhere.
    Lost(Loss),
}

/// One file, directory or other inode as it was at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Type.
    pub kind: Kind,
    /// Permission bits (`07777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u64,
    /// Bytes.
    pub size: u64,
    /// Hard links, without our own.
    pub nlink: u32,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of anything: with `size` and `mtime` the cookie by which an outside change is noticed.
    pub ctime: Timestamp,
    /// Extended attributes, sorted by name; empty for none.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Content.
    pub content: Content,
}

/// What happened to one path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeKind {
    /// `path` came to be: `before` is none.
    Create,
    /// Its content changed (perhaps metadata too).
    Write,
    /// Only metadata changed.
    Meta,
    /// `path` went away: `after` is none. The inode may live on under other names (`before.nlink` > 1).
    Remove,
    /// `from` became `path`. A displaced target is a `Remove` of `path` before it in the same operation.
    Rename,
    /// `from` and `path` changed places; `before` is what stood at `from` and now stands at `path`, `after` the other.
    Exchange,
    /// `path` became one more name of the inode at `from`.
    Link,
}

/// One change of one path. A source and a path in it; states before and after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The source.
    pub source: SourceId,
    /// Path below the source's root, when it happened.
    pub path: ViewPath,
    /// What.
    pub kind: ChangeKind,
    /// The other path of `Rename`, `Exchange`, `Link`.
    pub from: Option<ViewPath>,
    /// The inode.
    pub node: NodeId,
    /// Its identity on the host, when the log has not bound `node` to it yet.
    pub key: Option<NodeKey>,
    /// Before it.
    pub before: Option<State>,
    /// After it.
    pub after: Option<State>,
    /// A staged file in `tmp/` that becomes `path` when the operation is applied (guarded mutations only).
    pub staged: Option<String>,
    /// Several writes, or writes of several processes, in one.
    pub coalesced: bool,
    /// Why the change's contents are not recorded, if they are not.
    pub unversioned: Option<Loss>,
}

/// One operation: what one system call, one open file, or one tool call did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its number. Appending the same number again replaces the operation (a file still open was sealed again).
    pub op: OpId,
    /// When.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub kind: OpKind,
    /// To which paths.
    pub changes: Vec<Change>,
    /// The caller's idempotency key, scoped to the view.
    pub operation_id: Option<String>,
    /// SHA-256 of the request that carried `operation_id`.
    pub request: Option<Hash>,
    /// The tool's name or the revert's target in words, for `history`.
    pub note: Option<String>,
    /// The operations that this one takes back, as one step.
    pub undoes: Vec<OpId>,
    /// It was recorded before it was applied: until `Store::applied(op)` recovery rolls it forward.
    pub intent: bool,
}

/// A named point: all operations up to and including `op`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Unique name; a later one of the same name takes it over.
    pub name: String,
    /// Free text.
    pub note: Option<String>,
    /// The last operation before it (0 if none).
    pub op: OpId,
    /// When.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
}

/// The recorded outcome of an idempotent call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// The operation; none if the call changed nothing.
    pub op: Option<OpId>,
    /// SHA-256 of its request.
    pub request: Hash,
    /// Its answer (JSON), if it got as far.
    pub response: Option<String>,
}

/// A file was opened for writing and is not sealed yet: recovery looks at it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenMark {
    /// The operation that its changes will have.
    pub op: OpId,
    /// Who.
    pub actor: Actor,
    /// When.
    pub time: Timestamp,
    /// The source.
    pub source: SourceId,
    /// The path by which it was opened.
    pub path: ViewPath,
    /// The inode.
    pub node: NodeId,
    /// Its identity on the host.
    pub key: NodeKey,
    /// As it was before.
    pub before: State,
}

impl State {
    /// From the host's attributes, with content (and xattrs) still to be filled in.
    #[must_use]
    pub fn of(attr: &Attr, content: Content) -> Self {
        State {
            kind: attr.kind,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            size: attr.size,
            nlink: attr.nlink,
            mtime: attr.mtime,
            ctime: attr.ctime,
            xattrs: Vec::new(),
            content,
        }
    }

    /// True if nothing changed on the host since: size, mtime and ctime agree. Of a directory only mode and owner count:
    /// the rest changes with what is in it.
    #[must_use]
    pub fn is_current(&self, attr: &Attr) -> bool {
        if self.kind == Kind::Dir && attr.kind == Kind::Dir {
            return (self.mode, self.uid, self.gid) == (attr.mode, attr.uid, attr.gid);
        }
        self.kind == attr.kind && self.size == attr.size && self.mtime == attr.mtime && self.ctime == attr.ctime
    }

    /// The content's hash where it is known without reading.
    #[must_use]
    pub fn hash(&self) -> Option<Hash> {
        match &self.content {
            Content::Blob(hash) | Content::Live(Some(hash)) => Some(*hash),
            Content::None | Content::Target(_) | Content::Aside(_) | Content::Live(None) | Content::Lost(_) => None,
        }
    }
}

impl Loss {
    /// The word that rows and answers use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Loss::Policy => "policy",
            Loss::Size => "size",
            Loss::Mmap => "mmap",
            Loss::External => "external",
            Loss::Unstable => "unstable",
            Loss::Coalesced => "coalesced",
            Loss::NoSpace => "no_space",
            Loss::Transient => "transient",
            Loss::Trimmed(_) => "trimmed",
        }
    }
}
