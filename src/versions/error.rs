//! What can go wrong with the store, and which error number a system call answers then.

use std::path::{Path, PathBuf};

use super::Loss;
use crate::types::Hash;

/// What can go wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another live process has it.
    #[error("{} is in use by process {pid} (admin socket {admin})", path.display())]
    Locked {
        /// The store.
        path: PathBuf,
        /// The holder.
        pid: u32,
        /// The holder's admin socket, empty if it wrote none.
        admin: String,
    },
    /// Not a store of ours, or one of a later format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The log is damaged: it is read, and nothing is added to it.
    #[error("the log is damaged: {0}")]
    Damaged(String),
    /// An earlier flush failed: nothing more is written until the daemon is restarted.
    #[error(
        "the store stopped after an I/O error ({0}); reads go on, changes are refused until the daemon is restarted"
    )]
    Poisoned(String),
    /// The content is not there.
    #[error("that content is not in the store ({0})")]
    Unavailable(Loss),
    /// A content does not have the hash it should.
    #[error("content {0} is damaged in the store")]
    Corrupt(Hash),
    /// The disk is full.
    #[error("no space left for history on {}", path.display())]
    NoSpace {
        /// The store.
        path: PathBuf,
    },
    /// The quota is used up, and changes that need something kept are refused.
    #[error(
        "history in {} takes all of its {quota} bytes; raise `retain.bytes`, or let the oldest go with on_full = \"drop_oldest\"",
        path.display()
    )]
    Quota {
        /// The store.
        path: PathBuf,
        /// Its quota.
        quota: u64,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// On what.
        what: String,
        /// The error.
        source: std::io::Error,
    },
    /// The index failed in a way that a rebuild did not mend.
    #[error("index: {0}")]
    Index(#[from] rusqlite::Error),
}

impl StoreError {
    /// The error number that a system call through the mount answers.
    #[must_use]
    pub fn errno(&self) -> rustix::io::Errno {
        match self {
            StoreError::NoSpace { .. } => rustix::io::Errno::NOSPC,
            StoreError::Quota { .. } => rustix::io::Errno::DQUOT,
            StoreError::Poisoned(_) | StoreError::Damaged(_) => rustix::io::Errno::ROFS,
            StoreError::Io { source, .. } => {
                source.raw_os_error().map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error)
            }
            StoreError::Locked { .. }
            | StoreError::Format { .. }
            | StoreError::Unavailable(_)
            | StoreError::Corrupt(_)
            | StoreError::Index(_) => rustix::io::Errno::IO,
        }
    }
}

/// A failed system call on a file of the store. A full disk or a used-up quota is `NoSpace`.
pub(super) fn failed(path: &Path, source: std::io::Error) -> StoreError {
    if matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) {
        return StoreError::NoSpace { path: path.to_owned() };
    }
    StoreError::Io { what: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn check(error: &StoreError, expected: Errno) {
        assert_eq!(error.errno(), expected, "{error}");
    }

    #[test]
    fn each_error_has_its_number() {
        let path = Path::new("/store");
        let os = |errno: i32| std::io::Error::from_raw_os_error(errno);
        check(&failed(path, os(libc::ENOSPC)), Errno::NOSPC);
        check(&failed(path, os(libc::EDQUOT)), Errno::NOSPC);
        check(&failed(path, os(libc::EMFILE)), Errno::MFILE);
        check(&StoreError::Io { what: String::new(), source: std::io::Error::other("no number") }, Errno::IO);
        check(&StoreError::Poisoned(String::new()), Errno::ROFS);
        check(&StoreError::Damaged(String::new()), Errno::ROFS);
        check(&StoreError::Unavailable(Loss::Size), Errno::IO);
        check(&StoreError::Corrupt(Hash([0; 32])), Errno::IO);
        check(&StoreError::Index(rusqlite::Error::InvalidQuery), Errno::IO);
    }
}
