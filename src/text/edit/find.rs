//! Where a text stands: its spans in the original bytes, with line ends taken as equal where the caller cannot see them.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

/// The places of one `old`, in order.
pub(super) struct Found {
    /// From the left, none overlapping the one before.
    pub(super) spans: Vec<Range<usize>>,
    /// If there is just one span, another that overlaps it (`aa` in `aaa`).
    pub(super) overlapping: Option<Range<usize>>,
}

impl Found {
    /// Looks for `old` behind the `bom` first bytes of `text`.
    pub(super) fn of(text: &[u8], bom: usize, old: &[u8]) -> Found {
        let body = &text[bom..];
        let holds_cr = old.contains(&b'\r');
        let exact = holds_cr.then(|| Flat::verbatim(body).find(old)).filter(|found| !found.spans.is_empty());
        let mut found = exact.unwrap_or_else(|| {
            let lines_matter = holds_cr || old.contains(&b'\n');
            let flat = if lines_matter { Flat::of(body) } else { Flat::verbatim(body) };
            flat.find(&with_lf(old))
        });
        for span in found.spans.iter_mut().chain(&mut found.overlapping) {
            *span = span.start + bom..span.end + bom;
        }
        found
    }
}

/// `text` with every line end as `\n`; a lone `\r` is one only in a text without `\n`.
pub(super) fn with_lf(text: &[u8]) -> Cow<'_, [u8]> {
    Flat::of(text).bytes
}

/// A text in which every line end is one `\n`, and the way back to the original's places.
struct Flat<'a> {
    bytes: Cow<'a, [u8]>,
    /// Each `\n` in `bytes` that stands for `\r\n`, by its place in `bytes`.
    shortened: Vec<usize>,
}

impl<'a> Flat<'a> {
    fn verbatim(text: &'a [u8]) -> Flat<'a> {
        Flat { bytes: Cow::Borrowed(text), shortened: Vec::new() }
    }

    fn of(text: &'a [u8]) -> Flat<'a> {
        if memchr::memchr(b'\r', text).is_none() {
            return Flat::verbatim(text);
        }
        if memchr::memchr(b'\n', text).is_none() {
            let bytes = text.iter().map(|b| if *b == b'\r' { b'\n' } else { *b }).collect();
            return Flat { bytes: Cow::Owned(bytes), shortened: Vec::new() };
        }
        let (mut bytes, mut shortened, mut from) = (Vec::with_capacity(text.len()), Vec::new(), 0);
        for at in memmem::find_iter(text, b"\r\n") {
            bytes.extend_from_slice(&text[from..at]);
            shortened.push(bytes.len());
            from = at + 1;
        }
        bytes.extend_from_slice(&text[from..]);
        Flat { bytes: Cow::Owned(bytes), shortened }
    }

    /// The original's place of a place in `bytes`: before the `\r` if a shortened line end stands there.
    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|short| *short < at)
    }

    fn find(&self, old: &[u8]) -> Found {
        let span = |at: usize| self.original(at)..self.original(at + old.len());
        let finder = memmem::Finder::new(old);
        let starts: Vec<usize> = finder.find_iter(&self.bytes).collect();
        let overlapping = match starts.as_slice() {
            [only] => finder.find(&self.bytes[only + 1..]).map(|at| span(only + 1 + at)),
            [..] => None,
        };
        Found { spans: starts.into_iter().map(span).collect(), overlapping }
    }
}
