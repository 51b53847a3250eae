//! Hunks of a difference, each by itself: what a text is with some of them and without the others.

use std::ops::Range;

use similar::group_diff_ops;

use super::diff::{Bounded, changes, hunk, is_binary, lines_of, split};

/// Lines around a change that belong to its hunk, as git has it.
const CONTEXT: usize = 3;

/// Changes of a text that lie close together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hunk {
    /// Its lines in the old text.
    old: Range<usize>,
    /// Its lines in the new one.
    new: Range<usize>,
    /// As a unified diff has it, from its `@@` on.
    pub text: String,
}

/// The hunks of the difference from `a` to `b`, in order; none if one of them is binary.
pub fn hunks(a: &[u8], b: &[u8]) -> Option<Vec<Hunk>> {
    if is_binary(a) || is_binary(b) {
        return None;
    }
    let (old, new) = (split(a), split(b));
    let groups = group_diff_ops(changes(&old, &new), CONTEXT);
    let one = |group: Vec<similar::DiffOp>| {
        let (in_old, in_new) = lines_of(&group)?;
        let mut text = Bounded::of(usize::MAX);
        hunk(&mut text, &group, &old, &new);
        Some(Hunk { old: in_old, new: in_new, text: text.into_text() })
    };
    Some(groups.into_iter().filter_map(one).collect())
}

/// `a` with those hunks of its difference to `b` that are `chosen`, by their place in the list.
pub fn with_hunks(a: &[u8], b: &[u8], hunks: &[Hunk], chosen: impl Fn(usize) -> bool) -> Vec<u8> {
    let (old, new) = (split(a), split(b));
    let (mut out, mut at) = (Vec::with_capacity(a.len().max(b.len())), 0);
    for (_, hunk) in hunks.iter().enumerate().filter(|(number, _)| chosen(*number)) {
        out.extend_from_slice(&old[at..hunk.old.start]);
        out.extend_from_slice(&new[hunk.new.clone()]);
        at = hunk.old.end;
    }
    out.extend_from_slice(&old[at..]);
    out.concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::{Merged, merge, unified};

    fn lines(changed: &[usize]) -> Vec<u8> {
        let line = |n: usize| format!("{}{n}\n", if changed.contains(&n) { "NEW " } else { "" });
        (0..40).map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn each_hunk_is_taken_or_left() {
        let (a, b) = (lines(&[]), lines(&[3, 20, 22, 39]));
        let all = hunks(&a, &b).expect("texts");
        assert_eq!(all.len(), 3, "{all:?}");
        let check = |chosen: &[usize], expected: &[usize]| {
            assert_eq!(with_hunks(&a, &b, &all, |n| chosen.contains(&n)), lines(expected), "{chosen:?}");
        };
        check(&[], &[]);
        check(&[0], &[3]);
        check(&[1], &[20, 22]);
        check(&[0, 2], &[3, 39]);
        check(&[0, 1, 2], &[3, 20, 22, 39]);
    }

    #[test]
    fn a_hunk_taken_out_is_a_merge_with_its_inverse() {
        let (a, b) = (lines(&[]), lines(&[3, 20]));
        let all = hunks(&a, &b).expect("texts");
        let without = with_hunks(&a, &b, &all, |n| n != 0);
        let now = lines(&[3, 20, 35]);
        assert_eq!(merge(&b, &now, &without), Merged::Clean(lines(&[20, 35])));
        let other = String::from_utf8(b.clone()).expect("text").replace("NEW 3", "other 3");
        assert!(matches!(merge(&b, other.as_bytes(), &without), Merged::Conflict(_)));
    }

    #[test]
    fn a_binary_content_has_no_hunks() {
        assert_eq!(hunks(b"a\0", b"b\0"), None);
        assert_eq!(hunks(b"a\n", b"a\n"), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn all_hunks_are_the_whole_difference(a in "([ab]\n){0,30}[ab]?", b in "([ab]\n){0,30}[ab]?") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let all = hunks(a, b).expect("texts");
            prop_assert_eq!(with_hunks(a, b, &all, |_| true), b);
            prop_assert_eq!(with_hunks(a, b, &all, |_| false), a);
            let text: String = all.iter().map(|hunk| hunk.text.as_str()).collect();
            let whole = unified(a, b, Some("a"), Some("b"), CONTEXT, usize::MAX).text;
            prop_assert_eq!(whole.strip_prefix("--- a\n+++ b\n").unwrap_or_default(), text);
        }
    }
}
