//! Named points at which a test ends the process, as a crash would, and faults that a test plants to see that it notices
//! them. A release build has nothing of either.

/// Ends the process here if `WARDFS_CRASH_POINT` names this point: `name`, or `name:N` for the N-th time it is passed.
/// With `WARDFS_CRASH_MARK` it leaves a file of that name. Only in tests and with the feature `failpoints`.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::versions::crash::passed($name)
    };
}

/// All points, in the order in which a change meets them. Tests walk this list, and compare it with the source.
pub const POINTS: &[&str] = &[
    // A store comes up.
    "index-emptied",
    "index-followed",
    "segment-created",
    "segment-header-written",
    "segment-begun",
    "tmp-emptied",
    // What a crash left is finished.
    "recovery-step-taken-back",
    "recovery-step-applied",
    "recovery-intent-recorded",
    "recovery-begun-recorded",
    "recovery-open-recorded",
    "recovery-aside-unlinked",
    // A record goes into the log.
    "record-framed",
    "record-written",
    "roll-flushed",
    "roll-created",
    "flush-begun",
    "flush-done",
    "reserve-released",
    // A shell writes.
    "pre-image-appended",
    "pre-image-flushed",
    "pre-image-copied",
    "outside-recorded",
    "open-marked",
    "truncated-at-open",
    "write-let-through",
    "written",
    "sealing",
    "sealed",
    "session-ended",
    "content-stored",
    "content-settled",
    // A shell changes names and metadata.
    "announced",
    "made",
    "creation-recorded",
    "linked",
    "moved-aside",
    "name-removed",
    "removal-recorded",
    "directory-removed",
    "aside-linked",
    "renamed",
    "names-exchanged",
    "rename-recorded",
    "attributes-set",
    "xattr-set",
    // A tool changes files.
    "large-content-written",
    "planned",
    "intent-appended",
    "intent-flushed",
    "staged",
    "placed",
    "made-bare",
    "overwritten",
    "exchanged",
    "exchange-verified",
    "exchanged-back",
    "step-applied",
    "withdrawal-recorded",
    "step-taken-back",
    "abort-recorded",
    "all-applied",
    "outcome-appended",
    "told",
    "answer-recorded",
    "files-flushed",
    // A person accepts.
    "review-recorded",
    // The index follows the log.
    "index-applying",
    "index-applied",
    "index-checkpoint",
    // History is dropped, and its space is given back.
    "trim-appended",
    "trim-flushed",
    "trimmed-unlinked",
    "forgetting-appended",
    "deltas-said",
    "segment-buried",
    "segment-burial-flushed",
    "segment-packed",
    "segment-replaced",
    "segments-joined",
    "segment-unlinked",
    // The end.
    "closing",
    "closed",
];

/// What a test can break by `WARDFS_PLANTED_FAULT`, to see that it would be noticed.
pub const FAULTS: &[&str] = &[
    // The content that a write destroys is not kept.
    "pre-image-left-out",
    // An operation is not recorded before it is applied.
    "intent-left-out",
    // A file that a tool replaces is taken for another one than was looked at.
    "exchange-mismatch",
    // The disk is full when something that was begun has to end.
    "disk-full-at-the-end",
    // The log is not flushed, and yet said to be on disk.
    "log-flush-left-out",
    // What a tool wrote is not flushed, and yet said to be on disk.
    "file-flush-left-out",
];

/// What `crash_point!` calls.
#[cfg(any(test, feature = "failpoints"))]
pub fn passed(name: &str) {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    };
    static WANTED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("WARDFS_CRASH_POINT").ok());
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let Some(wanted) = &*WANTED else { return };
    let (point, count) = wanted.rsplit_once(':').unwrap_or((wanted, "1"));
    if point == name && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == count.parse().unwrap_or(1) {
        if let Some(mark) = std::env::var_os("WARDFS_CRASH_MARK") {
            // Without it the test fails, as it should.
            let _ = std::fs::write(mark, wanted);
        }
        // No destructor runs, nothing is flushed, and nobody is told.
        let killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        unreachable!("a process outlived its SIGKILL: {killed:?}");
    }
}

/// What `crash_point!` calls: nothing.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub fn passed(_name: &str) {}

/// True if a test planted this fault.
#[cfg(any(test, feature = "failpoints"))]
pub fn planted(name: &str) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("WARDFS_PLANTED_FAULT").ok());
    PLANTED.as_deref() == Some(name)
}

/// Nobody plants faults.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub fn planted(_name: &str) -> bool {
    false
}

/// A size that tests want smaller, so that what happens at its end happens soon: with `WARDFS_CRASH_SMALL` set, too.
pub(super) fn size(usual: u64, in_tests: u64) -> u64 {
    #[cfg(any(test, feature = "failpoints"))]
    {
        static SMALL: std::sync::LazyLock<bool> =
            std::sync::LazyLock::new(|| cfg!(test) || std::env::var_os("WARDFS_CRASH_SMALL").is_some());
        if *SMALL {
            return in_tests;
        }
    }
    let _ = in_tests;
    usual
}
