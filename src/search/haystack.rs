//! Finding lines in one content: by grep-searcher, in bounded memory, with excerpts cut around the match.

use std::io;

use super::Matcher;

/// A content to search: a reader, and its size where known.
pub trait Haystack {
    /// Reads on.
    ///
    /// # Errors
    /// The host's.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;
}

/// One matching line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineMatch {
    /// 1-based.
    pub line: u64,
    /// 1-based, in characters, of the first match in the line.
    pub column: u64,
    /// The line without its end, lossy UTF-8, at most 1,000 characters around the match.
    pub excerpt: String,
    /// The excerpt was cut.
    pub cut: bool,
    /// Lines before, (number, text).
    pub before: Vec<(u64, String)>,
    /// Lines after.
    pub after: Vec<(u64, String)>,
}

/// Go on or stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkControl {
    /// Next match, please.
    Continue,
    /// Enough.
    Stop,
}

/// Receives matches.
pub trait SearchSink {
    /// One more.
    fn matched(&mut self, found: LineMatch) -> SinkControl;
}

/// How a content was searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Searched {
    /// To its end, or until the sink stopped.
    Text,
    /// It is binary (a NUL byte in its first 8 KiB without a UTF-16 byte order mark) and was skipped.
    Binary,
}

/// Searches one content. Decodes UTF-8 with BOM and UTF-16 with BOM; other bytes are matched raw. A lone CR is part of
/// its line. At most 64 MiB of one line are held.
///
/// # Errors
/// The reader's.
pub fn search_haystack(
    hay: &mut dyn Haystack,
    matcher: &Matcher,
    context: usize,
    sink: &mut dyn SearchSink,
) -> io::Result<Searched> {
    todo!()
}
