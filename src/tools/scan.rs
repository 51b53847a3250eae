//! One pass over a content: its hash, its line count, and the window that was asked for, in memory bounded by that window.

use std::ops::Range;

/// What part of a content is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Inclusive 1-based lines.
    Lines(u64, u64),
    /// Bytes.
    Bytes {
        /// From here.
        offset: u64,
        /// So many.
        len: u64,
    },
}

/// The part that fits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Window {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where it begins in the content.
    pub offset: u64,
    /// First line in it; 0 if it holds none, and for a part of bytes.
    pub first: u64,
    /// Last line in it.
    pub last: u64,
    /// More was asked for, and is there, than `max` bytes hold.
    pub cut: bool,
    /// It ends inside a line that alone is longer than `max` bytes.
    pub within_line: bool,
    /// Lines of the whole content; only if it was scanned to its end.
    pub lines: Option<u64>,
}

/// Collects one part from chunks that come in order. Lines end with `\n`, or with a lone `\r` in a content without any `\n`:
/// which of the two is known at the end only, so a scan for the other end may have to follow ([`Scan::again`]).
pub(super) struct Scan {
    part: Part,
    max: usize,
    end: u8,
    /// Bytes seen.
    seen: u64,
    /// Line ends seen.
    ends: u64,
    /// A `\n` or a `\r` was seen.
    has_lf: bool,
    has_cr: bool,
    last_byte: Option<u8>,
    window: Window,
    started: bool,
    full: bool,
}

impl Scan {
    /// `max` is the most bytes that the window may hold, at least 4.
    pub fn new(part: Part, max: usize) -> Scan {
        Scan {
            part,
            max: max.max(4),
            end: b'\n',
            seen: 0,
            ends: 0,
            has_lf: false,
            has_cr: false,
            last_byte: None,
            window: Window::default(),
            started: false,
            full: false,
        }
    }

    /// The content before `offset` will not come; then its lines are not known.
    pub fn skip_to(&mut self, offset: u64) {
        self.seen = offset;
    }

