//! The mount as programs see it: a daemon in a process of its own, and ordinary system calls through the kernel.
#![expect(clippy::unwrap_used, reason = "a test that cannot do what it is about has failed")]

mod content;
mod door;
mod ending;
mod listing;
mod names;
mod telling;
