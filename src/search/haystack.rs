//! Finding lines in one content: by grep-searcher, in bounded memory, with excerpts cut around the match.

mod sink;

use std::{
    cell::RefCell,
    io::{self, Read},
};

use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use self::sink::Collect;
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
    /// 1-based, counted by `\n`.
    pub line: u64,
    /// 1-based, in characters, of the first match in the line.
    pub column: u64,
    /// The line (of a match across lines: all its lines) without its end, lossy UTF-8, at most 1,000 characters around
    /// the match. `\r\n` inside is shown as `\n`.
    pub excerpt: String,
    /// The excerpt was cut.
    pub cut: bool,
    /// Lines before, (number, text); matching ones too. Each text is cut to its first 1,000 characters.
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

/// Contents up to this size are searched where they were read; a longer one passes through the searcher's buffer.
const WHOLE: usize = 64 * 1024;
/// NUL bytes are looked for in this much.
const BINARY_HEAD: usize = 8 * 1024;
/// The most that is held of one line, and of a whole content in a search across lines.
const HEAP: usize = 64 * 1024 * 1024;

/// What each thread keeps between two contents, so that none is allocated for each.
#[derive(Default)]
struct Reused {
    head: Vec<u8>,
    searcher: Option<((usize, bool), Searcher)>,
}

thread_local! {
    static REUSED: RefCell<Reused> = RefCell::default();
}

/// Searches one content. Decodes UTF-8 with BOM and UTF-16 with BOM; other bytes are matched raw. A lone CR is part of
/// its line. At most 64 MiB of one line are held; a search across lines holds the whole content, up to the same bound.
///
/// # Errors
/// The reader's, and `OutOfMemory`-like ones of a line or content beyond the bound.
pub fn search_haystack(
    hay: &mut dyn Haystack,
    matcher: &Matcher,
    context: usize,
    sink: &mut dyn SearchSink,
) -> io::Result<Searched> {
    // Taken out while in use, so that a sink may search another content.
    let mut reused = REUSED.take();
    let result = search_with(&mut reused, hay, matcher, context, sink);
    REUSED.set(reused);
    result
}

fn search_with(
    reused: &mut Reused,
    hay: &mut dyn Haystack,
    matcher: &Matcher,
    context: usize,
    sink: &mut dyn SearchSink,
) -> io::Result<Searched> {
    let kind = (context, matcher.is_multiline());
    let searcher = match &mut reused.searcher {
        Some((built, searcher)) if *built == kind => searcher,
        other => &mut other.insert((kind, build(context, matcher.is_multiline()))).1,
    };
    let head = &mut reused.head;
    head.resize(WHOLE, 0);
    let (filled, ended) = fill(hay, head)?;
    let head = &head[..filled];
    if is_binary(head) {
        return Ok(Searched::Binary);
    }
    let mut collect = Collect::new(matcher, context, sink);
    if ended {
        searcher.search_slice(matcher.regex(), head, &mut collect)?;
    } else {
        searcher.search_reader(matcher.regex(), head.chain(Rest(hay)), &mut collect)?;
    }
    Ok(Searched::Text)
}

fn build(context: usize, multiline: bool) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .before_context(context)
        .after_context(context)
        .multi_line(multiline)
        .bom_sniffing(true)
        .binary_detection(BinaryDetection::none())
        .heap_limit(Some(HEAP))
        .build()
}

/// Reads until `buf` is full or the content ends; tells how much, and whether it ended.
fn fill(hay: &mut dyn Haystack, buf: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut filled = 0;
    while filled < buf.len() {
        match hay.read(&mut buf[filled..]) {
            Ok(0) => return Ok((filled, true)),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((filled, false))
}

/// A NUL byte near the start, and no UTF-16 mark. (A UTF-32 mark begins like one, and is followed by NULs.)
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(BINARY_HEAD)];
    let utf16 = (head.starts_with(b"\xff\xfe") && !head.starts_with(b"\xff\xfe\0\0")) || head.starts_with(b"\xfe\xff");
    !utf16 && memchr::memchr(0, head).is_some()
}

struct Rest<'h>(&'h mut dyn Haystack);

impl Read for Rest<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

#[cfg(test)]
mod against_rg;
#[cfg(test)]
mod tests;
