//! One file searched: its matching lines, its hash between two looks at it, or why it was passed over.

use std::{cell::Cell, io};

use crate::{
    search::{Haystack, LineMatch, Matcher, SearchSink, Searched, SinkControl, search_haystack},
    tools::bounds::{Ended, Patience},
    types::{Attr, Hash, Hasher, Timestamp},
    view::{self, MetFile, Reading, ViewError},
};

/// Files above this are not searched.
pub(super) const FILE_MAX: u64 = 256 << 20;
/// Hashes are taken of files up to this size.
const HASH_MAX: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;
/// How often a file that changes under the search is searched anew.
const TRIES: usize = 3;

/// What is wanted of each file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Lines around each match.
    pub context: usize,
    /// Matches kept, at most; others are counted.
    pub keep: usize,
    /// Bytes of text kept, at most.
    pub keep_bytes: usize,
    /// One match is enough.
    pub first_only: bool,
    /// Matches up to and with this line were told before.
    pub after_line: u64,
}

/// What came of one file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was searched.
    Searched(Hits),
    /// It holds NUL bytes.
    Binary,
    /// Over `FILE_MAX`, or a line of it is too long.
    TooLarge,
    /// It could not be read, and why.
    Unreadable(String),
    /// It went away meanwhile.
    Gone,
    /// The caller or the clock ended it.
    Ended(Ended),
}

/// The matches in one file.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// The first of them.
    pub kept: Vec<LineMatch>,
    /// All of them.
    pub count: u64,
    /// The file's hash, if it was asked for.
    pub hash: Option<Hash>,
}

/// An open file, however it was reached.
pub(super) enum Opened {
    /// By its path.
    Path(Reading),
    /// On a walk.
    Met(MetFile),
    /// A content of the past.
    Past(Vec<u8>),
}

/// What would show that a file changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Look {
    /// Bytes.
    pub size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Look {
    fn of(attr: &Attr) -> Look {
        Look { size: attr.size, mtime: attr.mtime, ctime: attr.ctime }
    }
}

impl Opened {
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> view::Result<usize> {
        match self {
            Opened::Path(reading) => reading.read_at(buf, offset),
            Opened::Met(file) => file.read_at(buf, offset),
            Opened::Past(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let take = rest.len().min(buf.len());
                buf[..take].copy_from_slice(&rest[..take]);
                Ok(take)
            }
        }
    }

    /// As it was opened.
    pub fn look(&self) -> Look {
        match self {
            Opened::Path(reading) => Look::of(&reading.attr),
            Opened::Met(file) => Look::of(&file.attr),
            Opened::Past(bytes) => Look { size: u64::try_from(bytes.len()).unwrap_or(u64::MAX), ..Look::default() },
        }
    }

    fn look_again(&self) -> view::Result<Look> {
        match self {
            Opened::Path(reading) => reading.attr_now().map(|attr| Look::of(&attr)),
            Opened::Met(file) => file.attr_now().map(|attr| Look::of(&attr)),
            Opened::Past(_) => Ok(self.look()),
        }
    }
}

/// Searches one file. `hash` says whether its hash is still wanted once it has matches.
pub(super) fn search_file(
    opened: view::Result<Opened>,
    matcher: &Matcher,
    wanted: &Wanted,
    patience: &Patience<'_>,
    hash: &dyn Fn() -> bool,
) -> Outcome {
    let file = match opened {
        Ok(file) => file,
        Err(ViewError::NotFound(_) | ViewError::NotAFile(_)) => return Outcome::Gone,
        Err(ViewError::TooLarge { .. }) => return Outcome::TooLarge,
        Err(error) => return Outcome::Unreadable(error.to_string()),
    };
    let mut before = file.look();
    let mut last = Outcome::Gone;
    for _ in 0..TRIES {
        if before.size > FILE_MAX {
            return Outcome::TooLarge;
        }
        last = once(&file, before.size, matcher, wanted, patience);
        let Outcome::Searched(hits) = &mut last else { return last };
        if hits.count == 0 || !hash() || before.size > HASH_MAX {
            return last;
        }
        match hash_of(&file) {
            Ok(hash) => hits.hash = Some(hash),
            Err(error) => return Outcome::Unreadable(error.to_string()),
        }
        match file.look_again() {
            Ok(now) if now == before => return last,
            Ok(now) => before = now,
            Err(error) => return Outcome::Unreadable(error.to_string()),
        }
        // Its lines and its hash may be of two contents.
        hits.hash = None;
    }
    last
}

fn once(file: &Opened, size: u64, matcher: &Matcher, wanted: &Wanted, patience: &Patience<'_>) -> Outcome {
    let ended = Cell::new(None);
    // Some file systems tell no size; of the others, what is behind it came after the open.
    let end = if size == 0 { FILE_MAX } else { size };
    let mut hay = Content { file, offset: 0, end, patience, ended: &ended };
    let mut sink = Keep { wanted, hits: Hits::default(), bytes: 0 };
    let searched = search_haystack(&mut hay, matcher, wanted.context, &mut sink);
    match searched {
        _ if ended.get().is_some() => ended.get().map_or(Outcome::Gone, Outcome::Ended),
        Ok(Searched::Text) => Outcome::Searched(sink.hits),
        Ok(Searched::Binary) => Outcome::Binary,
        // The searcher says so of a line that it cannot hold.
        Err(error) if error.get_ref().is_some() && error.raw_os_error().is_none() => Outcome::TooLarge,
        Err(error) => Outcome::Unreadable(error.to_string()),
    }
}

pub(super) fn hash_of(file: &Opened) -> view::Result<Hash> {
    let mut hasher = Hasher::default();
    let mut buf = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let got = file.read_at(&mut buf, offset)?;
        hasher.update(&buf[..got]);
        if got < buf.len() {
            return Ok(hasher.finish());
        }
        offset += u64::try_from(got).unwrap_or(u64::MAX);
    }
}

struct Content<'a> {
    file: &'a Opened,
    offset: u64,
    end: u64,
    patience: &'a Patience<'a>,
    ended: &'a Cell<Option<Ended>>,
}

impl Haystack for Content<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(ended) = self.patience.ended() {
            self.ended.set(Some(ended));
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let most = buf.len().min(left);
        let got = match self.file.read_at(&mut buf[..most], self.offset) {
            Ok(got) => got,
            Err(ViewError::Host(errno)) => return Err(io::Error::from_raw_os_error(errno.raw_os_error())),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        // Short is the end.
        self.offset = if got < most { self.end } else { self.offset + u64::try_from(got).unwrap_or(u64::MAX) };
        Ok(got)
    }
}

struct Keep<'a> {
    wanted: &'a Wanted,
    hits: Hits,
    bytes: usize,
}

impl SearchSink for Keep<'_> {
    fn matched(&mut self, found: LineMatch) -> SinkControl {
        if found.line <= self.wanted.after_line {
            return SinkControl::Continue;
        }
        self.hits.count += 1;
        let full = self.hits.kept.len() >= self.wanted.keep || self.bytes >= self.wanted.keep_bytes;
        if !full {
            self.bytes += size_of(&found);
            self.hits.kept.push(found);
        }
        if self.wanted.first_only { SinkControl::Stop } else { SinkControl::Continue }
    }
}

/// Bytes of text that a match brings into an answer.
pub(super) fn size_of(found: &LineMatch) -> usize {
    let lines = found.before.iter().chain(&found.after);
    found.excerpt.len() + lines.map(|(_, text)| text.len()).sum::<usize>()
}
