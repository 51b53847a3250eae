//! Tools and shells see one file system, at once, and do not overwrite each other.

mod beside;
mod conflicts;
mod feed;
mod parallel;
mod sight;
mod warm;
mod watch;
