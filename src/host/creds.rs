//! Acting as the caller: file system user, group and supplementary groups of this one thread, put back on drop.

use std::{cell::Cell, marker::PhantomData};

use rustix::{
    process::{Gid, geteuid, getgroups},
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups},
};

use super::{probe, sys};
use crate::types::Caller;

/// `nobody`: who the thread acts as where the kernel does not know the caller's id.
const NOBODY: u32 = 65_534;
/// What `setfsuid` asks without setting.
const ASK: u32 = u32::MAX;
/// The capabilities that override permissions of files; the kernel takes them away itself with a file system user id
/// other than 0 (`CAP_FS_SET`).
const OVERRIDES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MKNOD);

thread_local! {
    /// How many `CredGuard`s of this thread are alive.
    static ACTING: Cell<u32> = const { Cell::new(0) };
}

/// The thread acts as another user until it is dropped.
#[must_use = "dropped at once, it protects nothing"]
pub struct CredGuard {
    before: Option<Before>,
    /// Credentials belong to the thread.
    not_send: PhantomData<*const ()>,
}

struct Before {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    effective: CapabilitySet,
}

/// The thread is without CAP_FSETID until it is dropped, so that the kernel clears setuid bits on writes.
#[must_use = "dropped at once, it protects nothing"]
pub struct FsetidGuard {
    had_it: bool,
    /// Capabilities belong to the thread.
    not_send: PhantomData<*const ()>,
}

/// Takes the caller's fsuid, fsgid and supplementary groups (from `/proc/<pid>/status`) for this thread, by raw system
/// calls (glibc's would change all threads). Does nothing for a daemon that is not root (or has neither CAP_SETUID nor
/// CAP_SETGID), or for a caller that is the daemon's user. Guards of one thread end in reverse order.
///
/// A caller whose process is gone, or runs as another user by now, acts without supplementary groups; one whose ids the
/// kernel does not know acts as `nobody`.
pub fn as_caller(caller: &Caller) -> CredGuard {
    CredGuard { before: switch(caller), not_send: PhantomData }
}

/// Drops CAP_FSETID from this thread's effective set, if it has it.
pub fn without_fsetid() -> FsetidGuard {
    let had_it = capabilities(None).is_ok_and(|sets| {
        sets.effective.contains(CapabilitySet::FSETID) && set_effective(sets, sets.effective - CapabilitySet::FSETID)
    });
    FsetidGuard { had_it, not_send: PhantomData }
}

/// True while a `CredGuard` of this thread is alive: permissions are the caller's, not the daemon's.
pub(super) fn acting() -> bool {
    ACTING.get() > 0
}

/// Runs `call` with CAP_DAC_READ_SEARCH, which opening by handle needs and which a thread that acts as a user lost.
pub(super) fn with_read_search<T>(call: impl FnOnce() -> T) -> T {
    if !acting() {
        return call();
    }
    let Ok(sets) = capabilities(None) else { return call() };
    let raised = set_effective(sets, sets.effective | (sets.permitted & CapabilitySet::DAC_READ_SEARCH));
    let result = call();
    if raised {
        set_effective(sets, sets.effective);
    }
    result
}

fn switch(caller: &Caller) -> Option<Before> {
    let sets = capabilities(None).ok()?;
    let able = sets.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID);
    if !able || !geteuid().is_root() {
        return None;
    }
    let (uid, gid) = (sys::set_fsuid(ASK), sys::set_fsgid(ASK));
    if (caller.uid, caller.gid) == (uid, gid) && uid == 0 {
        return None;
    }
    let before = Before { uid, gid, groups: getgroups().ok()?, effective: sets.effective };
    ACTING.set(ACTING.get() + 1);
    let mut known = set_thread_groups(&supplementary_groups(caller)).is_ok();
    sys::set_fsgid(caller.gid);
    if sys::set_fsgid(ASK) != caller.gid {
        sys::set_fsgid(NOBODY);
        known = false;
    }
    sys::set_fsuid(if known { caller.uid } else { NOBODY });
    if !known || sys::set_fsuid(ASK) != caller.uid {
        sys::set_fsuid(NOBODY);
        set_effective(sets, sets.effective - OVERRIDES);
    }
    Some(before)
}

impl Drop for CredGuard {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        sys::set_fsuid(before.uid);
        sys::set_fsgid(before.gid);
        // None of these can fail: the thread kept the capabilities it switched with.
        let groups = set_thread_groups(&before.groups);
        debug_assert_eq!(groups, Ok(()));
        // Going back to 0 raises all permitted overrides, also those the thread did not use before.
        if let Ok(sets) = capabilities(None)
            && sets.effective != before.effective
        {
            set_effective(sets, before.effective);
        }
        ACTING.set(ACTING.get() - 1);
    }
}

impl Drop for FsetidGuard {
    fn drop(&mut self) {
        if self.had_it
            && let Ok(sets) = capabilities(None)
        {
            set_effective(sets, sets.effective | CapabilitySet::FSETID);
        }
    }
}

fn set_effective(sets: CapabilitySets, effective: CapabilitySet) -> bool {
    set_capabilities(None, CapabilitySets { effective, ..sets }).is_ok()
}

/// Empty if they cannot be told for certain.
fn supplementary_groups(caller: &Caller) -> Vec<Gid> {
    if caller.pid == 0 {
        return Vec::new();
    }
    let Ok(status) = probe::process_file(caller.pid, "status") else { return Vec::new() };
    parse_groups(&String::from_utf8_lossy(&status), caller.uid).unwrap_or_default()
}

/// The groups in a `/proc/<pid>/status`, if the process acts on files as `uid`.
fn parse_groups(status: &str, uid: u32) -> Option<Vec<Gid>> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let fsuid = field("Uid:")?.split_whitespace().nth(3)?;
    if fsuid.parse() != Ok(uid) {
        return None;
    }
    field("Groups:")?.split_whitespace().map(|gid| gid.parse().ok().map(Gid::from_raw)).collect()
}
