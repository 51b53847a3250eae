//! What ends a call early: its caller, or the clock. Asked at each entry of a walk.

use std::time::{Duration, Instant};

/// The longest that a walk goes on.
pub(super) const WALK_TIME: Duration = Duration::from_secs(10);
/// Once a page is full, how long a call goes on to count what else there is.
pub(super) const COUNT_TIME: Duration = Duration::from_millis(300);

/// Why a walk ended before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// The caller gave up.
    Cancelled,
    /// Time ran out.
    Time,
}

/// One call's clock, and its caller's patience.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    cancelled: &'a (dyn Fn() -> bool + Sync),
    until: Instant,
}

impl<'a> Patience<'a> {
    /// From now on, for `time`.
    pub fn new(cancelled: &'a (dyn Fn() -> bool + Sync), time: Duration) -> Self {
        Patience { cancelled, until: Instant::now() + time }
    }

    /// Goes on while this is none.
    pub fn ended(&self) -> Option<Ended> {
        if (self.cancelled)() {
            Some(Ended::Cancelled)
        } else if Instant::now() >= self.until {
            Some(Ended::Time)
        } else {
            None
        }
    }
}
