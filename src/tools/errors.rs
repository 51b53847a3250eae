//! Errors of the room as callers see them: a code for each, a message that says what to do, nothing applied.

use control_api::{ErrorCode as Code, ToolError, WirePath};
use serde_json::json;

use crate::{
    host::Errno,
    search::{GlobError, MatcherError},
    text::EditError,
    types::ViewPath,
    versions::{Loss, StoreError},
    view::{Conflict, ViewError},
};

/// The path as results carry it.
pub(super) fn wire(path: &ViewPath) -> WirePath {
    WirePath::of(path.as_bytes())
}

/// Arguments that do not fit.
pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(Code::InvalidArgument, message)
}

/// The caller gave up before anything was done.
pub(super) fn cancelled() -> ToolError {
    ToolError::new(Code::Cancelled, "cancelled; nothing was changed")
}

/// The table of the room's errors.
pub(super) fn of(error: ViewError) -> ToolError {
    let message = error.to_string();
    let told = |code, advice: &str| ToolError::new(code, format!("{message}; {advice}"));
    let plain = |code| ToolError::new(code, message.clone());
    match error {
        ViewError::Host(errno) => of_host(errno),
        ViewError::NotFound(path) => {
            told(Code::NotFound, "check the spelling, or use find or list to see what is there").on(wire(&path))
        }
        ViewError::CreateDenied(path) => told(Code::CreateDenied, "choose another name").on(wire(&path)),
        ViewError::ReadOnly(path) => told(Code::ReadOnly, "it cannot be changed through this view").on(wire(&path)),
        ViewError::Widens(path) => told(Code::CreateDenied, "copy its content instead, or leave it").on(wire(&path)),
        ViewError::OutsideView(text) => {
            told(Code::OutsideView, "give a path relative to the view's root").on(WirePath::Text(text))
        }
        ViewError::SymlinkLoop(path) => told(Code::SymlinkLoop, "look at the links with stat").on(wire(&path)),
        ViewError::NotADirectory(path) => told(Code::NotADirectory, "give a directory").on(wire(&path)),
        ViewError::IsADirectory(path) => told(Code::IsADirectory, "use list to see what is in it").on(wire(&path)),
        ViewError::NotAFile(path) => {
            told(Code::Unsupported, "FIFOs, sockets and devices are never opened").on(wire(&path))
        }
        ViewError::AlreadyExists(path) => {
            told(Code::AlreadyExists, "choose another name, or ask to overwrite it").on(wire(&path))
        }
        ViewError::NotEmpty(path) => {
            told(Code::NotEmpty, "remove what is in it first, or say recursive; hidden entries keep it, too")
                .on(wire(&path))
        }
        ViewError::WriterOpen { path, pid, command } => {
            plain(Code::WriterOpen).on(wire(&path)).with(json!({"pid": pid, "command": command})).retryable()
        }
        ViewError::HashConflict { path, current } => {
            told(Code::HashConflict, "nothing was changed; read it again and decide anew")
                .on(wire(&path))
                .with(json!({"current_hash": current.map(|hash| hash.to_string())}))
        }
        ViewError::HashRequired(path) => plain(Code::HashRequired).on(wire(&path)),
        ViewError::Unversionable { path, reason } => {
            plain(Code::Unversionable).on(wire(&path)).with(json!({"reason": reason.word()}))
        }
        ViewError::TooLarge { path, size, limit } => {
            plain(Code::TooLarge).on(wire(&path)).with(json!({"size": size, "limit": limit}))
        }
        ViewError::Edit { path, source } => of_edit(&source).on(wire(&path)),
        ViewError::OperationIdReused(_) => plain(Code::OperationIdReused),
        ViewError::NoStep(_) => plain(Code::VersionNotFound),
        ViewError::VersionNotFound(_) => told(Code::VersionNotFound, "history names those there are"),
        ViewError::VersionPruned { reason, .. } => plain(Code::VersionPruned).with(lost(reason)),
        ViewError::RevertConflict(conflicts) => {
            let list: Vec<_> = conflicts.iter().map(conflict_json).collect();
            plain(Code::RevertConflict).with(json!({"conflicts": list}))
        }
        ViewError::ConfirmationNeeded { removes, .. } => {
            plain(Code::ApprovalRequired).with(json!({"removes": removes}))
        }
        ViewError::MovedOn { newest, .. } => plain(Code::HeadMoved).with(json!({"operation": newest.0})),
        ViewError::InvalidArgument(_) => plain(Code::InvalidArgument),
        ViewError::Cancelled => cancelled(),
        ViewError::Undecided(error) => ToolError { message, applied: true, ..of(*error) },
        ViewError::Store(error) => of_store(&error),
    }
}

