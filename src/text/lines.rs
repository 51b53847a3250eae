//! Lines as a file has them: LF, CRLF or lone CR, a last line with or without an end; windows without reading it all.

use std::ops::Range;

/// How a content is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// UTF-8 (ASCII too), with or without a byte order mark.
    Utf8 {
        /// It begins with EF BB BF.
        bom: bool,
    },
    /// UTF-16 with a byte order mark.
    Utf16 {
        /// FE FF.
        big_endian: bool,
    },
    /// Neither, yet without NUL bytes in its first 8 KiB: shown lossily, edited by bytes.
    OtherText,
    /// NUL bytes in its first 8 KiB.
    Binary,
}

/// The line end that most lines of a text have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineEnd {
    /// `\n`, also for a text without any.
    Lf,
    /// `\r\n`.
    Crlf,
    /// `\r`. It ends lines only in a text that holds no `\n` at all; elsewhere a lone `\r` is part of its line.
    Cr,
}

/// Part of a text by 1-based lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineWindow {
    /// Byte range.
    pub range: Range<usize>,
    /// First line in it; 0 if it is empty.
    pub first: usize,
    /// Last line in it; 0 if it is empty.
    pub last: usize,
    /// Lines of the whole text. A text without a final line end still counts its last line.
    pub total: usize,
}

/// UTF-8's byte order mark.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// NUL bytes are looked for in this many bytes, as git does.
const HEAD: usize = 8 * 1024;

/// Judges a content by its first bytes (8 KiB are enough; UTF-8 is judged on all that is given, a split character at
/// the very end is forgiven).
pub fn detect(head: &[u8]) -> Encoding {
    match head {
        // A UTF-32 mark begins like one of UTF-16; text in it is nothing but NULs to everyone else.
        [0xff, 0xfe, 0, 0, ..] => return Encoding::Binary,
        [0xff, 0xfe, ..] => return Encoding::Utf16 { big_endian: false },
        [0xfe, 0xff, ..] => return Encoding::Utf16 { big_endian: true },
        [..] => {}
    }
    if memchr::memchr(0, &head[..head.len().min(HEAD)]).is_some() {
        return Encoding::Binary;
    }
    match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_some() => Encoding::OtherText,
        Ok(_) | Err(_) => Encoding::Utf8 { bom: head.starts_with(BOM) },
    }
}

/// The window of the inclusive lines, clipped to the text.
pub fn window(text: &[u8], first: usize, last: usize) -> LineWindow {
    let lines = Lines::of(text);
    let total = lines.count();
    let (first, last) = (first.max(1), last.min(total));
    if first > last {
        let at = if first > total { text.len() } else { lines.range(first).start };
        return LineWindow { range: at..at, first: 0, last: 0, total };
    }
    LineWindow { range: lines.range(first).start..lines.range(last).end, first, last, total }
}

impl LineEnd {
    /// The one most lines of `text` end with.
    pub fn of(text: &[u8]) -> LineEnd {
        let mut all = 0_usize;
        let mut crlf = 0_usize;
        for at in memchr::memchr_iter(b'\n', text) {
            all += 1;
            crlf += usize::from(text[..at].ends_with(b"\r"));
        }
        if all == 0 && memchr::memchr(b'\r', text).is_some() {
            LineEnd::Cr
        } else if crlf > all - crlf {
            LineEnd::Crlf
        } else {
            LineEnd::Lf
        }
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf => b"\n",
            LineEnd::Crlf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }
}

