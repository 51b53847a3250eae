//! Three-way merge by lines: clean, or not at all.

use std::ops::{Range, RangeInclusive};

use similar::DiffOp;

use super::{
    diff::{changes, is_binary},
    lines::Lines,
};

/// The outcome of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Merged {
    /// Both sides' changes, no line lost.
    Clean(Vec<u8>),
    /// They touch the same or adjoining lines, or one side is binary: 1-based lines of `base` in dispute. A dispute
    /// about what to insert names the line before the place.
    Conflict(Vec<RangeInclusive<usize>>),
}

/// Lines of the base, and the lines of one side that stand in their place.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    base: Range<usize>,
    side: Range<usize>,
}

/// Applies to `ours` what changed from `base` to `theirs`. The same change on both sides counts once.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Merged {
    if base == theirs || ours == theirs {
        return Merged::Clean(ours.to_vec());
    }
    if base == ours {
        return Merged::Clean(theirs.to_vec());
    }
    let (base_lines, our_lines, their_lines) = (lines(base), lines(ours), lines(theirs));
    if is_binary(base) || is_binary(ours) || is_binary(theirs) {
        return Merged::Conflict(vec![numbers(&(0..base_lines.len()))]);
    }
    let our_changes = changed(&base_lines, &our_lines);
    let their_changes = changed(&base_lines, &their_lines);

    let (mut out, mut disputes) = (Vec::new(), Vec::new());
    let (mut mine, mut yours, mut at) = (our_changes.as_slice(), their_changes.as_slice(), 0);
    while let Some(region) = next_region(mine, yours) {
        let (taken_mine, rest_mine) = split_within(mine, &region);
        let (taken_yours, rest_yours) = split_within(yours, &region);
        (mine, yours) = (rest_mine, rest_yours);
        out.extend_from_slice(&base_lines[at..region.start]);
        at = region.end;
        let ours_here = side_of(&region, taken_mine, &base_lines, &our_lines);
        let theirs_here = side_of(&region, taken_yours, &base_lines, &their_lines);
        if taken_yours.is_empty() || ours_here == theirs_here {
            out.extend(ours_here);
        } else if taken_mine.is_empty() {
            out.extend(theirs_here);
        } else {
            disputes.push(numbers(&region));
        }
    }
    out.extend_from_slice(&base_lines[at..]);
    if disputes.is_empty() { Merged::Clean(out.concat()) } else { Merged::Conflict(disputes) }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    Lines::of(text).iter().collect()
}

fn changed(base: &[&[u8]], side: &[&[u8]]) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for op in changes(base, side).iter().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
        let next = Change { base: op.old_range(), side: op.new_range() };
        match all.last_mut() {
            Some(last) if last.base.end == next.base.start && last.side.end == next.side.start => {
                last.base.end = next.base.end;
                last.side.end = next.side.end;
            }
            Some(_) | None => all.push(next),
        }
    }
    all
}

/// The lines of the base that the next changes touch: the first of them, and all that overlap or adjoin it in turn.
fn next_region(mine: &[Change], yours: &[Change]) -> Option<Range<usize>> {
    let first = |changes: &[Change]| changes.first().map(|c| c.base.clone());
    let mut region = match (first(mine), first(yours)) {
        (Some(a), Some(b)) => {
            if a.start <= b.start {
                a
            } else {
                b
            }
        }
        (Some(a), None) | (None, Some(a)) => a,
        (None, None) => return None,
    };
    loop {
        let touching = mine.iter().chain(yours).filter(|c| c.base.start <= region.end && c.base.end >= region.start);
        let end = touching.map(|c| c.base.end).max().unwrap_or(region.end);
        if end <= region.end {
            return Some(region);
        }
        region.end = end;
    }
}

fn split_within<'a>(changes: &'a [Change], region: &Range<usize>) -> (&'a [Change], &'a [Change]) {
    changes.split_at(changes.partition_point(|c| c.base.start <= region.end))
}

/// What one side has in place of the region.
fn side_of<'a>(region: &Range<usize>, changes: &[Change], base: &[&'a [u8]], side: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let (mut out, mut at) = (Vec::new(), region.start);
    for change in changes {
        out.extend_from_slice(&base[at..change.base.start]);
        out.extend_from_slice(&side[change.side.clone()]);
        at = change.base.end;
    }
    out.extend_from_slice(&base[at..region.end]);
    out
}

