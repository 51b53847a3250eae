//! Segments and framed records: append, scan, and where the valid part ends. `FORMAT.md` has the bytes.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};

use super::StoreError;
use crate::types::Lsn;

type Result<T> = std::result::Result<T, StoreError>;

const SEGMENT_MAGIC: &[u8; 8] = b"WARDFSEG";
const SEGMENT_HEADER: usize = 32;
/// A segment is closed when it would pass this size.
const SEGMENT_MAX: u64 = 64 << 20;
const RECORD_MAGIC: u32 = 0x5244_5257;
const RECORD_HEADER: usize = 28;
const RECORD_HEADER_LEN: u16 = 28;
/// Larger is no record of ours.
const PAYLOAD_MAX: u32 = 96 << 20;
/// The version of what this module writes.
pub(super) const FORMAT: u32 = 1;

/// What a record is. Numbers are never given twice; 10 to 19 are kept for extents, deltas, trims and pins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordType {
    Blob,
    Op,
    Done,
    Abort,
    Open,
    Close,
    Settle,
    Answer,
    Source,
    Checkpoint,
    /// Of a later version: skipped.
    Unknown(u8),
}

impl RecordType {
    fn code(self) -> u8 {
        match self {
            RecordType::Blob => 1,
            RecordType::Op => 2,
            RecordType::Done => 3,
            RecordType::Abort => 4,
            RecordType::Open => 5,
            RecordType::Close => 6,
            RecordType::Settle => 7,
            RecordType::Answer => 8,
            RecordType::Source => 9,
            RecordType::Checkpoint => 20,
            RecordType::Unknown(code) => code,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            1 => RecordType::Blob,
            2 => RecordType::Op,
            3 => RecordType::Done,
            4 => RecordType::Abort,
            5 => RecordType::Open,
            6 => RecordType::Close,
            7 => RecordType::Settle,
            8 => RecordType::Answer,
            9 => RecordType::Source,
            20 => RecordType::Checkpoint,
            other => RecordType::Unknown(other),
        }
    }
}

/// One record as it was read.
pub(super) struct Record {
    pub kind: RecordType,
    pub flags: u8,
    pub lsn: Lsn,
    pub payload: Vec<u8>,
    /// The position after it.
    pub end: u64,
}

#[derive(Clone)]
struct Segment {
    number: u64,
    base: u64,
    salt: u32,
    file: Arc<File>,
}

struct Tail {
    segment: Segment,
    /// Where the next record goes, as a log position.
    end: u64,
}

/// The log of a store.
pub(super) struct Log {
    dir: PathBuf,
    segments: RwLock<BTreeMap<u64, Segment>>,
    tail: Mutex<Option<Tail>>,
}

/// How a scan ended.
pub(super) struct Scanned {
    /// The position after the last valid record.
    pub end: u64,
    /// The log goes on after something that is no record: not a torn tail.
    pub damage: Option<String>,
    /// Bytes after the end that are no record: a torn tail.
    pub torn: bool,
}

