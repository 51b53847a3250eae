//! Unified diffs of bytes, bounded in time and size.

use std::{
    collections::HashMap,
    fmt::Write,
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::lines::{Encoding, detect};

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
    /// Empty if the contents are equal. Bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Counted over the whole diff, also when `text` is cut. Zero for binary contents.
    pub stats: DiffStats,
    /// `text` was cut at a line to fit `max_chars`.
    pub truncated: bool,
}

/// How long a diff may look for the smallest form.
const DEADLINE: Duration = Duration::from_millis(500);

/// More context than any text has lines to show.
const MAX_CONTEXT: usize = 1 << 32;

/// The diff from `a` to `b` with `context` lines around; names as they shall stand in the head (`None` is /dev/null).
/// A deadline of 500 ms degrades the diff, never its truth. Lines end with `\n` here, as git has it.
pub fn unified(
    a: &[u8],
    b: &[u8],
    a_name: Option<&str>,
    b_name: Option<&str>,
    context: usize,
    max_chars: usize,
) -> UnifiedDiff {
    let mut out = Bounded::of(max_chars);
    if a == b {
        return out.finish(DiffStats::default());
    }
    let a_name = a_name.map_or_else(|| "/dev/null".into(), quoted);
    let b_name = b_name.map_or_else(|| "/dev/null".into(), quoted);
    if is_binary(a) || is_binary(b) {
        out.push(&format!("Binary files {a_name} and {b_name} differ\n"));
        return out.finish(DiffStats::default());
    }
    let (old, new) = (split(a), split(b));
    let ops = changes(&old, &new);
    let stats = count(&ops);
    out.push(&format!("--- {a_name}\n+++ {b_name}\n"));
    for group in group_diff_ops(ops, context.min(MAX_CONTEXT)) {
        if out.truncated {
            break;
        }
        hunk(&mut out, &group, &old, &new);
    }
    out.finish(stats)
}

/// What changed between two lists of lines, in order, equal stretches included.
pub(super) fn changes(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    // Most changes are small, and what is equal around them need not be looked at closer.
    let same = |(a, b): &(&&[u8], &&[u8])| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    let mut numbers: HashMap<&[u8], usize> = HashMap::new();
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let old_lines: Vec<usize> = old[head..old_end].iter().map(|line| number(*line)).collect();
    let new_lines: Vec<usize> = new[head..new_end].iter().map(|line| number(*line)).collect();
    let middle =
        capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(Instant::now() + DEADLINE));
    let equal = |old_index, new_index, len| (len > 0).then_some(DiffOp::Equal { old_index, new_index, len });
    let middle = middle.into_iter().map(|op| moved(op, head));
    equal(0, 0, head).into_iter().chain(middle).chain(equal(old_end, new_end, tail)).collect()
}

/// The same, so many lines further down.
fn moved(op: DiffOp, by: usize) -> DiffOp {
    match op {
        DiffOp::Equal { old_index, new_index, len } => {
            DiffOp::Equal { old_index: old_index + by, new_index: new_index + by, len }
        }
        DiffOp::Delete { old_index, old_len, new_index } => {
            DiffOp::Delete { old_index: old_index + by, old_len, new_index: new_index + by }
        }
        DiffOp::Insert { old_index, new_index, new_len } => {
            DiffOp::Insert { old_index: old_index + by, new_index: new_index + by, new_len }
        }
        DiffOp::Replace { old_index, old_len, new_index, new_len } => {
            DiffOp::Replace { old_index: old_index + by, old_len, new_index: new_index + by, new_len }
        }
    }
}

/// True for what a diff by lines makes no sense of: NUL bytes near the start, UTF-16 among them.
pub(super) fn is_binary(content: &[u8]) -> bool {
    match detect(&content[..content.len().min(8 * 1024)]) {
        Encoding::Binary | Encoding::Utf16 { .. } => true,
        Encoding::Utf8 { .. } | Encoding::OtherText => false,
    }
}

pub(super) fn split(text: &[u8]) -> Vec<&[u8]> {
    let ends = memchr::memchr_iter(b'\n', text).map(|at| at + 1);
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends.chain([text.len()])).map(|(start, end)| &text[start..end]).filter(|line| !line.is_empty()).collect()
}

fn count(ops: &[DiffOp]) -> DiffStats {
    ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. })).fold(DiffStats::default(), |sum, op| DiffStats {
        added: sum.added + op.new_range().len(),
        removed: sum.removed + op.old_range().len(),
    })
}

/// The lines of a group of changes in the old text, and in the new one.
pub(super) fn lines_of(group: &[DiffOp]) -> Option<(Range<usize>, Range<usize>)> {
    let (first, last) = (group.first()?, group.last()?);
    Some((first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end))
}

pub(super) fn hunk(out: &mut Bounded, group: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
    let Some((old_range, new_range)) = lines_of(group) else { return };
    // A head without a line below it would say nothing; it is written together with its first line.
    let mut head = format!("@@ -{} +{} @@\n", span(&old_range), span(&new_range));
    for op in group {
        let equal = matches!(op, DiffOp::Equal { .. });
        let removed = op.old_range().map(|at| (if equal { ' ' } else { '-' }, old[at]));
        let added = op.new_range().filter(|_| !equal).map(|at| ('+', new[at]));
        for (sign, line) in removed.chain(added) {
            let mut text = std::mem::take(&mut head);
            text.push(sign);
            text.push_str(&String::from_utf8_lossy(line));
            if !line.ends_with(b"\n") {
                text.push_str("\n\\ No newline at end of file\n");
            }
            if !out.push(&text) {
                return;
            }
        }
    }
}

