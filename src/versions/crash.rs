//! Named points at which a test ends the process, as a crash would. Nothing of it is in a release build.

/// Ends the process if `WARDFS_CRASH_POINT` names this point (`name`, or `name:N` for the N-th time it is passed).
#[cfg(any(test, feature = "failpoints"))]
pub fn passed(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let Ok(wanted) = std::env::var("WARDFS_CRASH_POINT") else { return };
    let (point, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if point == name && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == count.parse().unwrap_or(1) {
        std::process::abort();
    }
}

/// Does nothing in a release build.
#[cfg(not(any(test, feature = "failpoints")))]
pub fn passed(_name: &str) {}