impl Log {
    /// Opens the segments there are. Nothing can be appended until [`Log::start`].
    pub fn open(dir: &Path) -> Result<Log> {
        let mut segments = BTreeMap::new();
        for entry in std::fs::read_dir(dir).map_err(|e| failed(dir, e))? {
            let path = entry.map_err(|e| failed(dir, e))?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
            let Some(number) = number.filter(|_| path.extension().is_some_and(|e| e == "seg")) else { continue };
            let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|e| failed(&path, e))?;
            // A header that was cut off by a crash: nothing was ever acknowledged in it.
            let Some((base, salt)) = read_header(&file).map_err(|e| failed(&path, e))? else { continue };
            segments.insert(base, Segment { number, base, salt, file: Arc::new(file) });
        }
        Ok(Log { dir: dir.to_owned(), segments: RwLock::new(segments), tail: Mutex::new(None) })
    }

    /// Reads records from `from` on, in order. Segments end where the next one begins; the last one ends at the first thing
    /// that is no record.
    pub fn scan(&self, from: u64, each: &mut dyn FnMut(Record) -> Result<()>) -> Result<Scanned> {
        let segments: Vec<Segment> = self.segments.read().values().cloned().collect();
        let mut end = from;
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map(|next| next.base);
            if next.is_some_and(|next| next <= from) {
                continue;
            }
            let mut position = from.max(segment.base);
            while next.is_none_or(|next| position < next) {
                match self.read_in(segment, position)? {
                    Some(record) => {
                        position = record.end;
                        each(record)?;
                    }
                    None => break,
                }
            }
            end = position;
            if let Some(next) = next.filter(|next| position < *next) {
                let damage =
                    format!("segment {} is damaged at position {position} (it should reach {next})", segment.number);
                return Ok(Scanned { end, damage: Some(damage), torn: false });
            }
            if next.is_none() {
                return self.judge_tail(segment, position);
            }
        }
        Ok(Scanned { end, damage: None, torn: false })
    }

    /// What follows the last valid record of the last segment: nothing, the rest of a torn write, or records behind damage.
    fn judge_tail(&self, segment: &Segment, end: u64) -> Result<Scanned> {
        let size = segment.file.metadata().map_err(|e| self.failed(e))?.len();
        let offset = end - segment.base + SEGMENT_HEADER as u64;
        let mut rest = vec![0; usize::try_from(size.saturating_sub(offset)).unwrap_or(0)];
        let got = read_up_to(&segment.file, &mut rest, offset).map_err(|e| self.failed(e))?;
        rest.truncate(got);
        let behind = (8..rest.len().saturating_sub(RECORD_HEADER))
            .step_by(8)
            .any(|at| parse_header(&rest[at..], segment.salt, end + at as u64).is_some());
        let damage =
            behind.then(|| format!("segment {} is damaged at position {end}, with records behind it", segment.number));
        Ok(Scanned { end, damage, torn: rest.iter().any(|b| *b != 0) })
    }

    /// Begins a new segment at `end`, for appending.
    pub fn start(&self, end: u64) -> Result<()> {
        let tail = self.new_segment(end)?;
        *self.tail.lock() = Some(tail);
        Ok(())
    }

    fn new_segment(&self, base: u64) -> Result<Tail> {
        let number = self.segments.read().values().map(|segment| segment.number).max().unwrap_or(0) + 1;
        let path = self.dir.join(format!("{number:08}.seg"));
        let salt = u32::from_le_bytes(random());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| failed(&path, e))?;
        let mut header = Vec::with_capacity(SEGMENT_HEADER);
        header.extend_from_slice(SEGMENT_MAGIC);
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        header.extend_from_slice(&base.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        file.write_all_at(&header, 0).map_err(|e| failed(&path, e))?;
        file.sync_data().map_err(|e| failed(&path, e))?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(&self.dir, e))?;
        let segment = Segment { number, base, salt, file: Arc::new(file) };
        // An empty segment of the same base would hide this one.
        self.segments.write().insert(base, segment.clone());
        Ok(Tail { segment, end: base })
    }

    /// Appends one record; `recorded` runs before the next one can be appended. On an error nothing was appended.
    pub fn append<T>(
        &self,
        kind: RecordType,
        flags: u8,
        payload: &[u8],
        recorded: impl FnOnce(Lsn) -> T,
    ) -> Result<(u64, T)> {
        let mut tail = self.tail.lock();
        let Some(open) = tail.as_mut() else {
            return Err(StoreError::Damaged("the log is open for reading only".into()));
        };
        let length = u32::try_from(payload.len()).ok().filter(|len| *len <= PAYLOAD_MAX);
        let Some(length) = length else { return Err(StoreError::Damaged("a record is too large".into())) };
        let room = RECORD_HEADER + payload.len() + 4;
        let padded = room.next_multiple_of(8);
        if open.end - open.segment.base + padded as u64 > SEGMENT_MAX && open.end > open.segment.base {
            open.segment.file.sync_data().map_err(|e| self.failed(e))?;
            *open = self.new_segment(open.end)?;
        }
        let mut buf = Vec::with_capacity(padded);
        buf.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
        buf.push(kind.code());
        buf.push(flags);
        buf.extend_from_slice(&RECORD_HEADER_LEN.to_le_bytes());
        buf.extend_from_slice(&length.to_le_bytes());
        buf.extend_from_slice(&open.end.to_le_bytes());
        buf.extend_from_slice(&open.segment.salt.to_le_bytes());
        buf.extend_from_slice(&crc32c::crc32c(&buf).to_le_bytes());
        buf.extend_from_slice(payload);
        buf.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        buf.resize(padded, 0);
        let offset = open.end - open.segment.base + SEGMENT_HEADER as u64;
        // What a failed write left is overwritten by the next one.
        open.segment.file.write_all_at(&buf, offset).map_err(|e| self.failed(e))?;
        let lsn = Lsn(open.end);
        open.end += padded as u64;
        Ok((open.end, recorded(lsn)))
    }

    /// Reads the record at a position.
    pub fn read(&self, lsn: Lsn) -> Result<Record> {
        let segment = self.segments.read().range(..=lsn.0).next_back().map(|(_, segment)| segment.clone());
        let segment = segment.ok_or_else(|| StoreError::Damaged(format!("no segment holds position {lsn}")))?;
        self.read_in(&segment, lsn.0)?.ok_or_else(|| StoreError::Damaged(format!("no record at position {lsn}")))
    }

    fn read_in(&self, segment: &Segment, position: u64) -> Result<Option<Record>> {
        let offset = position - segment.base + SEGMENT_HEADER as u64;
        let mut header = [0; RECORD_HEADER];
        if read_up_to(&segment.file, &mut header, offset).map_err(|e| self.failed(e))? < RECORD_HEADER {
            return Ok(None);
        }
        let Some((kind, flags, length)) = parse_header(&header, segment.salt, position) else { return Ok(None) };
        let length = usize::try_from(length).expect("at most 96 MiB");
        let mut payload = vec![0; length + 4];
        let got = read_up_to(&segment.file, &mut payload, offset + RECORD_HEADER as u64).map_err(|e| self.failed(e))?;
        if got < payload.len() {
            return Ok(None);
        }
        let crc = payload.split_off(length);
        if crc32c::crc32c(&payload).to_le_bytes() != crc[..] {
            return Ok(None);
        }
        let end = position + (RECORD_HEADER + length + 4).next_multiple_of(8) as u64;
        Ok(Some(Record { kind: RecordType::of(kind), flags, lsn: Lsn(position), payload, end }))
    }

    /// The file that is being appended to, and the end of the log: a flush of the one makes all before the other durable.
    pub fn tail(&self) -> Option<(Arc<File>, u64)> {
        self.tail.lock().as_ref().map(|tail| (Arc::clone(&tail.segment.file), tail.end))
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        self.segments.read().values().filter_map(|segment| segment.file.metadata().ok()).map(|meta| meta.len()).sum()
    }

    fn failed(&self, error: io::Error) -> StoreError {
        failed(&self.dir, error)
    }
}

