//! Searches of contents in memory: lines, columns, context, excerpts, encodings, bounds.

use super::*;
use crate::search::{CaseRule, MatcherSpec};

pub(super) struct Slow<'a> {
    pub(super) content: &'a [u8],
    pub(super) step: usize,
}

impl Haystack for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(self.step).min(self.content.len());
        buf[..len].copy_from_slice(&self.content[..len]);
        self.content = &self.content[len..];
        Ok(len)
    }
}

#[derive(Default)]
struct Found {
    all: Vec<LineMatch>,
    stop_at: usize,
}

impl SearchSink for Found {
    fn matched(&mut self, found: LineMatch) -> SinkControl {
        self.all.push(found);
        if self.all.len() == self.stop_at { SinkControl::Stop } else { SinkControl::Continue }
    }
}

pub(super) fn matcher(query: &str, regex: bool, multiline: bool) -> Matcher {
    let spec = MatcherSpec { query: query.into(), regex, case: CaseRule::Smart, word: false, multiline };
    Matcher::new(&spec).expect(query)
}

pub(super) fn search(content: &[u8], matcher: &Matcher, context: usize) -> (Searched, Vec<LineMatch>) {
    let mut found = Found::default();
    let searched = search_haystack(&mut Slow { content, step: 1000 }, matcher, context, &mut found);
    (searched.expect("memory can be read"), found.all)
}

fn check(content: &[u8], query: &str, expected: &[(u64, u64, &str)]) {
    let (searched, found) = search(content, &matcher(query, true, false), 0);
    let got: Vec<_> = found.iter().map(|m| (m.line, m.column, m.excerpt.as_str())).collect();
    assert_eq!((searched, got.as_slice()), (Searched::Text, expected), "{query}");
}

#[test]
fn lines_and_columns_are_told() {
    check(b"one\ntwo one\nthree", "one", &[(1, 1, "one"), (2, 5, "two one")]);
    check("äö needle\n".as_bytes(), "needle", &[(1, 4, "äö needle")]);
    check(b"x\r\nthe end\r\n", "end$", &[(2, 5, "the end")]);
    check(b"a\rb needle\rc\nd", "needle", &[(1, 5, "a\rb needle\rc")]);
    check(b"", "x", &[]);
    check(b"a\n\nb\n", "^$", &[(2, 1, "")]);
}

#[test]
fn encodings_with_a_mark_are_decoded() {
    check(b"\xef\xbb\xbfneedle\n", "^needle", &[(1, 1, "needle")]);
    let utf16 = |big: bool| {
        let unit = |u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
        "\u{feff}x\r\nä needle\r\n".encode_utf16().flat_map(unit).collect::<Vec<u8>>()
    };
    check(&utf16(false), "needle$", &[(2, 3, "ä needle")]);
    check(&utf16(true), "needle$", &[(2, 3, "ä needle")]);
    check(b"caf\xe9 needle\n", "needle", &[(1, 6, "caf\u{fffd} needle")]);
}

#[test]
fn binary_contents_are_skipped_and_late_nuls_are_text() {
    let any = matcher("needle", false, false);
    assert_eq!(search(b"needle\0", &any, 0), (Searched::Binary, vec![]));
    assert_eq!(search(b"\xff\xfe\0\0needle", &any, 0), (Searched::Binary, vec![]));
    let late = [&b"needle\n".repeat(20_000)[..], b"\0\nneedle\n"].concat();
    let (searched, found) = search(&late, &any, 0);
    assert_eq!((searched, found.len(), found.last().map(|m| m.line)), (Searched::Text, 20_001, Some(20_002)));
}

#[test]
fn each_match_has_its_own_context() {
    let (_, found) = search(b"1\n2 x\n3 x\n4\n5\n6\n7\n8\n9 x", &matcher("x", false, false), 2);
    let numbers = |lines: &[(u64, String)]| lines.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    let got: Vec<_> = found.iter().map(|m| (m.line, numbers(&m.before), numbers(&m.after))).collect();
    assert_eq!(got, [(2, vec![1], vec![3, 4]), (3, vec![1, 2], vec![4, 5]), (9, vec![7, 8], vec![])]);
    assert_eq!(found[0].after[0].1, "3 x");
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let line = format!("{}needle{}", "ä".repeat(5_000), "b".repeat(100_000));
    let (_, found) = search(line.as_bytes(), &matcher("needle", false, false), 0);
    let [m] = found.as_slice() else { unreachable!("one match") };
    assert_eq!((m.line, m.column, m.cut, m.excerpt.chars().count()), (1, 5_001, true, 1_000));
    assert!(m.excerpt.starts_with('ä') && m.excerpt.contains("needlebbb"), "{}", m.excerpt);
    let at_the_end = format!("{}needle", "a".repeat(5_000));
    let (_, found) = search(at_the_end.as_bytes(), &matcher("needle", false, false), 0);
    assert_eq!(found[0].excerpt, at_the_end[at_the_end.len() - 1_000..]);
    let exact = format!("needle{}", "b".repeat(994));
    let (_, found) = search(exact.as_bytes(), &matcher("needle", false, false), 0);
    assert_eq!((found[0].cut, found[0].excerpt.as_str()), (false, exact.as_str()));
    let (_, found) = search(format!("{exact}b").as_bytes(), &matcher("needle", false, false), 0);
    assert_eq!((found[0].cut, found[0].excerpt.as_str()), (true, exact.as_str()));
}

#[test]
fn matches_across_lines_begin_where_they_begin() {
    let (_, found) = search(b"0\r\na\r\nb\r\nc\r\nd", &matcher("a\nb", false, false), 1);
    let [m] = found.as_slice() else { unreachable!("one match: {found:?}") };
    assert_eq!((m.line, m.column, m.excerpt.as_str()), (2, 1, "a\nb"));
    assert_eq!((m.before.as_slice(), m.after.as_slice()), (&[(1, "0".into())][..], &[(4, "c".into())][..]));
    let (_, found) = search(b"x\nfoo (\n  bar\n)\n", &matcher(r"\(.*\)", true, true), 0);
    assert_eq!(found.iter().map(|m| (m.line, m.column)).collect::<Vec<_>>(), [(2, 5)]);
}

#[test]
fn the_sink_can_stop() {
    let mut found = Found { stop_at: 2, ..Found::default() };
    let content = b"x\n".repeat(100_000);
    let mut hay = Slow { content: &content, step: 100 };
    let searched = search_haystack(&mut hay, &matcher("x", false, false), 1, &mut found).expect("memory can be read");
    assert_eq!((searched, found.all.len()), (Searched::Text, 2));
    assert!(hay.content.len() > 50_000, "it did not read on");
}

/// A line without an end, as long as anyone asks.
struct Endless(u64);

impl Haystack for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        buf[..len].fill(b'a');
        self.0 -= u64::try_from(len).expect("a length");
        Ok(len)
    }
}

#[test]
fn memory_is_bounded() {
    let mut found = Found::default();
    let mut hay = Endless(1 << 28);
    assert!(search_haystack(&mut hay, &matcher("b", false, false), 0, &mut found).is_err());
    assert!(hay.0 > 1 << 27, "it stopped reading early");
}

#[test]
fn a_readers_error_is_the_answer() {
    struct Broken(usize);
    impl Haystack for Broken {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(5))?;
            buf.fill(b'x');
            Ok(buf.len())
        }
    }
    for good in [0, 3] {
        let error = search_haystack(&mut Broken(good), &matcher("b", false, false), 0, &mut Found::default());
        assert_eq!(error.map_err(|e| e.raw_os_error()), Err(Some(5)));
    }
}
