//! Unified diffs of bytes, bounded in time and size.

/// Lines added and removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiffStats {
    /// Added lines.
    pub added: usize,
    /// Removed lines.
    pub removed: usize,
}

/// A unified diff in git's form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnifiedDiff {
    /// `--- a/…`, `+++ b/…`, hunks; `\ No newline at end of file` where due; `Binary files … differ` for binary ones.
    pub text: String,
    /// Counted over the whole diff, also when `text` is cut.
    pub stats: DiffStats,
    /// `text` was cut at a line to fit `max_chars`.
    pub truncated: bool,
}

/// The diff from `a` to `b` with `context` lines around; names as they shall stand in the head (`None` is /dev/null).
/// A deadline of 500 ms degrades the diff, never its truth.
pub fn unified(
    a: &[u8],
    b: &[u8],
    a_name: Option<&str>,
    b_name: Option<&str>,
    context: usize,
    max_chars: usize,
) -> UnifiedDiff {
    todo!()
}