fn failed(path: &Path, source: io::Error) -> StoreError {
    if source.raw_os_error() == Some(libc::ENOSPC) || source.raw_os_error() == Some(libc::EDQUOT) {
        return StoreError::NoSpace { path: path.to_owned() };
    }
    StoreError::Io { what: path.display().to_string(), source }
}

fn random() -> [u8; 4] {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => bytes,
        // Only to tell segments apart: the clock does as well.
        Ok(_) | Err(_) => crate::types::Timestamp::now().nanos.to_le_bytes(),
    }
}

fn read_header(file: &File) -> io::Result<Option<(u64, u32)>> {
    let mut header = [0; SEGMENT_HEADER];
    if read_up_to(file, &mut header, 0)? < SEGMENT_HEADER || &header[..8] != SEGMENT_MAGIC {
        return Ok(None);
    }
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if crc32c::crc32c(&header[..28]) != word(28) || word(8) != FORMAT {
        return Ok(None);
    }
    Ok(Some((u64::from_le_bytes(header[16..24].try_into().expect("eight bytes")), word(12))))
}

fn parse_header(header: &[u8], salt: u32, position: u64) -> Option<(u8, u8, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let good = word(0)? == RECORD_MAGIC
        && word(24)? == crc32c::crc32c(header.get(..24)?)
        && word(20)? == salt
        && long(12)? == position
        && word(8)? <= PAYLOAD_MAX;
    good.then(|| Some((header[4], header[5], word(8)?)))?
}

fn read_up_to(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
