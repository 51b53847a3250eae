//! `read`: one file or many, whole or by a window, in memory bounded by the window.

mod source;
mod utf16;

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use control_api::{
    ErrorCode, ToolError, WirePath,
    tools::{ReadArgs, ReadEncoding, ReadFile, ReadFileArgs, ReadFileResult, ReadNext, ReadResult},
};

use self::source::{Pass, Passed, Source, Start};
use super::{
    Answer, Block,
    bounds::Patience,
    errors, given,
    given::wide,
    media::{self, Shape},
    native::Call,
    scan::{Part, Window, char_border},
};
use crate::{
    text::{Encoding, LineEnd},
    view::At,
};

/// Files in one call.
pub(super) const FILES_MAX: usize = 64;
/// Bytes of one file, and of all texts of one call together.
pub(super) const BYTES_MAX: u64 = 4 << 20;
/// Bytes of one file unless the caller says otherwise.
const BYTES: u64 = 256 << 10;
/// Bytes of an image, of audio or of a PDF.
const MEDIA_MAX: u64 = 8 << 20;
/// The longest that reading one file goes on.
const TIME: Duration = Duration::from_secs(30);

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &ReadArgs) -> Result<Answer, ToolError> {
    let files: Vec<ReadFileArgs> = match (&args.path, &args.files) {
        (Some(path), None) => vec![ReadFileArgs { path: path.clone(), lines: None, bytes: None }],
        (None, Some(files)) if (1..=FILES_MAX).contains(&files.len()) => files.iter().map(with_window).collect(),
        (None, Some(files)) => {
            return Err(errors::invalid(format!("files holds {}; give 1 to {FILES_MAX}", files.len())));
        }
        (Some(_), Some(_)) | (None, None) => return Err(errors::invalid("give either path or files")),
    };
    let most = given::bounded("max_bytes", args.max_bytes.unwrap_or(BYTES), 1, MEDIA_MAX)?;
    let at = args.at.as_ref().map(given::moment).transpose()?;
    let reader = Reader { call, args, at, most: wide(most).min(BYTES_MAX) };
    let single = args.files.is_none();
    let (mut result, mut blocks) = (ReadResult::default(), Vec::new());
    let mut left = BYTES_MAX;
    for file in &files {
        match reader.read(file, left) {
            Ok((read, media)) => {
                left -= read.content.as_ref().map_or(0, |content| wide(content.len())).min(left);
                blocks.push(Block::Text(rendered(&read)));
                blocks.extend(media);
                result.files.push(read);
            }
            Err(error) if single || error.code == ErrorCode::Cancelled => return Err(error),
            Err(error) => {
                blocks.push(Block::Text(format!("{}: {}", file.path, error)));
                result.files.push(ReadFileResult {
                    path: file.path.clone(),
                    error: Some(error),
                    ..ReadFileResult::default()
                });
            }
        }
    }
    Ok(Answer::with_blocks(blocks, &result))
}

fn with_window(file: &ReadFile) -> ReadFileArgs {
    match file {
        ReadFile::Path(path) => ReadFileArgs { path: path.clone(), lines: None, bytes: None },
        ReadFile::Windowed(file) => file.clone(),
    }
}

struct Reader<'a> {
    call: &'a Call<'a>,
    args: &'a ReadArgs,
    at: Option<At>,
    most: u64,
}

