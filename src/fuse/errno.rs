//! Every error of the room as the number that a system call answers.

use crate::{host::Errno, text::EditError, view::ViewError};

/// The error number for a system call through the mount.
#[must_use]
pub fn errno_of(error: &ViewError) -> fuser::Errno {
    let errno = match error {
        ViewError::Host(errno) => *errno,
        ViewError::NotFound(_) => Errno::NOENT,
        ViewError::CreateDenied(_) | ViewError::OutsideView(_) => Errno::ACCESS,
        ViewError::ReadOnly(_) => Errno::ROFS,
        ViewError::Widens(_) => Errno::ACCESS,
        ViewError::SymlinkLoop(_) => Errno::LOOP,
        ViewError::NotADirectory(_) => Errno::NOTDIR,
        ViewError::IsADirectory(_) => Errno::ISDIR,
        ViewError::NotAFile(_) | ViewError::InvalidArgument(_) => Errno::INVAL,
        ViewError::AlreadyExists(_) => Errno::EXIST,
        ViewError::NotEmpty(_) => Errno::NOTEMPTY,
        ViewError::WriterOpen { .. } => Errno::TXTBSY,
        ViewError::TooLarge { .. } => Errno::FBIG,
        ViewError::Cancelled => Errno::INTR,
        ViewError::Store(error) => error.errno(),
        ViewError::Unversionable { .. } => Errno::NOSPC,
        ViewError::Edit { source: edit, .. } => edit_errno(edit),
        ViewError::HashConflict { .. }
        | ViewError::HashRequired(_)
        | ViewError::OperationIdReused(_)
        | ViewError::VersionNotFound(_)
        | ViewError::VersionPruned { .. }
        | ViewError::RevertConflict(_)
        | ViewError::ConfirmationNeeded { .. } => Errno::INVAL,
    };
    fuser::Errno::from_i32(errno.raw_os_error())
}

/// Edits come by the socket only; a mount never sees one.
fn edit_errno(_error: &EditError) -> Errno {
    Errno::INVAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{types::ViewPath, versions::StoreError};

    #[test]
    fn errors_keep_their_numbers() {
        let check = |error: ViewError, number: i32| assert_eq!(errno_of(&error).code(), number, "{error:?}");
        check(ViewError::Host(Errno::XDEV), libc::EXDEV);
        check(ViewError::NotFound(ViewPath::root()), libc::ENOENT);
        check(ViewError::CreateDenied(ViewPath::root()), libc::EACCES);
        check(ViewError::ReadOnly(ViewPath::root()), libc::EROFS);
        check(ViewError::NotEmpty(ViewPath::root()), libc::ENOTEMPTY);
        check(ViewError::Store(StoreError::Poisoned(String::new())), libc::EROFS);
    }
}