/// `start,length`; an empty range names the line before it, and a length of 1 is left out.
fn span(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        len => format!("{},{len}", range.start + 1),
    }
}

/// A name as git writes it: in quotes and escaped if it would break the line.
fn quoted(name: &str) -> String {
    if !name.contains(|c: char| c.is_ascii_control() || matches!(c, '"' | '\\')) {
        return name.into();
    }
    let mut out = String::from('"');
    for c in name.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_ascii_control() => {
                write!(out, "\\{:03o}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text that takes whole lines as long as they fit.
pub(super) struct Bounded {
    text: String,
    chars: usize,
    max_chars: usize,
    truncated: bool,
}

impl Bounded {
    /// One that takes so many characters.
    pub fn of(max_chars: usize) -> Bounded {
        Bounded { text: String::new(), chars: 0, max_chars, truncated: false }
    }

    pub fn into_text(self) -> String {
        self.text
    }

    fn push(&mut self, text: &str) -> bool {
        let chars = self.chars + text.chars().count();
        if self.truncated || chars > self.max_chars {
            self.truncated = true;
            return false;
        }
        self.chars = chars;
        self.text.push_str(text);
        true
    }

    fn finish(self, stats: DiffStats) -> UnifiedDiff {
        UnifiedDiff { text: self.text, stats, truncated: self.truncated }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn diff(a: &[u8], b: &[u8]) -> UnifiedDiff {
        unified(a, b, Some("a/f"), Some("b/f"), 3, 16_000)
    }

    fn check(a: &str, b: &str, expected: &str, added: usize, removed: usize) {
        let got = diff(a.as_bytes(), b.as_bytes());
        assert_eq!((got.text.as_str(), got.stats), (expected, DiffStats { added, removed }));
        assert!(!got.truncated);
    }

    #[test]
    fn diffs_have_gits_form() {
        check("a\n", "a\n", "", 0, 0);
        check("a\nb\n", "a\nc\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", 1, 1);
        check("", "x\n", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", 1, 0);
        check("x", "", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n", 0, 1);
        check("x", "x\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n", 1, 1);
        check("x\r\n", "x\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\r\n+x\n", 1, 1);
    }

    #[test]
    fn names_and_binary_contents() {
        let made = unified(b"", b"x\n", None, Some("b/q\"\n"), 3, 1000);
        assert!(made.text.starts_with("--- /dev/null\n+++ \"b/q\\\"\\n\"\n"), "{}", made.text);
        let binary = diff(b"a\0", b"a\n");
        assert_eq!((binary.text.as_str(), binary.stats.added), ("Binary files a/f and b/f differ\n", 0));
        assert_eq!(
            diff(b"\xff\xfea\0", b"\xff\xfeb\0").stats,
            DiffStats { added: 0, removed: 0 },
            "UTF-16 by its mark"
        );
        assert!(diff(b"caf\xe9\n", b"x\n").text.contains("-caf\u{fffd}\n"));
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line_and_counted_whole() {
        let a: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let b: String = (0..1000).map(|n| format!("other {n}\n")).collect();
        let got = unified(a.as_bytes(), b.as_bytes(), Some("a"), Some("b"), 3, 100);
        assert!(got.truncated && got.text.ends_with('\n') && got.text.chars().count() <= 100, "{}", got.text);
        assert_eq!(got.stats, DiffStats { added: 1000, removed: 1000 });
        let fits = diff(b"a\nb\n", b"a\nc\n");
        let exact = unified(b"a\nb\n", b"a\nc\n", Some("a/f"), Some("b/f"), 3, fits.text.chars().count());
        assert!(!exact.truncated && exact == fits);
    }

    #[test]
    fn a_hard_diff_ends_in_time() {
        let mut seed = 1_u32;
        let mut text = |salt: u32| {
            let mut out = String::new();
            for _ in 0..60_000 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                writeln!(out, "{}", (seed >> 16) % 500 + salt).expect("writing to a String cannot fail");
            }
            out
        };
        let (a, b) = (text(0), text(250));
        let start = Instant::now();
        let got = diff(a.as_bytes(), b.as_bytes());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(got.stats.added, got.stats.removed, "both have as many lines");
    }

    /// Applies a diff with the plainest reading of its form.
    fn patched(a: &str, diff: &str) -> String {
        let old: Vec<&str> = a.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            let unended = lines.next_if(|next| next.starts_with('\\')).is_some();
            let body = if unended { line[1..].trim_end_matches('\n') } else { &line[1..] };
            match line.as_bytes()[0] {
                b'@' => {
                    let range = line.split(['-', ' ']).nth(2).expect("a head");
                    let (start, len) = range.split_once(',').unwrap_or((range, "1"));
                    let start: usize = start.parse().expect("a number");
                    let until = if len == "0" { start } else { start - 1 };
                    out.extend(old[at..until].iter().copied());
                    at = until;
                }
                b'+' => out.push_str(body),
                sign => {
                    assert_eq!(old[at], body);
                    at += 1;
                    if sign == b' ' {
                        out.push_str(body);
                    }
                }
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }

    proptest! {
        #[test]
        fn a_diff_says_how_to_get_there(a in "([ab]{0,2}\n){0,12}[ab]?", b in "([ab]{0,2}\n){0,12}[ab]?", context in 0usize..4) {
            let got = unified(a.as_bytes(), b.as_bytes(), Some("a"), Some("b"), context, usize::MAX);
            prop_assert_eq!(patched(&a, &got.text), b);
            let signs = |sign: char| got.text.lines().skip(2).filter(|l| l.starts_with(sign)).count();
            prop_assert_eq!((signs('+'), signs('-')), (got.stats.added, got.stats.removed));
        }
    }
}