/// A text and where its lines begin. Lines are numbered from 1.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    starts: Vec<usize>,
    cr: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a [u8]) -> Lines<'a> {
        let cr = memchr::memchr(b'\n', text).is_none();
        let end = if cr { b'\r' } else { b'\n' };
        let mut starts: Vec<usize> = Vec::new();
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(memchr::memchr_iter(end, text).map(|at| at + 1).filter(|at| *at < text.len()));
        Lines { text, starts, cr }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of one line, its end included. `line` is 1 to `count`.
    pub(super) fn range(&self, line: usize) -> Range<usize> {
        self.starts[line - 1]..self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Each line with its end.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (1..=self.count()).map(|line| &self.text[self.range(line)])
    }

    /// The line in which byte `at` stands; a place behind a final line end is one line further.
    pub(super) fn line_at(&self, at: usize) -> usize {
        if at == self.text.len() && self.end_of(self.count()).is_some() {
            return self.count() + 1;
        }
        self.starts.partition_point(|start| *start <= at).max(1)
    }

    /// How `line` ends; `None` for a last line without an end, and for a line that is not there.
    pub(super) fn end_of(&self, line: usize) -> Option<LineEnd> {
        if line == 0 || line > self.count() {
            return None;
        }
        let bytes = &self.text[self.range(line)];
        if self.cr {
            bytes.ends_with(b"\r").then_some(LineEnd::Cr)
        } else if bytes.ends_with(b"\r\n") {
            Some(LineEnd::Crlf)
        } else {
            bytes.ends_with(b"\n").then_some(LineEnd::Lf)
        }
    }
}

/// `text` without the end of its (one) line.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_window(text: &str, first: usize, last: usize, expected: &str, numbers: (usize, usize, usize)) {
        let w = window(text.as_bytes(), first, last);
        assert_eq!(
            (&text[w.range.clone()], (w.first, w.last, w.total)),
            (expected, numbers),
            "{text:?} {first}-{last}"
        );
    }

    #[test]
    fn windows_are_clipped_to_the_text() {
        check_window("a\nb\nc", 2, 3, "b\nc", (2, 3, 3));
        check_window("a\nb\nc\n", 2, 99, "b\nc\n", (2, 3, 3));
        check_window("a\r\nb\r\n", 1, 1, "a\r\n", (1, 1, 2));
        check_window("a\rb\rc", 2, 2, "b\r", (2, 2, 3));
        check_window("a\rx\nb", 1, 1, "a\rx\n", (1, 1, 2));
        check_window("a\n", 2, 5, "", (0, 0, 1));
        check_window("a\nb", 2, 1, "", (0, 0, 2));
        check_window("", 1, 1, "", (0, 0, 0));
        check_window("\n", 1, 1, "\n", (1, 1, 1));
        check_window("a\nb", 0, usize::MAX, "a\nb", (1, 2, 2));
    }

    #[test]
    fn most_lines_decide_the_line_end() {
        for (text, expected) in [
            ("", LineEnd::Lf),
            ("a", LineEnd::Lf),
            ("a\r\nb\r\nc\n", LineEnd::Crlf),
            ("a\r\nb\n", LineEnd::Lf),
            ("a\rb", LineEnd::Cr),
            ("a\rb\rc\n", LineEnd::Lf),
        ] {
            assert_eq!(LineEnd::of(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn contents_are_judged_by_their_head() {
        let late_nul = [&[b'a'; HEAD][..], b"\0"].concat();
        for (head, expected) in [
            (&b""[..], Encoding::Utf8 { bom: false }),
            (b"\xef\xbb\xbfa", Encoding::Utf8 { bom: true }),
            (b"caf\xc3", Encoding::Utf8 { bom: false }),
            (b"caf\xe9 x", Encoding::OtherText),
            (b"\xff\xfea\0", Encoding::Utf16 { big_endian: false }),
            (b"\xfe\xff\0a", Encoding::Utf16 { big_endian: true }),
            (b"\xff\xfe\0\0a\0\0\0", Encoding::Binary),
            (b"a\0b", Encoding::Binary),
            (&late_nul, Encoding::Utf8 { bom: false }),
        ] {
            assert_eq!(detect(head), expected, "{:?}", &head[..head.len().min(20)]);
        }
    }

    #[test]
    fn a_place_behind_the_last_line_end_is_the_next_line() {
        let lines = Lines::of(b"a\nb\n");
        assert_eq!([0, 1, 2, 3, 4].map(|at| lines.line_at(at)), [1, 1, 2, 2, 3]);
        assert_eq!(Lines::of(b"a\nb").line_at(3), 2);
        assert_eq!(Lines::of(b"").line_at(0), 1);
    }
}
