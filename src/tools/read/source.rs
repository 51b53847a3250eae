//! Where a content comes from: a file as it is now, or one of the past. Read in one pass, between two looks that agree.

use control_api::{ErrorCode, ToolError};

use super::utf16::Utf16;
use crate::{
    text::{Encoding, LineEnd, detect},
    tools::{
        bounds::{Ended, Patience},
        errors,
        given::wide,
        scan::{Part, Scan, Window},
    },
    types::{Hash, Hasher, Timestamp, ViewPath},
    view::{Reading, View},
};

/// Read at once.
const CHUNK: usize = 256 << 10;
/// The first bytes, by which a content is judged.
const HEAD: usize = 64 << 10;
/// Hashes are taken of contents up to this size unless asked for.
const HASH_MAX: u64 = 64 << 20;
const TRIES: usize = 3;

/// A content to read.
pub(super) enum Source {
    /// A file.
    Live(Box<Reading>),
    /// A content of the past, whole.
    Past(ViewPath, Vec<u8>),
}

/// What one pass found.
pub(super) struct Passed {
    pub window: Window,
    pub hash: Option<Hash>,
    pub size: u64,
    pub mtime: Option<String>,
    pub encoding: Encoding,
    /// The line end that most lines of the first bytes have.
    pub line_end: LineEnd,
}

/// The beginning of a content, and what it was when that was read.
pub(super) struct Start {
    look: Look,
    /// The first bytes, all of them if there are not many.
    pub head: Vec<u8>,
}

/// What would show that a content changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    size: u64,
    times: Option<(Timestamp, Timestamp)>,
}

/// How to pass over a content.
pub(super) struct Pass<'a> {
    pub part: Part,
    pub max: usize,
    /// UTF-16 is decoded; else bytes stay what they are.
    pub decode: bool,
    /// The hash is wanted whatever the size.
    pub hash: bool,
    pub patience: Patience<'a>,
}

impl Source {
    /// Opens a file, or fetches what it was.
    pub fn open(view: &View, path: &ViewPath, at: Option<&crate::view::At>) -> Result<Source, ToolError> {
        match at {
            None => Ok(Source::Live(Box::new(view.open_path(path).map_err(errors::of)?))),
            Some(at) => {
                let (bytes, _) = view.past_bytes(path, at, HASH_MAX).map_err(errors::of)?;
                Ok(Source::Past(path.clone(), bytes))
            }
        }
    }

    /// Its path, symlinks resolved.
    pub fn path(&self) -> &ViewPath {
        match self {
            Source::Live(reading) => &reading.path,
            Source::Past(path, _) => path,
        }
    }

    /// Reads the first bytes.
    pub fn start(&self) -> Result<Start, ToolError> {
        let look = self.look()?;
        let small = usize::try_from(look.size).unwrap_or(HEAD).min(HEAD);
        // What says that it is empty may hold something.
        let mut head = vec![0; if small == 0 { HEAD } else { small }];
        let got = self.read_at(&mut head, 0)?;
        head.truncate(got);
        Ok(Start { look, head })
    }

    /// Reads it through, or as far as is wanted.
    pub fn pass(&self, mut start: Start, pass: &Pass<'_>) -> Result<Passed, ToolError> {
        for _ in 0..TRIES {
            let passed = self.pass_once(pass, &start)?;
            if self.look()? == start.look {
                return Ok(passed);
            }
            start = self.start()?;
        }
        Err(ToolError::new(ErrorCode::HostError, "the file did not stand still while it was read; try again")
            .on(errors::wire(self.path()))
            .retryable())
    }

