//! The edit engine: all edits match the original, all are applied or none, every byte outside the spans stays.

mod find;
mod place;

use std::ops::Range;

use self::{find::Found, place::Place};
use super::lines::BOM;

/// One change of a text. Texts are bytes: what the file holds need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Replaces `old`, which must stand exactly once unless told otherwise. `new` is verbatim.
    Replace {
        /// Not empty. `\n` in it also matches `\r\n`, and `\r` in a text whose lines end so. If it holds `\r` itself, it
        /// is looked for as it is, and only if it does not stand so by its lines alone.
        old: Vec<u8>,
        /// Verbatim, but that `\n` becomes the line end of the place it goes to unless it holds `\r` itself.
        new: Vec<u8>,
        /// Which of several.
        which: Which,
    },
    /// Inserts whole lines before 1-based `line`; `lines + 1` appends.
    Insert {
        /// 1-based.
        line: usize,
        /// Ends with a line end, or gets one; not where it becomes the end of a text that has no final line end.
        text: Vec<u8>,
    },
    /// Replaces the inclusive 1-based lines.
    Lines {
        /// First line.
        first: usize,
        /// Last line; `first - 1` replaces nothing (an insertion).
        last: usize,
        /// The new lines; empty removes the old ones. Ends with a line end, or gets one if the last line replaced has one.
        text: Vec<u8>,
        /// What must stand there now; line ends, and a missing one at the end, don't count.
        expect: Option<Vec<u8>>,
    },
}

/// Which occurrence `Replace` means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// It must be the only one.
    Only,
    /// All of them.
    All,
    /// The n-th, from 1.
    Nth(usize),
    /// The one whose first line is nearest to this line; a tie is ambiguous.
    NearLine(usize),
}

/// Why nothing was changed. `edit` is the index in the list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EditError {
    /// `old` is empty.
    #[error(
        "edit {edit}: old_text is empty; nothing was written. Give the text to replace, or insert_at_line to insert"
    )]
    EmptyOld {
        /// Which edit.
        edit: usize,
    },
    /// `old` does not stand in the file.
    #[error("edit {edit}: old_text was not found; nothing was written. {hint}")]
    NotFound {
        /// Which edit.
        edit: usize,
        /// The nearest candidate, in words.
        hint: String,
        /// The nearest candidate: 1-based line, its text, and how it differs (white space, case, escapes, line ends).
        nearest: Option<Nearest>,
    },
    /// `old` stands more than once.
    #[error(
        "edit {edit}: old_text stands {count} times (lines {lines:?}); nothing was written. Give more context, replace_all, occurrence or near_line"
    )]
    NotUnique {
        /// Which edit.
        edit: usize,
        /// How often.
        count: usize,
        /// The first lines, at most 10.
        lines: Vec<usize>,
    },
    /// Two edits touch the same bytes.
    #[error("edits {first} and {second} overlap; nothing was written")]
    Overlap {
        /// One.
        first: usize,
        /// The other.
        second: usize,
    },
    /// Old and new are the same.
    #[error("edit {edit}: old_text and new_text are equal; nothing was written")]
    NoChange {
        /// Which edit.
        edit: usize,
    },
    /// A line number outside the file, or an `expect` that is not what stands there.
    #[error("edit {edit}: {reason}; nothing was written")]
    BadLines {
        /// Which edit.
        edit: usize,
        /// In words.
        reason: String,
    },
}

/// The text that comes nearest to one that was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nearest {
    /// 1-based line at which it begins.
    pub line: usize,
    /// As it stands in the file, at most 1,000 characters.
    pub text: String,
    /// `whitespace`, `case`, `escapes`, `line_ends` or `other`.
    pub differs: &'static str,
    /// Percent of equal characters.
    pub similarity: u8,
}

/// One replaced span of the original.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// Which edit did it.
    pub edit: usize,
    /// Byte range in the original; of a sequential edit, in the text that it saw.
    pub range: Range<usize>,
    /// Byte range of the new text in the result; of a sequential edit, in what came out of it.
    pub now: Range<usize>,
    /// 1-based line of its start, in the same text.
    pub line: usize,
}

/// The new text, and what was replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edited {
    /// The whole new content.
    pub text: Vec<u8>,
    /// In order of place.
    pub replaced: Vec<Replaced>,
}

/// One span of the text and what takes its place.
struct Splice {
    edit: usize,
    range: Range<usize>,
    new: Vec<u8>,
}

/// Applies `edits` to `original`: each is matched against the original unless `sequential`, where each sees the result of
/// those before it. Several insertions at one place stand in the order given. A byte order mark is no part of line 1.
///
/// # Errors
/// The first edit that cannot be applied; then nothing is.
pub fn apply(original: &[u8], edits: &[Edit], sequential: bool) -> Result<Edited, EditError> {
    if !sequential {
        return apply_together(original, edits.iter().enumerate());
    }
    let mut done = Edited { text: original.to_vec(), replaced: Vec::new() };
    for (at, edit) in edits.iter().enumerate() {
        let next = apply_together(&done.text, std::iter::once((at, edit)))?;
        done.text = next.text;
        done.replaced.extend(next.replaced);
    }
    Ok(done)
}