/// Why a content is not there; of one that was dropped, when and by which rule.
fn lost(reason: Loss) -> serde_json::Value {
    let Loss::Trimmed(trim) = reason else { return json!({"reason": reason.word()}) };
    json!({"reason": reason.word(), "trimmed": {"time": trim.time.rfc3339(), "rule": trim.rule.word()}})
}

fn conflict_json(conflict: &Conflict) -> serde_json::Value {
    json!({"path": wire(&conflict.path), "conflict": conflict.code.word(), "detail": conflict.detail})
}

/// The table of the edit engine's errors.
pub(super) fn of_edit(error: &EditError) -> ToolError {
    let (code, details) = match error {
        EditError::EmptyOld { edit } => (Code::EmptyOldText, json!({"edit": edit})),
        EditError::NotFound { edit, hint, nearest } => {
            let near = nearest.as_ref().map(|near| {
                json!({"line": near.line, "text": near.text, "differs": near.differs, "similarity": near.similarity})
            });
            (Code::OldTextNotFound, json!({"edit": edit, "hint": hint, "nearest": near}))
        }
        EditError::NotUnique { edit, count, lines } => {
            (Code::OldTextNotUnique, json!({"edit": edit, "count": count, "lines": lines}))
        }
        EditError::Overlap { first, second } => (Code::EditsOverlap, json!({"edits": [first, second]})),
        EditError::NoChange { edit } => (Code::NoChange, json!({"edit": edit})),
        EditError::BadLines { edit, .. } => (Code::InvalidArgument, json!({"edit": edit})),
    };
    ToolError::new(code, error.to_string()).with(details)
}

/// A pattern that the dialect does not know.
pub(super) fn of_glob(error: &GlobError) -> ToolError {
    ToolError::new(Code::InvalidPattern, error.to_string())
}

/// A query that cannot be compiled.
pub(super) fn of_matcher(error: &MatcherError) -> ToolError {
    match error {
        MatcherError::Empty => invalid(error.to_string()),
        MatcherError::Syntax(_) => {
            ToolError::new(Code::InvalidPattern, format!("{error}; to look for the text itself, use mode \"literal\""))
        }
        MatcherError::TooComplex(_) => ToolError::new(Code::PatternTooComplex, error.to_string()),
    }
}

fn of_store(error: &StoreError) -> ToolError {
    let message = error.to_string();
    match error {
        StoreError::NoSpace { .. } | StoreError::Quota { .. } => ToolError::new(Code::NoSpace, message),
        StoreError::Unavailable(reason) => ToolError::new(Code::VersionPruned, message).with(lost(*reason)),
        StoreError::Io { source, .. } => match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => ToolError::new(Code::NoSpace, message),
            Some(errno) => ToolError::new(Code::HostError, message).with(json!({"errno": errno_name(errno)})),
            None => ToolError::new(Code::HostError, message),
        },
        StoreError::Corrupt(_) | StoreError::Damaged(_) | StoreError::Poisoned(_) => {
            ToolError::new(Code::HostError, message)
        }
        StoreError::Locked { .. } | StoreError::Format { .. } | StoreError::Index(_) => {
            ToolError::new(Code::Internal, message)
        }
    }
}

