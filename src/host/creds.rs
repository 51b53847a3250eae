//! Acting as the caller: file system user, group and supplementary groups of this one thread, put back on drop.

use crate::types::Caller;

/// The thread acts as another user until it is dropped.
#[must_use = "dropped at once, it protects nothing"]
pub struct CredGuard {
    // implementation: what to put back; not Send
}

/// The thread is without CAP_FSETID until it is dropped, so that the kernel clears setuid bits on writes.
#[must_use = "dropped at once, it protects nothing"]
pub struct FsetidGuard {
    // implementation; not Send
}

/// Takes the caller's fsuid, fsgid and supplementary groups (from `/proc/<pid>/status`) for this thread, by raw system
/// calls (glibc's would change all threads). Does nothing for a daemon that is not root, or for a caller that is the daemon's user.
pub fn as_caller(caller: &Caller) -> CredGuard {
    todo!()
}

/// Drops CAP_FSETID from this thread's effective set, if it has it.
pub fn without_fsetid() -> FsetidGuard {
    todo!()
}