impl Reader<'_> {
    fn read(&self, file: &ReadFileArgs, left: u64) -> Result<(ReadFileResult, Option<Block>), ToolError> {
        let path = given::path(self.call.view, &file.path)?;
        let (lines, bytes) = match (file.lines, file.bytes) {
            (None, None) => (self.args.lines, self.args.bytes),
            (lines, bytes) => (lines, bytes),
        };
        let part = part(lines, bytes, self.args).map_err(|error| error.on(file.path.clone()))?;
        let source = Source::open(self.call.view, &path, self.at.as_ref())?;
        let start = source.start()?;
        let is_whole = lines.is_none() && bytes.is_none();
        if self.args.encoding == ReadEncoding::Auto
            && is_whole
            && let Some((shape, media_type)) = media::recognise(&start.head)
        {
            return self.media(&source, start, shape, media_type);
        }
        let cancelled = || self.call.context.cancelled.is_set();
        let pass = |decode, max: u64| {
            let max = usize::try_from(max.min(left)).unwrap_or(usize::MAX);
            Pass { part, max, decode, hash: self.args.hash, patience: Patience::new(&cancelled, TIME) }
        };
        let passed = match self.args.encoding {
            // Base64 is a third longer.
            ReadEncoding::Base64 => source.pass(start, &pass(false, self.most / 4 * 3))?,
            ReadEncoding::Auto | ReadEncoding::Utf8 => source.pass(start, &pass(true, self.most))?,
        };
        let mut read = told(&source, &passed);
        match (self.args.encoding, passed.encoding) {
            (ReadEncoding::Base64, _) => {
                read.encoding = "base64".into();
                read.content = Some(STANDARD.encode(&passed.window.bytes));
                read.lines = None;
            }
            (ReadEncoding::Auto, Encoding::Binary) => {
                read.encoding = "binary".into();
                read.lines = None;
                return Ok((read, None));
            }
            (ReadEncoding::Utf8, Encoding::Binary | Encoding::OtherText | Encoding::Utf16 { .. }) => {
                return Err(not_text(&source));
            }
            (ReadEncoding::Auto | ReadEncoding::Utf8, encoding) => self.text(&source, &passed, encoding, &mut read)?,
        }
        let window = &passed.window;
        let sent = match self.args.encoding {
            ReadEncoding::Base64 => wide(window.bytes.len()),
            ReadEncoding::Auto | ReadEncoding::Utf8 => read.bytes.map_or(0, |[_, len]| len),
        };
        read.bytes = Some([window.offset, sent]);
        read.truncated = window.cut || sent < wide(window.bytes.len());
        if read.truncated {
            read.next = Some(next(window, part, sent));
        }
        Ok((read, None))
    }

    /// Fills in a text, and in `bytes` how much of the window it is.
    fn text(
        &self,
        source: &Source,
        passed: &Passed,
        encoding: Encoding,
        read: &mut ReadFileResult,
    ) -> Result<(), ToolError> {
        let window = &passed.window;
        let mut bytes = window.bytes.as_slice();
        if window.first == 0 {
            // A window of bytes ends at a character's border, if that leaves any of it.
            let border = char_border(bytes);
            let decoded = matches!(encoding, Encoding::Utf16 { .. });
            let ends_early = decoded || window.offset + wide(bytes.len()) < passed.size;
            if border > 0 && ends_early {
                bytes = &bytes[..border];
            }
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) if self.args.encoding == ReadEncoding::Utf8 => return Err(not_text(source)),
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        };
        let is_utf8 = std::str::from_utf8(bytes).is_ok();
        read.encoding = match encoding {
            Encoding::Utf16 { big_endian: true } => "utf-16be".into(),
            Encoding::Utf16 { big_endian: false } => "utf-16le".into(),
            Encoding::Utf8 { .. } if is_utf8 => "utf-8".into(),
            Encoding::Utf8 { .. } | Encoding::OtherText | Encoding::Binary => "unknown-8bit".into(),
        };
        let word = match passed.line_end {
            LineEnd::Lf => "lf",
            LineEnd::Crlf => "crlf",
            LineEnd::Cr => "cr",
        };
        read.line_end = Some(word.into());
        if window.first > 0 {
            read.window = Some([window.first, window.last]);
        }
        read.bytes = Some([window.offset, wide(bytes.len())]);
        read.content = Some(if self.args.numbered { numbered(&text, window.first, passed.line_end) } else { text });
        Ok(())
    }

    fn media(
        &self,
        source: &Source,
        start: Start,
        shape: Shape,
        media_type: &str,
    ) -> Result<(ReadFileResult, Option<Block>), ToolError> {
        let most = self.args.max_bytes.unwrap_or(MEDIA_MAX);
        let cancelled = || self.call.context.cancelled.is_set();
        let pass = Pass {
            part: Part::Bytes { offset: 0, len: u64::MAX },
            max: usize::try_from(most).unwrap_or(usize::MAX),
            decode: false,
            hash: self.args.hash,
            patience: Patience::new(&cancelled, TIME),
        };
        let passed = source.pass(start, &pass)?;
        let mut read = told(source, &passed);
        read.lines = None;
        read.encoding = "media".into();
        read.media_type = Some(media_type.into());
        read.truncated = passed.window.cut;
        if passed.window.cut {
            return Ok((read, None));
        }
        let (data, media_type) = (STANDARD.encode(&passed.window.bytes), media_type.to_owned());
        let block = match shape {
            Shape::Image => Block::Image { data, media_type },
            Shape::Audio => Block::Audio { data, media_type },
            Shape::Document => Block::Resource { uri: uri(source.path().as_bytes()), data, media_type },
        };
        Ok((read, Some(block)))
    }
}