/// The table of the host's errors. They carry no path: it is in the arguments.
fn of_host(errno: Errno) -> ToolError {
    let name = errno_name(errno);
    let told = |code, text: &str| ToolError::new(code, format!("{text} ({name})")).with(json!({"errno": name}));
    match errno {
        Errno::NOENT | Errno::STALE => told(Code::NotFound, "it does not exist any more; look again"),
        Errno::ACCESS | Errno::PERM => told(Code::PermissionDenied, "the host does not permit it to this daemon"),
        Errno::ROFS => told(Code::ReadOnly, "the host's file system is read-only"),
        Errno::NOSPC | Errno::DQUOT => told(Code::NoSpace, "there is no space left on the host's disk"),
        Errno::NOTDIR => told(Code::NotADirectory, "a component of the path is no directory"),
        Errno::ISDIR => told(Code::IsADirectory, "it is a directory"),
        Errno::EXIST => told(Code::AlreadyExists, "something is there already"),
        Errno::NOTEMPTY => told(Code::NotEmpty, "the directory is not empty"),
        Errno::LOOP => told(Code::SymlinkLoop, "too many symbolic links on the way"),
        Errno::NAMETOOLONG => told(Code::InvalidArgument, "a name in the path is too long"),
        Errno::FBIG => told(Code::TooLarge, "the file is too large for this tool"),
        Errno::AGAIN => told(Code::HostError, "the file did not stand still; try again").retryable(),
        Errno::BUSY | Errno::TXTBSY => told(Code::HostError, "the host is using it; try again").retryable(),
        other => told(Code::HostError, &std::io::Error::from(other).to_string()),
    }
}

