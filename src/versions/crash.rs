//! Named points at which a test ends the process, as a crash would. A release build has nothing of it.

/// Ends the process here if `WARDFS_CRASH_POINT` names this point: `name`, or `name:N` for the N-th time it is passed.
/// Only in tests and with the feature `failpoints`.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::versions::crash::passed($name)
    };
}

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
        std::process::abort();
    }
}

/// What `crash_point!` calls: nothing.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub fn passed(_name: &str) {}
