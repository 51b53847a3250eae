//! Lines as a file has them: LF, CRLF or lone CR, a last line with or without an end; windows without reading it all.

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
    /// `\r`.
    Cr,
}

/// Part of a text by 1-based lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineWindow {
    /// Byte range.
    pub range: std::ops::Range<usize>,
    /// First line in it; 0 if it is empty.
    pub first: usize,
    /// Last line in it.
    pub last: usize,
    /// Lines of the whole text. A text without a final line end still counts its last line.
    pub total: usize,
}

/// Judges a content by its first bytes (8 KiB are enough; UTF-8 is judged on all that is given, a split character at
/// the very end is forgiven).
pub fn detect(head: &[u8]) -> Encoding {
    todo!()
}

/// The window of the inclusive lines, clipped to the text.
pub fn window(text: &[u8], first: usize, last: usize) -> LineWindow {
    todo!()
}

impl LineEnd {
    /// The one most lines of `text` end with.
    pub fn of(text: &[u8]) -> LineEnd {
        todo!()
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'static [u8] {
        todo!()
    }
}
