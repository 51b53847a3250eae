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
/// kernel does not know acts as `nobody`. From the first switch on the kernel counts the process as one that changed its
/// user, and writes no core of it.
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

#[cfg(test)]
mod tests {
    use std::{
        os::{fd::AsFd, unix::fs::PermissionsExt},
        sync::mpsc,
    };

    use rustix::fs::OFlags;

    use super::*;
    use crate::host::{
        Errno, chmod, chown, create_file, make_dir, stat_child,
        testing::{Served, everywhere, name},
        write_at,
    };

    const CALLER: Caller = Caller { uid: 4711, gid: 4712, pid: 0 };

    fn now() -> (u32, u32, Vec<Gid>, CapabilitySet) {
        let effective = capabilities(None).unwrap().effective;
        (sys::set_fsuid(ASK), sys::set_fsgid(ASK), getgroups().unwrap(), effective)
    }

    fn set_mode(served: &Served, entry: &str, mode: u32) {
        std::fs::set_permissions(served.dir.path().join(entry), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn owner(served: &Served, entry: &str) -> (u32, u32) {
        let attr = stat_child(served.fd().as_fd(), &name(entry)).unwrap();
        (attr.uid, attr.gid)
    }

    /// Runs `check` while another thread acts on files as `CALLER` with a supplementary group, and gives that caller.
    fn beside_a_caller(groups: &[u32], check: impl FnOnce(&Caller)) {
        let (ready, wait) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                set_thread_groups(&groups.iter().map(|gid| Gid::from_raw(*gid)).collect::<Vec<_>>()).unwrap();
                sys::set_fsuid(CALLER.uid);
                ready.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
                // Ends when `check` did, also by a panic.
                let _ = ended.recv();
            });
            let pid = wait.recv().unwrap();
            let end = end;
            check(&Caller { pid, ..CALLER });
            drop(end);
        });
    }

    #[test]
    fn what_a_caller_makes_is_the_callers() {
        everywhere(|served| {
            set_mode(served, "", 0o777);
            let (root, before) = (served.fd(), now());
            let expected = if geteuid().is_root() { (4711, 4712) } else { (before.0, before.1) };
            {
                let _caller = as_caller(&CALLER);
                create_file(root.as_fd(), &name("f"), 0o600).unwrap();
                make_dir(root.as_fd(), &name("d"), 0o700).unwrap();
                assert_eq!(acting(), geteuid().is_root());
            }
            assert_eq!((owner(served, "f"), owner(served, "d")), (expected, expected));
            assert_eq!(now(), before);
            assert!(!acting());
            create_file(root.as_fd(), &name("ours"), 0o600).unwrap();
            assert_eq!(owner(served, "ours"), (before.0, before.1));
        });
    }

    #[test]
    fn other_threads_stay_who_they_are() {
        let (ask, asked) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let before = now();
        std::thread::scope(|scope| {
            // Started first: a new thread begins with the credentials of the one that starts it.
            scope.spawn(move || {
                asked.recv().unwrap();
                tell.send(now()).unwrap();
            });
            let _caller = as_caller(&CALLER);
            assert_eq!(now().0 == CALLER.uid, geteuid().is_root());
            ask.send(()).unwrap();
            assert_eq!(told.recv().unwrap(), before);
        });
    }

    #[test]
    fn the_callers_permissions_decide() {
        everywhere(|served| {
            served.put("secret", b"x");
            set_mode(served, "secret", 0o600);
            if !geteuid().is_root() {
                let _caller = as_caller(&CALLER);
                assert!(served.look_up("secret").0.open(OFlags::RDONLY).is_ok(), "the daemon acts as itself");
                return;
            }
            served.put("shared", b"x");
            set_mode(served, "shared", 0o640);
            chown(served.look_up("shared").0.path_fd().unwrap().as_fd(), None, Some(5555)).unwrap();
            set_mode(served, "", 0o755);
            let ((secret, _), (shared, _)) = (served.look_up("secret"), served.look_up("shared"));
            // What opening by handle would pass by.
            {
                let _caller = as_caller(&CALLER);
                assert_eq!(secret.open(OFlags::RDONLY).err(), Some(Errno::ACCESS));
                assert_eq!(shared.open(OFlags::RDONLY).err(), Some(Errno::ACCESS));
                assert_eq!(create_file(served.fd().as_fd(), &name("n"), 0o600).err(), Some(Errno::ACCESS));
                assert_eq!(chmod(secret.path_fd().unwrap().as_fd(), 0o666).err(), Some(Errno::PERM));
            }
            beside_a_caller(&[4999, 5555], |caller| {
                let _caller = as_caller(caller);
                assert!(shared.open(OFlags::RDONLY).is_ok(), "by its supplementary group");
                assert_eq!(shared.open(OFlags::WRONLY).err(), Some(Errno::ACCESS));
                assert_eq!(secret.open(OFlags::RDONLY).err(), Some(Errno::ACCESS));
            });
            beside_a_caller(&[4999], |caller| {
                let _caller = as_caller(caller);
                assert_eq!(shared.open(OFlags::RDONLY).err(), Some(Errno::ACCESS));
            });
            assert!(secret.open(OFlags::RDWR).is_ok());
        });
    }

    #[test]
    fn a_caller_still_reaches_files_that_left_the_cache() {
        everywhere(|served| {
            served.put("a", b"");
            let (a, attr) = served.look_up("a");
            let _caller = as_caller(&CALLER);
            let before = now();
            a.forget_descriptor();
            assert_eq!(a.attr(), Ok(attr));
            assert_eq!(now(), before, "CAP_DAC_READ_SEARCH was borrowed only");
        });
    }

    #[test]
    fn guards_nest_and_leave_dropped_capabilities_dropped() {
        let first = now();
        let no_fsetid = without_fsetid();
        let second = now();
        assert!(!second.3.contains(CapabilitySet::FSETID));
        {
            let _caller = as_caller(&CALLER);
            let third = now();
            {
                let _other = as_caller(&Caller { uid: 1, gid: 1, pid: 0 });
                assert!(!geteuid().is_root() || now().0 == 1);
            }
            assert_eq!(now(), third);
        }
        assert_eq!(now(), second, "going back to 0 raises all permitted overrides");
        drop(no_fsetid);
        assert_eq!(now(), first);
    }

    #[test]
    fn the_daemons_own_user_needs_no_switch() {
        let (uid, gid, ..) = now();
        let _caller = as_caller(&Caller { uid, gid, pid: 0 });
        assert!(!acting() || uid != 0);
        if geteuid().is_root() {
            let _group = as_caller(&Caller { uid: 0, gid: 77, pid: 0 });
            assert_eq!((now().0, now().1), (0, 77));
            assert!(now().3.contains(CapabilitySet::DAC_OVERRIDE));
        }
    }

    #[test]
    fn setuid_bits_fall_only_without_fsetid() {
        everywhere(|served| {
            served.put("a", b"");
            let (a, _) = served.look_up("a");
            let fd = a.open(OFlags::WRONLY).unwrap();
            let write = || {
                chmod(a.path_fd().unwrap().as_fd(), 0o6777).unwrap();
                write_at(fd.as_fd(), b"x", 0).unwrap();
                a.attr().unwrap().mode
            };
            let kept = if geteuid().is_root() { 0o6777 } else { 0o777 };
            assert_eq!(write(), kept);
            {
                let _guard = without_fsetid();
                assert_eq!(write(), 0o777);
            }
            assert_eq!(write(), kept);
        });
    }

    #[test]
    fn groups_are_believed_only_of_the_same_user() {
        let status = "Name:\tsh\nUid:\t5\t5\t5\t9\nGid:\t1\t1\t1\t1\nGroups:\t4 24 1000 \nNgid:\t0\n";
        let groups = |gids: &[u32]| Some(gids.iter().map(|gid| Gid::from_raw(*gid)).collect::<Vec<_>>());
        for (text, uid, expected) in [
            (status, 9, groups(&[4, 24, 1000])),
            (status, 5, None),
            ("Uid:\t9\t9\t9\t9\nGroups:\t \n", 9, groups(&[])),
            ("Uid:\t9\t9\t9\t9\n", 9, None),
            ("", 0, None),
        ] {
            assert_eq!(parse_groups(text, uid), expected, "{text:?} as {uid}");
        }
    }
}
