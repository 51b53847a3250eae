//! Three-way merge by lines: clean, or not at all.

/// The outcome of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Merged {
    /// Both sides' changes, no line lost.
    Clean(Vec<u8>),
    /// They touch the same or adjoining lines, or one side is binary: 1-based lines of `base` in dispute.
    Conflict(Vec<std::ops::RangeInclusive<usize>>),
}

/// Applies to `ours` what changed from `base` to `theirs`.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Merged {
    todo!()
}