fn told(source: &Source, passed: &Passed) -> ReadFileResult {
    ReadFileResult {
        path: errors::wire(source.path()),
        hash: passed.hash.map(|hash| hash.to_string()),
        size: passed.size,
        mtime: passed.mtime.clone(),
        lines: passed.window.lines,
        ..ReadFileResult::default()
    }
}

fn part(lines: Option<[u64; 2]>, bytes: Option<[u64; 2]>, args: &ReadArgs) -> Result<Part, ToolError> {
    match (lines, bytes) {
        (Some(_), Some(_)) => Err(errors::invalid("give lines or bytes, not both")),
        (Some([first, last]), None) if first == 0 || last < first => {
            Err(errors::invalid(format!("lines is [{first}, {last}]; give first and last line, from 1")))
        }
        (Some(_), None) if args.encoding == ReadEncoding::Base64 => {
            Err(errors::invalid("lines do not go with base64; give bytes"))
        }
        (Some([first, last]), None) => Ok(Part::Lines(first, last)),
        (None, Some(_)) if args.numbered => Err(errors::invalid("numbered does not go with bytes; give lines")),
        (None, Some([offset, len])) => Ok(Part::Bytes { offset, len }),
        (None, None) if args.encoding == ReadEncoding::Base64 => Ok(Part::Bytes { offset: 0, len: u64::MAX }),
        (None, None) => Ok(Part::Lines(1, u64::MAX)),
    }
}

/// The window behind the `sent` bytes of this one.
fn next(window: &Window, part: Part, sent: u64) -> ReadNext {
    let at = window.offset + sent;
    match part {
        Part::Lines(_, last) if !window.within_line && window.first > 0 => {
            ReadNext::Lines([window.last + 1, last.min(window.lines.unwrap_or(last))])
        }
        Part::Lines(..) => ReadNext::Bytes([at, BYTES_MAX]),
        Part::Bytes { offset, len } => ReadNext::Bytes([at, len.saturating_sub(at - offset)]),
    }
}

fn not_text(source: &Source) -> ToolError {
    let text = format!("{} is not UTF-8 text; leave encoding out, or ask for base64", source.path());
    ToolError::new(ErrorCode::NotText, text).on(errors::wire(source.path()))
}

/// Each line with its number before it.
fn numbered(text: &str, first: u64, line_end: LineEnd) -> String {
    let end = match line_end {
        LineEnd::Cr if !text.contains('\n') => '\r',
        LineEnd::Cr | LineEnd::Lf | LineEnd::Crlf => '\n',
    };
    let lines = (first.max(1)..).zip(text.split_inclusive(end));
    lines.map(|(number, line)| format!("{number:>6}\t{line}")).collect()
}

fn uri(path: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    let encoded = path.iter().map(|byte| match byte {
        byte if plain(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    std::iter::once("wardfs:".to_owned()).chain(encoded).collect()
}

fn rendered(read: &ReadFileResult) -> String {
    let path: &WirePath = &read.path;
    let hash = read.hash.as_deref().unwrap_or("not hashed");
    let mut head = format!("{path}");
    match (read.window, read.lines) {
        (Some([first, last]), Some(total)) => head += &format!(" (lines {first}-{last} of {total}"),
        (Some([first, last]), None) => head += &format!(" (lines {first}-{last}"),
        (None, Some(total)) => head += &format!(" ({total} lines"),
        (None, None) => head += &format!(" ({} bytes", read.size),
    }
    if let Some([offset, len]) = read.bytes.filter(|_| read.window.is_none() && read.content.is_some()) {
        head += &format!(", bytes {offset} to {}", offset + len);
    }
    if read.encoding != "utf-8" {
        head += &format!(", {}", read.media_type.as_deref().unwrap_or(&read.encoding));
    }
    head += &format!(", {hash})");
    let content = match &read.content {
        Some(content) => content.as_str(),
        None if read.truncated => "(too large to send; raise max_bytes)",
        None if read.encoding == "binary" => "(binary; ask for encoding base64 to have its bytes)",
        None => "",
    };
    let tail = match &read.next {
        Some(ReadNext::Lines([first, last])) => format!("\n(cut; go on with lines [{first}, {last}])"),
        Some(ReadNext::Bytes([offset, len])) => format!("\n(cut; go on with bytes [{offset}, {len}])"),
        None => String::new(),
    };
    format!("{head}\n{content}{tail}")
}