    /// The next chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.has_lf |= memchr::memchr(b'\n', chunk).is_some();
        self.has_cr |= memchr::memchr(b'\r', chunk).is_some();
        match self.part {
            Part::Bytes { offset, len } => self.push_bytes(chunk, offset, len),
            Part::Lines(first, last) => self.push_lines(chunk, first, last),
        }
        self.seen += wide(chunk.len());
        self.last_byte = chunk.last().copied().or(self.last_byte);
    }

    /// True once nothing of the wanted part can come any more.
    pub fn has_part(&self) -> bool {
        self.full
            || match self.part {
                Part::Bytes { offset, len } => self.seen >= offset.saturating_add(len),
                Part::Lines(_, last) => self.ends >= last,
            }
    }

    /// After the end: a scan for lone `\r`, if those are this content's line ends and lines are wanted.
    pub fn again(&self) -> Option<Scan> {
        let other = self.end == b'\n' && !self.has_lf && self.has_cr;
        other.then(|| Scan { end: b'\r', ..Scan::new(self.part, self.max) })
    }

    /// The result; `whole` if the content was pushed to its end.
    pub fn finish(mut self, whole: bool) -> Window {
        let tail = self.last_byte.is_some_and(|byte| byte != self.end);
        if whole {
            self.window.lines = Some(self.ends + u64::from(tail));
        }
        if let Part::Lines(..) = self.part {
            self.close_lines();
        }
        self.window
    }

    fn push_bytes(&mut self, chunk: &[u8], offset: u64, len: u64) {
        self.ends += count(chunk, self.end);
        let wanted = clip(self.seen, chunk.len(), offset, offset.saturating_add(len));
        if !self.started {
            self.window.offset = offset.min(self.seen + wide(chunk.len()));
            self.started = !wanted.is_empty();
        }
        self.take(&chunk[wanted]);
    }

    fn push_lines(&mut self, chunk: &[u8], first: u64, last: u64) {
        let mut at = 0;
        while at < chunk.len() {
            // Here `ends` lines are complete, and byte `at` belongs to line `ends + 1`.
            let line = self.ends + 1;
            let stop = memchr::memchr(self.end, &chunk[at..]).map_or(chunk.len(), |found| at + found + 1);
            if line >= first && line <= last {
                if !self.started {
                    self.started = true;
                    self.window.offset = self.seen + wide(at);
                    self.window.first = line;
                }
                if !self.full {
                    self.window.last = line;
                }
                self.take(&chunk[at..stop]);
            } else if line > last || first > last {
                // Only counting is left.
                self.ends += count(&chunk[at..], self.end);
                return;
            }
            if chunk[stop - 1] == self.end {
                self.ends += 1;
            }
            at = stop;
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.full || bytes.is_empty() {
            return;
        }
        let room = self.max - self.window.bytes.len();
        if bytes.len() > room {
            self.full = true;
            self.window.cut = true;
        }
        self.window.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// A window cut by `max` ends with a whole line, or inside the only one at a character's border.
    fn close_lines(&mut self) {
        let window = &mut self.window;
        if !window.cut {
            return;
        }
        match memchr::memrchr(self.end, &window.bytes) {
            Some(end) => {
                window.bytes.truncate(end + 1);
                window.last = window.first + count(&window.bytes, self.end) - 1;
            }
            None => {
                window.within_line = true;
                window.bytes.truncate(char_border(&window.bytes));
            }
        }
    }
}

/// Where the last whole UTF-8 character ends; a content that is not UTF-8 is cut where it is.
pub(super) fn char_border(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

fn count(bytes: &[u8], byte: u8) -> u64 {
    wide(memchr::memchr_iter(byte, bytes).count())
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The part of a chunk at `seen` that lies in `from..to`.
fn clip(seen: u64, len: usize, from: u64, to: u64) -> Range<usize> {
    let within = |at: u64| usize::try_from(at.saturating_sub(seen)).unwrap_or(len).min(len);
    let (start, end) = (within(from), within(to));
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &[u8], part: Part, max: usize, chunk: usize) -> Window {
        let mut scan = Scan::new(part, max);
        text.chunks(chunk).for_each(|chunk| scan.push(chunk));
        match scan.again() {
            Some(mut again) => {
                text.chunks(chunk).for_each(|chunk| again.push(chunk));
                again.finish(true)
            }
            None => scan.finish(true),
        }
    }

    /// The window, its lines, the total and the two flags, whatever the size of chunks.
    fn check(text: &[u8], part: Part, max: usize, expected: (&[u8], u64, u64, u64, u64, bool, bool)) {
        for chunk in [1, 2, 3, 7, 1000] {
            let w = scanned(text, part, max, chunk);
            let got = (w.bytes.as_slice(), w.offset, w.first, w.last, w.lines.unwrap_or(99), w.cut, w.within_line);
            assert_eq!(got, expected, "{:?} {part:?} {max} by {chunk}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn windows_of_lines() {
        check(b"a\nb\nc", Part::Lines(2, 3), 99, (b"b\nc", 2, 2, 3, 3, false, false));
        check(b"a\nb\nc\n", Part::Lines(1, u64::MAX), 99, (b"a\nb\nc\n", 0, 1, 3, 3, false, false));
        check(b"a\nb\nc\n", Part::Lines(4, 9), 99, (b"", 0, 0, 0, 3, false, false));
        check(b"", Part::Lines(1, 1), 99, (b"", 0, 0, 0, 0, false, false));
        check(b"a\rb\rc", Part::Lines(2, 2), 99, (b"b\r", 2, 2, 2, 3, false, false));
        check(b"a\rx\nb", Part::Lines(1, 1), 99, (b"a\rx\n", 0, 1, 1, 2, false, false));
        check(b"\n\n", Part::Lines(2, 2), 99, (b"\n", 1, 2, 2, 2, false, false));
    }

    #[test]
    fn windows_of_lines_that_do_not_fit() {
        check(b"aa\nbb\ncc\n", Part::Lines(1, 3), 9, (b"aa\nbb\ncc\n", 0, 1, 3, 3, false, false));
        check(b"aa\nbb\ncc\n", Part::Lines(1, 3), 8, (b"aa\nbb\n", 0, 1, 2, 3, true, false));
        check(b"aa\nbb\ncc\n", Part::Lines(1, 2), 6, (b"aa\nbb\n", 0, 1, 2, 3, false, false));
        check(b"a\nbbbbbbbb\nc", Part::Lines(2, 3), 5, (b"bbbbb", 2, 2, 2, 3, true, true));
        check("äöüäöü".as_bytes(), Part::Lines(1, 1), 5, ("äö".as_bytes(), 0, 1, 1, 1, true, true));
    }

    #[test]
    fn windows_of_bytes() {
        check(b"a\nb\nc", Part::Bytes { offset: 1, len: 3 }, 99, (b"\nb\n", 1, 0, 0, 3, false, false));
        check(b"abcdef", Part::Bytes { offset: 1, len: 5 }, 5, (b"bcdef", 1, 0, 0, 1, false, false));
        check(b"abcdef", Part::Bytes { offset: 0, len: 6 }, 5, (b"abcde", 0, 0, 0, 1, true, false));
        check(b"abc", Part::Bytes { offset: 9, len: 5 }, 99, (b"", 3, 0, 0, 1, false, false));
        check(b"abc", Part::Bytes { offset: 2, len: u64::MAX }, 99, (b"c", 2, 0, 0, 1, false, false));
    }
}