    fn pass_once(&self, pass: &Pass<'_>, start: &Start) -> Result<Passed, ToolError> {
        let Start { look: Look { size, times }, head } = start;
        let (size, head) = (*size, head.as_slice());
        let encoding = detect(head);
        let decoded_as = match encoding {
            Encoding::Utf16 { big_endian } if pass.decode => Some(big_endian),
            Encoding::Utf16 { .. } | Encoding::Utf8 { .. } | Encoding::OtherText | Encoding::Binary => None,
        };
        let line_end = match decoded_as {
            Some(big_endian) => LineEnd::of(&Utf16::new(big_endian).push(head)),
            None => LineEnd::of(head),
        };
        let hashes = pass.hash || size <= HASH_MAX;
        let mut hasher = Hasher::default();
        let mut scan = Scan::new(pass.part, pass.max);
        // Of a long file nothing is read but the bytes asked for.
        let begin = match pass.part {
            Part::Bytes { offset, .. } if !hashes && decoded_as.is_none() => offset.min(size),
            Part::Bytes { .. } | Part::Lines(..) => 0,
        };
        scan.skip_to(begin);
        let to_end = self.stream(pass, decoded_as, start, begin, |raw, text| {
            if hashes {
                hasher.update(raw);
            }
            scan.push(text);
            hashes || !scan.has_part()
        })?;
        let whole = to_end && begin == 0;
        let window = match scan.again().filter(|_| whole) {
            Some(mut again) => {
                self.stream(pass, decoded_as, start, 0, |_, text| {
                    again.push(text);
                    true
                })?;
                again.finish(true)
            }
            None => scan.finish(whole),
        };
        let mtime = times.map(|(mtime, _)| mtime.rfc3339());
        let hash = (hashes && whole).then(|| hasher.finish());
        Ok(Passed { window, hash, size, mtime, encoding, line_end })
    }

    /// All chunks from `offset` on, raw and as text, until `each` answers false; true if the end was reached.
    fn stream(
        &self,
        pass: &Pass<'_>,
        decoded_as: Option<bool>,
        start: &Start,
        mut offset: u64,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool, ToolError> {
        let mut decoder = decoded_as.map(Utf16::new);
        let size = start.look.size;
        let mut buf = Vec::new();
        loop {
            match pass.patience.ended() {
                None => {}
                Some(Ended::Cancelled) => return Err(errors::cancelled()),
                Some(Ended::Time) => {
                    let text = "reading took too long; ask for a window near the beginning, or for bytes";
                    return Err(ToolError::new(ErrorCode::Timeout, text).on(errors::wire(self.path())));
                }
            }
            let (raw, is_last) = if offset == 0 && !start.head.is_empty() {
                let whole = wide(start.head.len()) == size || start.head.len() < HEAD;
                (start.head.as_slice(), whole)
            } else {
                if buf.is_empty() {
                    let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(CHUNK);
                    buf = vec![0; CHUNK.min(left.saturating_add(1))];
                }
                let got = self.read_at(&mut buf, offset)?;
                (&buf[..got], got < buf.len())
            };
            offset += wide(raw.len());
            let goes_on = match &mut decoder {
                None => each(raw, raw),
                Some(decoder) => {
                    let mut text = decoder.push(raw);
                    if is_last {
                        text.extend(decoder.finish());
                    }
                    each(raw, &text)
                }
            };
            if is_last {
                return Ok(true);
            }
            if !goes_on {
                return Ok(false);
            }
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, ToolError> {
        match self {
            Source::Live(reading) => reading.read_at(buf, offset).map_err(errors::of),
            Source::Past(_, bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let take = rest.len().min(buf.len());
                buf[..take].copy_from_slice(&rest[..take]);
                Ok(take)
            }
        }
    }

    fn look(&self) -> Result<Look, ToolError> {
        match self {
            Source::Live(reading) => {
                let attr = reading.attr_now().map_err(errors::of)?;
                Ok(Look { size: attr.size, times: Some((attr.mtime, attr.ctime)) })
            }
            Source::Past(_, bytes) => Ok(Look { size: wide(bytes.len()), times: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_for_too_long_is_given_up_and_said() {
        // More than what is read at the start.
        let source = Source::Past(ViewPath::root(), vec![b'x'; 4 * HEAD]);
        let never = || false;
        let patience = Patience::new(&never, std::time::Duration::ZERO);
        let pass = Pass { part: Part::Lines(1, 9), max: 99, decode: true, hash: false, patience };
        let start = source.start().expect("the first bytes");
        let error = source.pass(start, &pass).err().map(|error| (error.code, error.retryable));
        assert_eq!(error, Some((ErrorCode::Timeout, true)));
    }
}
