//! Every error of the room as the number that a system call answers.

use crate::{host::Errno, view::ViewError};

/// The error number for a system call through the mount.
#[must_use]
pub fn errno_of(error: &ViewError) -> Errno {
    match error {
        ViewError::Host(errno) => *errno,
        ViewError::NotFound(_) => Errno::NOENT,
        // The same whether or not the name exists, and not EPERM: that says that no permission would help.
        ViewError::CreateDenied(_) | ViewError::Widens(_) | ViewError::OutsideView(_) => Errno::ACCESS,
        ViewError::ReadOnly(_) => Errno::ROFS,
        ViewError::SymlinkLoop(_) => Errno::LOOP,
        ViewError::NotADirectory(_) => Errno::NOTDIR,
        ViewError::IsADirectory(_) => Errno::ISDIR,
        ViewError::NotAFile(_) | ViewError::InvalidArgument(_) => Errno::INVAL,
        ViewError::AlreadyExists(_) => Errno::EXIST,
        ViewError::NotEmpty(_) => Errno::NOTEMPTY,
        ViewError::WriterOpen { .. } => Errno::BUSY,
        ViewError::Unversionable { .. } => Errno::PERM,
        ViewError::TooLarge { .. } => Errno::FBIG,
        ViewError::Cancelled => Errno::INTR,
        ViewError::Store(error) => error.errno(),
        ViewError::Undecided(error) => errno_of(error),
        // Only tools ask for these.
        ViewError::Edit { .. }
        | ViewError::HashConflict { .. }
        | ViewError::HashRequired(_)
        | ViewError::OperationIdReused(_)
        | ViewError::NoStep(_)
        | ViewError::VersionNotFound(_)
        | ViewError::VersionPruned { .. }
        | ViewError::RevertConflict(_)
        | ViewError::ConfirmationNeeded { .. }
        | ViewError::MovedOn { .. } => Errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        types::ViewPath,
        versions::{Loss, StoreError},
    };

    #[test]
    fn errors_have_the_numbers_that_programs_expect() {
        let path = ViewPath::root;
        let store = |error| ViewError::Store(error);
        let io = |number| StoreError::Io { what: String::new(), source: std::io::Error::from_raw_os_error(number) };
        for (error, number) in [
            (ViewError::Host(Errno::XDEV), libc::EXDEV),
            (ViewError::NotFound(path()), libc::ENOENT),
            (ViewError::CreateDenied(path()), libc::EACCES),
            (ViewError::ReadOnly(path()), libc::EROFS),
            (ViewError::Widens(path()), libc::EACCES),
            (ViewError::OutsideView(String::new()), libc::EACCES),
            (ViewError::SymlinkLoop(path()), libc::ELOOP),
            (ViewError::NotADirectory(path()), libc::ENOTDIR),
            (ViewError::IsADirectory(path()), libc::EISDIR),
            (ViewError::NotAFile(path()), libc::EINVAL),
            (ViewError::AlreadyExists(path()), libc::EEXIST),
            (ViewError::NotEmpty(path()), libc::ENOTEMPTY),
            (ViewError::WriterOpen { path: path(), pid: 1, command: String::new() }, libc::EBUSY),
            (ViewError::Unversionable { path: path(), reason: Loss::Size }, libc::EPERM),
            (ViewError::TooLarge { path: path(), size: 2, limit: 1 }, libc::EFBIG),
            (ViewError::Cancelled, libc::EINTR),
            (ViewError::HashRequired(path()), libc::EINVAL),
            (store(StoreError::Poisoned(String::new())), libc::EROFS),
            (store(StoreError::NoSpace { path: "s".into() }), libc::ENOSPC),
            (store(io(libc::EDQUOT)), libc::EDQUOT),
            (store(StoreError::Unavailable(Loss::Transient)), libc::EIO),
        ] {
            assert_eq!(errno_of(&error).raw_os_error(), number, "{error:?}");
        }
    }
}