/// The host's error number by its name.
fn errno_name(errno: Errno) -> String {
    let named = [
        (Errno::ACCESS, "EACCES"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::BADF, "EBADF"),
        (Errno::BUSY, "EBUSY"),
        (Errno::DQUOT, "EDQUOT"),
        (Errno::EXIST, "EEXIST"),
        (Errno::FBIG, "EFBIG"),
        (Errno::INTR, "EINTR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::IO, "EIO"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::LOOP, "ELOOP"),
        (Errno::MFILE, "EMFILE"),
        (Errno::MLINK, "EMLINK"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::NFILE, "ENFILE"),
        (Errno::NODEV, "ENODEV"),
        (Errno::NOENT, "ENOENT"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::NOTEMPTY, "ENOTEMPTY"),
        (Errno::NXIO, "ENXIO"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::PERM, "EPERM"),
        (Errno::ROFS, "EROFS"),
        (Errno::STALE, "ESTALE"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::TXTBSY, "ETXTBSY"),
        (Errno::XDEV, "EXDEV"),
    ];
    let found = named.iter().find(|(known, _)| *known == errno).map(|(_, name)| (*name).to_owned());
    found.unwrap_or_else(|| format!("errno {}", errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        types::{Hash, OpId, ViewPath},
        versions::Loss,
        view::ConflictCode,
    };

    fn check(error: ViewError, code: Code, retryable: bool) {
        let shown = format!("{error:?}");
        let error = of(error);
        assert_eq!((error.code, error.retryable, error.applied), (code, retryable, false), "{shown}");
        assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error}");
    }

    #[test]
    fn every_error_of_the_room_has_its_code() {
        let path = || ViewPath::parse(b"a/b").unwrap();
        check(ViewError::NotFound(path()), Code::NotFound, false);
        check(ViewError::CreateDenied(path()), Code::CreateDenied, false);
        check(ViewError::ReadOnly(path()), Code::ReadOnly, false);
        check(ViewError::Widens(path()), Code::CreateDenied, false);
        check(ViewError::OutsideView("/x".into()), Code::OutsideView, false);
        check(ViewError::SymlinkLoop(path()), Code::SymlinkLoop, false);
        check(ViewError::NotADirectory(path()), Code::NotADirectory, false);
        check(ViewError::IsADirectory(path()), Code::IsADirectory, false);
        check(ViewError::NotAFile(path()), Code::Unsupported, false);
        check(ViewError::AlreadyExists(path()), Code::AlreadyExists, false);
        check(ViewError::NotEmpty(path()), Code::NotEmpty, false);
        check(ViewError::WriterOpen { path: path(), pid: 7, command: "sh".into() }, Code::WriterOpen, true);
        check(ViewError::HashConflict { path: path(), current: Some(Hash::of(b"")) }, Code::HashConflict, false);
        check(ViewError::HashRequired(path()), Code::HashRequired, false);
        check(ViewError::Unversionable { path: path(), reason: Loss::Size }, Code::Unversionable, false);
        check(ViewError::TooLarge { path: path(), size: 2, limit: 1 }, Code::TooLarge, false);
        check(ViewError::OperationIdReused("x".into()), Code::OperationIdReused, false);
        check(ViewError::NoStep("undo"), Code::VersionNotFound, false);
        check(ViewError::VersionNotFound("x".into()), Code::VersionNotFound, false);
        check(ViewError::VersionPruned { what: "x".into(), reason: Loss::Transient }, Code::VersionPruned, false);
        let conflict = Conflict { path: path(), code: ConflictCode::Content, detail: "x".into() };
        check(ViewError::RevertConflict(vec![conflict]), Code::RevertConflict, false);
        check(ViewError::ConfirmationNeeded { removes: 101, stale: false }, Code::ApprovalRequired, false);
        check(ViewError::MovedOn { head: OpId(1), newest: OpId(2) }, Code::HeadMoved, false);
        check(ViewError::InvalidArgument("x".into()), Code::InvalidArgument, false);
        check(ViewError::Cancelled, Code::Cancelled, false);
        let edit = |source| ViewError::Edit { path: path(), source };
        check(edit(EditError::EmptyOld { edit: 0 }), Code::EmptyOldText, false);
        check(edit(EditError::NoChange { edit: 0 }), Code::NoChange, false);
        check(edit(EditError::Overlap { first: 0, second: 1 }), Code::EditsOverlap, false);
    }

    #[test]
    fn every_error_of_the_host_has_its_code() {
        for (errno, code, retryable) in [
            (Errno::NOENT, Code::NotFound, false),
            (Errno::STALE, Code::NotFound, false),
            (Errno::ACCESS, Code::PermissionDenied, false),
            (Errno::PERM, Code::PermissionDenied, false),
            (Errno::ROFS, Code::ReadOnly, false),
            (Errno::NOSPC, Code::NoSpace, false),
            (Errno::DQUOT, Code::NoSpace, false),
            (Errno::NOTDIR, Code::NotADirectory, false),
            (Errno::ISDIR, Code::IsADirectory, false),
            (Errno::EXIST, Code::AlreadyExists, false),
            (Errno::NOTEMPTY, Code::NotEmpty, false),
            (Errno::LOOP, Code::SymlinkLoop, false),
            (Errno::NAMETOOLONG, Code::InvalidArgument, false),
            (Errno::FBIG, Code::TooLarge, false),
            (Errno::AGAIN, Code::HostError, true),
            (Errno::BUSY, Code::HostError, true),
            (Errno::IO, Code::HostError, false),
        ] {
            check(ViewError::Host(errno), code, retryable);
        }
        let details = of(ViewError::Host(Errno::IO)).details.unwrap();
        assert_eq!(*details, json!({"errno": "EIO"}));
        assert_eq!(errno_name(Errno::from_raw_os_error(999)), "errno 999");
    }

    #[test]
    fn every_error_of_the_store_has_its_code() {
        let io = |errno: i32| StoreError::Io { what: "x".into(), source: std::io::Error::from_raw_os_error(errno) };
        check(StoreError::NoSpace { path: "/s".into() }.into(), Code::NoSpace, false);
        check(io(28).into(), Code::NoSpace, false);
        check(io(5).into(), Code::HostError, false);
        check(StoreError::Unavailable(Loss::Transient).into(), Code::VersionPruned, false);
        check(StoreError::Corrupt(Hash::of(b"")).into(), Code::HostError, false);
        check(StoreError::Poisoned("x".into()).into(), Code::HostError, false);
        check(StoreError::Format { path: "/s".into(), reason: "x".into() }.into(), Code::Internal, false);
    }
}
