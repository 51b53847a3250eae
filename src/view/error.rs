//! What can go wrong in the room; the doors turn it into an error number or a code.

use crate::{
    host::Errno,
    types::{Hash, OpId, ViewPath},
    versions::{Loss, StoreError},
};

/// The result of an operation on a view.
pub type Result<T> = std::result::Result<T, ViewError>;

/// Why an operation on a view was refused or failed. Nothing was changed, but for [`ViewError::Undecided`].
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The host's error.
    #[error("{0}")]
    Host(#[from] Errno),
    /// It does not exist here: really, or because policy hides it (the two are never told apart).
    #[error("{0} does not exist")]
    NotFound(ViewPath),
    /// Creating a name that policy hides; the same whether or not it exists.
    #[error("{0}: policy does not let this name be created")]
    CreateDenied(ViewPath),
    /// Policy lets it be read, not changed.
    #[error("{0} is read-only by policy")]
    ReadOnly(ViewPath),
    /// A move that would make something more visible or more writable than it is.
    #[error("{0}: moving it there would give more access than policy gives it here")]
    Widens(ViewPath),
    /// A path or a symlink that leads out of the view.
    #[error("{0} leads outside the view")]
    OutsideView(String),
    /// More than 40 symlinks on the way.
    #[error("{0}: too many symbolic links")]
    SymlinkLoop(ViewPath),
    /// A component that is no directory, or a directory operation on something else.
    #[error("{0} is not a directory")]
    NotADirectory(ViewPath),
    /// A file operation on a directory.
    #[error("{0} is a directory")]
    IsADirectory(ViewPath),
    /// A file operation on a FIFO, socket or device.
    #[error("{0} is not a regular file")]
    NotAFile(ViewPath),
    /// It must not exist, and does.
    #[error("{0} already exists")]
    AlreadyExists(ViewPath),
    /// A directory that is not empty, perhaps of hidden entries.
    #[error("{0} is not empty")]
    NotEmpty(ViewPath),
    /// Someone has it open for writing through the mount.
    #[error("{path} is open for writing by process {pid} ({command}); try again when it is closed")]
    WriterOpen {
        /// Which file.
        path: ViewPath,
        /// The writer.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// The content is not the one the caller expected.
    #[error("{path} has changed: its content is now {}", current.map_or("gone".into(), |h| h.to_string()))]
    HashConflict {
        /// Which file.
        path: ViewPath,
        /// What is there now; none if the file does not exist.
        current: Option<Hash>,
    },
    /// Policy wants `expected_hash` for changes of existing files.
    #[error("{0}: policy requires expected_hash for changes of existing files; read it first")]
    HashRequired(ViewPath),
    /// Its content cannot be kept, so it may not be destroyed.
    #[error("{path}: its content could not be kept ({reason}), so it is not changed")]
    Unversionable {
        /// Which file.
        path: ViewPath,
        /// Why.
        reason: Loss,
    },
    /// Larger than this operation takes.
    #[error("{path} is {size} bytes; the limit here is {limit}")]
    TooLarge {
        /// Which file.
        path: ViewPath,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// An edit that does not fit the text.
    #[error("{path}: {source}")]
    Edit {
        /// Which file.
        path: ViewPath,
        /// Why.
        source: crate::text::EditError,
    },
    /// The same operation id with other arguments.
    #[error("operation_id {0:?} was used for another request; choose a new one")]
    OperationIdReused(String),
    /// There is no last step to take back.
    #[error("there is nothing to {0}")]
    NoStep(&'static str),
    /// No such version, operation or checkpoint.
    #[error("no such version: {0}")]
    VersionNotFound(String),
    /// It was recorded, and its content is gone.
    #[error("{what}: the content of that version is not available ({reason})")]
    VersionPruned {
        /// Which.
        what: String,
        /// Why.
        reason: Loss,
    },
    /// A revert met later changes.
    #[error("{} path(s) changed since; nothing was reverted. Look at the conflicts, then choose on_conflict", .0.len())]
    RevertConflict(Vec<Conflict>),
    /// A revert that removes much: it must be asked for with the token of its dry run.
    #[error("this would remove {removes} path(s){}; call it with dry_run, look at what it tells, and give its confirm_token back",
        if *stale { ", and the confirm_token is for another plan: something changed since its dry run, or it was used" }
        else { ", which is much of what is there" })]
    ConfirmationNeeded {
        /// How many.
        removes: usize,
        /// There was a token, and it stands for another plan.
        stale: bool,
    },
    /// A revert that was asked for on the condition that nothing came after an operation.
    #[error(
        "operation {newest} was recorded after operation {head}; nothing was reverted. Look at what came, then ask again with if_head {newest}"
    )]
    MovedOn {
        /// The operation that was to be the last.
        head: OpId,
        /// The last there is.
        newest: OpId,
    },
    /// Arguments that make no sense together.
    #[error("{0}")]
    InvalidArgument(String),
    /// The caller gave up.
    #[error("cancelled")]
    Cancelled,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It failed between the promise of a change and its end: recovery makes it or takes it back.
    #[error(
        "{0}; whether the change is made is decided when the daemon is started again: look then, before it is repeated"
    )]
    Undecided(Box<ViewError>),
}

impl ViewError {
    /// For errors after the promise of a change was recorded, and before its end was.
    pub(crate) fn undecided(error: impl Into<ViewError>) -> ViewError {
        let error = error.into();
        if matches!(error, ViewError::Undecided(_)) { error } else { ViewError::Undecided(Box::new(error)) }
    }
}

/// One path that stands in the way of a revert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Where.
    pub path: ViewPath,
    /// What kind.
    pub code: ConflictCode,
    /// In words: who changed it, when.
    pub detail: String,
}

/// Kinds of conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictCode {
    /// Someone changed the content later.
    Content,
    /// Someone changed only owner, mode or attributes later: they stay, and stand in nobody's way.
    Meta,
    /// It was created by the target and changed later.
    ModifiedSince,
    /// The path is taken by something else now.
    Occupied,
    /// The directory it belongs to is gone.
    NoParent,
    /// A directory that has other children now.
    NotEmpty,
    /// The content to put back is not available.
    Unavailable,
    /// Open for writing by another.
    Busy,
}

impl ConflictCode {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ConflictCode::Content => "content",
            ConflictCode::Meta => "meta",
            ConflictCode::ModifiedSince => "modified_since",
            ConflictCode::Occupied => "occupied",
            ConflictCode::NoParent => "no_parent",
            ConflictCode::NotEmpty => "not_empty",
            ConflictCode::Unavailable => "unavailable",
            ConflictCode::Busy => "busy",
        }
    }
}