fn apply_together<'e>(original: &[u8], edits: impl Iterator<Item = (usize, &'e Edit)>) -> Result<Edited, EditError> {
    let place = Place::of(original);
    let mut splices = Vec::new();
    for (at, edit) in edits {
        splices.extend(splices_of(&place, at, edit)?);
    }
    // Stable: insertions at one place keep their order, and stand before what is replaced there.
    splices.sort_by_key(|s| (s.range.start, s.range.end));
    if let Some(pair) = splices.windows(2).find(|pair| pair[1].range.start < pair[0].range.end) {
        let (a, b) = (pair[0].edit, pair[1].edit);
        return Err(EditError::Overlap { first: a.min(b), second: a.max(b) });
    }
    let mut text = Vec::with_capacity(original.len());
    let mut replaced = Vec::with_capacity(splices.len());
    let mut at = 0;
    for splice in splices {
        text.extend_from_slice(&original[at..splice.range.start]);
        let start = text.len();
        text.extend_from_slice(&splice.new);
        at = splice.range.end;
        let line = place.lines.line_at(splice.range.start);
        replaced.push(Replaced { edit: splice.edit, range: splice.range, now: start..text.len(), line });
    }
    text.extend_from_slice(&original[at..]);
    Ok(Edited { text, replaced })
}

fn splices_of(place: &Place<'_>, edit: usize, what: &Edit) -> Result<Vec<Splice>, EditError> {
    match what {
        Edit::Replace { old, new, which } => replace(place, edit, old, new, *which),
        Edit::Insert { line, text } => {
            let total = place.lines.count();
            if *line == 0 || *line > total + 1 {
                let reason =
                    format!("line {line} is not in the file: give 1 to {} (its last line and one more)", total + 1);
                return Err(EditError::BadLines { edit, reason });
            }
            let (range, new) = place.insertion(*line, text);
            Ok(vec![Splice { edit, range, new }])
        }
        Edit::Lines { first, last, text, expect } => {
            let (range, new) = place
                .lines_replaced(*first, *last, text, expect.as_deref())
                .map_err(|reason| EditError::BadLines { edit, reason })?;
            if new == place.text[range.clone()] {
                return Err(EditError::NoChange { edit });
            }
            Ok(vec![Splice { edit, range, new }])
        }
    }
}

fn replace(place: &Place<'_>, edit: usize, old: &[u8], new: &[u8], which: Which) -> Result<Vec<Splice>, EditError> {
    // A mark that the caller copied along with line 1 is no part of what is looked for.
    let (old, new) = match (old.strip_prefix(BOM), new.strip_prefix(BOM)) {
        (Some(old), Some(new)) if place.bom > 0 => (old, new),
        (Some(old), None) if place.bom > 0 => (old, new),
        (_, _) => (old, new),
    };
    if old.is_empty() {
        return Err(EditError::EmptyOld { edit });
    }
    if old == new {
        return Err(EditError::NoChange { edit });
    }
    let found = Found::of(place.text, place.bom, old);
    if found.spans.is_empty() {
        let near = super::near::nearest(&place.text[place.bom..], old);
        return Err(EditError::NotFound { edit, hint: super::near::hint(near.as_ref()), nearest: near });
    }
    let chosen = choose(place, edit, &found, which)?;
    let splices: Vec<Splice> = chosen
        .iter()
        .map(|range| Splice { edit, range: range.clone(), new: place.replacement(range, old, new) })
        .collect();
    if splices.iter().all(|s| s.new == place.text[s.range.clone()]) {
        return Err(EditError::NoChange { edit });
    }
    Ok(splices)
}

fn choose<'f>(place: &Place<'_>, edit: usize, found: &'f Found, which: Which) -> Result<&'f [Range<usize>], EditError> {
    let line = |span: &Range<usize>| place.lines.line_at(span.start);
    let not_unique = |spans: &[Range<usize>]| EditError::NotUnique {
        edit,
        count: spans.len(),
        lines: spans.iter().take(10).map(line).collect(),
    };
    let spans = found.spans.as_slice();
    let at = match which {
        Which::All => return Ok(spans),
        Which::Only => match (spans, &found.overlapping) {
            ([_], None) => 0,
            ([only], Some(other)) => return Err(not_unique(&[only.clone(), other.clone()])),
            ([..], _) => return Err(not_unique(spans)),
        },
        Which::Nth(n) if (1..=spans.len()).contains(&n) => n - 1,
        Which::Nth(n) => {
            let reason = format!("occurrence {n} was asked for, and old_text stands {} times", spans.len());
            return Err(EditError::BadLines { edit, reason });
        }
        Which::NearLine(near) => {
            let distance = |span: &Range<usize>| line(span).abs_diff(near);
            let least = spans.iter().map(distance).min().unwrap_or(0);
            let mut nearest = (0..spans.len()).filter(|at| distance(&spans[*at]) == least);
            let at = nearest.next().unwrap_or(0);
            if nearest.next().is_some() {
                return Err(not_unique(spans));
            }
            at
        }
    };
    Ok(&spans[at..=at])
}

#[cfg(test)]
mod tests;