fn numbers(region: &Range<usize>) -> RangeInclusive<usize> {
    if region.is_empty() { region.start.max(1)..=region.start.max(1) } else { region.start + 1..=region.end }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(base: &str, ours: &str, theirs: &str, expected: Result<&str, &[RangeInclusive<usize>]>) {
        let expected = match expected {
            Ok(text) => Merged::Clean(text.into()),
            Err(lines) => Merged::Conflict(lines.to_vec()),
        };
        assert_eq!(
            merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()),
            expected,
            "{base:?} {ours:?} {theirs:?}"
        );
        assert_eq!(
            matches!(merge(base.as_bytes(), theirs.as_bytes(), ours.as_bytes()), Merged::Clean(_)),
            matches!(expected, Merged::Clean(_)),
            "the sides can be swapped"
        );
    }

    #[test]
    fn changes_apart_are_both_kept() {
        check("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n", Ok("A\nb\nc\nD\n"));
        check("a\nb\nc\n", "x\na\nb\nc\n", "a\nb\nc\ny\n", Ok("x\na\nb\nc\ny\n"));
        check("a\nb\nc\n", "b\nc\n", "a\nb\nC", Ok("b\nC"));
        check("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\n", Ok("A\r\nb\r\n"));
        check("a\rb\rc", "A\rb\rc", "a\rb\rC", Ok("A\rb\rC"));
        check("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", Ok("a\nX\nc\n"));
        check("a\nb\nc\nd\n", "X\nb\nc\nd\n", "X\nb\nc\nY\n", Ok("X\nb\nc\nY\n"));
    }

    #[test]
    fn changes_that_touch_are_disputed() {
        check("a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n", Err(&[2..=2]));
        check("a\nb\nc\n", "X\nb\nc\n", "a\nY\nc\n", Err(&[1..=2]));
        check("a\nb\n", "a\nX\nb\n", "a\nY\nb\n", Err(&[1..=1]));
        check("a\n", "X\na\n", "Y\na\n", Err(&[1..=1]));
        check("a\nb\nc\n", "", "a\nY\nc\n", Err(&[1..=3]));
    }

    #[test]
    fn binary_contents_are_never_mixed() {
        assert_eq!(merge(b"a\0\nb\n", b"A\0\nb\n", b"a\0\nB\n"), Merged::Conflict(vec![1..=2]));
        assert_eq!(merge(b"a\0", b"a\0", b"b\0"), Merged::Clean(b"b\0".to_vec()));
        assert_eq!(merge(b"\xe9\nb\nc\n", b"\xe9\nb\nC\n", b"\xe8\nb\nc\n"), Merged::Clean(b"\xe8\nb\nC\n".to_vec()));
    }

    fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
        let mut all: Vec<String> = lines.collect();
        all.sort();
        all
    }

    proptest! {
        /// Each side changes lines of its own; whatever it added must stand in a clean result, whatever both kept too.
        #[test]
        fn no_line_is_lost(edits in prop::collection::vec(0u8..8, 1..30)) {
            let (mut base, mut ours, mut theirs) = (String::new(), String::new(), String::new());
            let mut due = Vec::new();
            for (n, edit) in edits.iter().enumerate() {
                let line = format!("line {n}\n");
                base.push_str(&line);
                match edit {
                    0 => { ours.push_str(&format!("ours {n}\n")); theirs.push_str(&line); due.push(format!("ours {n}")); }
                    1 => { theirs.push_str(&format!("theirs {n}\n")); ours.push_str(&line); due.push(format!("theirs {n}")); }
                    2 => ours.push_str(&line),
                    3 => {
                        ours.push_str(&format!("{line}more {n}\n"));
                        theirs.push_str(&line);
                        due.extend([format!("line {n}"), format!("more {n}")]);
                    }
                    _ => { ours.push_str(&line); theirs.push_str(&line); due.push(format!("line {n}")); }
                }
            }
            match merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
                Merged::Clean(text) => {
                    let text = String::from_utf8(text).expect("made of UTF-8");
                    prop_assert_eq!(sorted(text.lines().map(String::from)), sorted(due.into_iter()));
                }
                Merged::Conflict(disputes) => {
                    prop_assert!(edits.windows(2).any(|w| w[0] < 4 && w[1] < 4), "{disputes:?} {edits:?}");
                }
            }
        }
    }
}
