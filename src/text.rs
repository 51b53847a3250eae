//! Text, pure: the edit engine, line ends, windows of lines, diffs, three-way merge. Bytes in, bytes out.

mod diff;
mod edit;
mod hunks;
mod lines;
mod merge;
mod near;

pub use diff::{DiffStats, UnifiedDiff, unified};
pub use edit::{Edit, EditError, Edited, Nearest, Replaced, Which, apply};
pub use hunks::{Hunk, hunks, with_hunks};
pub use lines::{Encoding, LineEnd, LineWindow, detect, window};
pub use merge::{Merged, merge};
