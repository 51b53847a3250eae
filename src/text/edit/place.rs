//! The place an edit goes to: its lines, and the line end that new text takes there.

use std::ops::Range;

use super::find::with_lf;
use crate::text::lines::{BOM, LineEnd, Lines, without_end};

/// A text to be edited, and where its lines are.
pub(super) struct Place<'a> {
    pub(super) text: &'a [u8],
    pub(super) lines: Lines<'a>,
    /// Length of the byte order mark, 0 without one.
    pub(super) bom: usize,
}

impl<'a> Place<'a> {
    pub(super) fn of(text: &'a [u8]) -> Place<'a> {
        let bom = if text.starts_with(BOM) { BOM.len() } else { 0 };
        Place { text, lines: Lines::of(text), bom }
    }

    /// What `new` becomes where `old` was found at `range`.
    pub(super) fn replacement(&self, range: &Range<usize>, old: &[u8], new: &[u8]) -> Vec<u8> {
        // Both differ by line ends alone: then those are what is to change.
        if with_lf(old) == with_lf(new) {
            return new.to_vec();
        }
        let line = self.lines.line_at(range.start);
        self.with_ends_of(line, new)
    }

    /// Where lines go in before `line`, and the bytes that do.
    pub(super) fn insertion(&self, line: usize, text: &[u8]) -> (Range<usize>, Vec<u8>) {
        let total = self.lines.count();
        let end = self.line_end(line.saturating_sub(1).max(1)).as_bytes();
        let mut new = self.with_ends_of(line.saturating_sub(1).max(1), text);
        if line <= total {
            let at = self.lines.range(line).start.max(self.bom);
            ensure_end(&mut new, end);
            return (at..at, new);
        }
        let at = self.text.len();
        if at > self.bom && self.lines.end_of(total).is_none() {
            new.splice(0..0, end.iter().copied());
        } else {
            ensure_end(&mut new, end);
        }
        (at..at, new)
    }

    /// The bytes of the inclusive lines, and what takes their place; else the reason, in words.
    pub(super) fn lines_replaced(
        &self,
        first: usize,
        last: usize,
        text: &[u8],
        expect: Option<&[u8]>,
    ) -> Result<(Range<usize>, Vec<u8>), String> {
        let total = self.lines.count();
        if first == 0 || last > total || first > last + 1 {
            return Err(format!("lines {first} to {last} are not in the file, which has {total}"));
        }
        let nothing = last + 1 == first;
        let range =
            if nothing { 0..0 } else { self.lines.range(first).start.max(self.bom)..self.lines.range(last).end };
        if let Some(expect) = expect {
            let stands = &self.text[range.clone()];
            if without_end(&with_lf(stands)) != without_end(&with_lf(expect)) {
                return Err(format!(
                    "lines {first} to {last} are not what was expected; there stands {}",
                    shown(stands)
                ));
            }
        }
        if nothing {
            return Ok(if text.is_empty() { (0..0, Vec::new()) } else { self.insertion(first, text) });
        }
        let mut new = self.with_ends_of(first, text);
        if let Some(end) = self.lines.end_of(last).filter(|_| !new.is_empty()) {
            ensure_end(&mut new, end.as_bytes());
        }
        Ok((range, new))
    }

    fn with_ends_of(&self, line: usize, text: &[u8]) -> Vec<u8> {
        let end = self.line_end(line);
        if end == LineEnd::Lf || text.contains(&b'\r') {
            return text.to_vec();
        }
        let mut out = Vec::with_capacity(text.len() + text.len() / 16);
        for part in text.split_inclusive(|b| *b == b'\n') {
            out.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
            if part.ends_with(b"\n") {
                out.extend_from_slice(end.as_bytes());
            }
        }
        out
    }

    /// The end of `line`, or of the nearest line before it that has one.
    fn line_end(&self, line: usize) -> LineEnd {
        let line = line.min(self.lines.count());
        self.lines.end_of(line).or_else(|| self.lines.end_of(line.saturating_sub(1))).unwrap_or(LineEnd::Lf)
    }
}

fn ensure_end(text: &mut Vec<u8>, end: &[u8]) {
    let ended = match end {
        b"\r" => text.ends_with(b"\r") || text.ends_with(b"\n"),
        _ => text.ends_with(b"\n"),
    };
    if !ended {
        text.extend_from_slice(end);
    }
}

/// The first 200 characters, in quotes.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(200) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}
