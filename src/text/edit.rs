//! The edit engine: all edits match the original, all are applied or none, every byte outside the spans stays.

/// One change of a text. Texts are bytes: what the file holds need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Replaces `old`, which must stand exactly once unless told otherwise. `new` is verbatim.
    Replace {
        /// Not empty. Line ends in it also match the file's own (`\n` in `old` matches `\r\n` in a CRLF file).
        old: Vec<u8>,
        /// Verbatim, but for the line ends of the place it goes to.
        new: Vec<u8>,
        /// Which of several.
        which: Which,
    },
    /// Inserts whole lines before 1-based `line`; `lines + 1` appends.
    Insert {
        /// 1-based.
        line: usize,
        /// Ends with a line end, or gets one.
        text: Vec<u8>,
    },
    /// Replaces the inclusive 1-based lines.
    Lines {
        /// First line.
        first: usize,
        /// Last line; `first - 1` replaces nothing (an insertion).
        last: usize,
        /// The new lines.
        text: Vec<u8>,
        /// What must stand there now.
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
    /// Byte range in the original.
    pub range: std::ops::Range<usize>,
    /// 1-based line of its start in the original.
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

/// Applies `edits` to `original`: each is matched against the original unless `sequential`, where each sees the result of
/// those before it.
///
/// # Errors
/// The first edit that cannot be applied; then nothing is.
pub fn apply(original: &[u8], edits: &[Edit], sequential: bool) -> Result<Edited, EditError> {
    todo!()
}
