//! Segment files: made with their space, opened when they are read, read record by record.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    StoreError,
    error::failed,
    frame::{self, PUNCHED, RECORD_HEADER, RecordHead, RecordType, SEGMENT_HEADER, SegmentHead},
    table::Table,
};
use crate::{crash_point, types::Lsn};

type Result<T> = std::result::Result<T, StoreError>;

/// A segment is closed when it would pass this size. So much is allocated when it is made. (Tests want several.)
pub(super) fn segment_max() -> u64 {
    super::crash::size(64 << 20, 1 << 20)
}
/// On a disk that is nearly full a segment begins with less.
const SEGMENT_MIN: u64 = 64 << 10;
/// Most records fit into one read of this size.
const READ: usize = 4096;
/// The hash, the size and the base's hash of a content.
const CONTENT_HEAD: usize = 72;
/// Segments kept open for reading.
const OPEN_MAX: usize = 16;

/// One record as it was read.
#[derive(Debug)]
pub(super) struct Record {
    pub kind: RecordType,
    pub flags: u8,
    pub lsn: Lsn,
    /// So much of the log was on disk when it was written.
    pub durable: u64,
    pub payload: Vec<u8>,
    /// The position after it.
    pub end: u64,
    /// The payload's checksum and the segment's salt: with the position they tell this record from any other.
    pub mark: (u32, u32),
}

/// How much of a record is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, verified.
    Whole,
    /// Of a content only its hash, and that of its base; what else it is was verified, or just written by us.
    NoContents,
}

/// One segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub number: u64,
    pub base: u64,
    pub salt: u32,
    pub path: PathBuf,
    /// Of a packed segment: where its table is, and the position behind all that it stands for.
    pub packed: Option<(u32, u64)>,
}

/// A segment's file, open for reading, with its table if it is packed.
pub(super) struct Opened {
    pub file: File,
    pub table: Option<Table>,
}

impl Segment {
    /// Makes the file, with its space, and its header on disk. Its number is `number`, or the next one that is free.
    pub fn create(dir: &Path, mut number: u64, base: u64, size: u64) -> Result<(Segment, Arc<File>)> {
        let (path, file) = loop {
            let path = dir.join(format!("{number:08}.seg"));
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed(&path, error)),
            }
        };
        let salt = u32::from_le_bytes(super::lock::random(&path)?);
        let fill = || -> io::Result<()> {
            crash_point!("segment-created");
            allocate(&file, size)?;
            file.write_all_at(&SegmentHead { salt, base, table: 0 }.encode(), 0)?;
            crash_point!("segment-header-written");
            file.sync_data()?;
            File::open(dir)?.sync_all()
        };
        if let Err(error) = fill() {
            // It holds nothing. If even this fails, the next start finds it empty.
            let _ = std::fs::remove_file(&path);
            return Err(failed(&path, error));
        }
        Ok((Segment { number, base, salt, path, packed: None }, Arc::new(file)))
    }

    /// Where in the file of a segment that is not packed a position is.
    pub fn offset(&self, position: u64) -> u64 {
        position - self.base + SEGMENT_HEADER
    }

    /// Opens the file.
    pub fn open(&self) -> Result<Opened> {
        let open = || -> io::Result<Option<Opened>> {
            let file = File::open(&self.path)?;
            let table = match self.packed {
                None => None,
                Some((at, _)) => match Table::read(&file, u64::from(at))? {
                    Some(table) => Some(table),
                    None => return Ok(None),
                },
            };
            Ok(Some(Opened { file, table }))
        };
        let damaged = || StoreError::Damaged(format!("segment {} has a broken table", self.number));
        open().map_err(|e| failed(&self.path, e))?.ok_or_else(damaged)
    }

    /// The position of the first record at or behind `position`, or the position behind the segment if there is none.
    pub fn seek(&self, opened: &Opened, position: u64) -> u64 {
        match (&opened.table, self.packed) {
            (Some(table), Some((_, end))) => table.next(position).unwrap_or(end),
            (None, _) | (_, None) => position,
        }
    }

    /// The record at a position; none if there is none, or it is cut off or damaged.
    pub fn read(&self, opened: &Opened, position: u64, part: Part) -> io::Result<Option<Record>> {
        let file = &opened.file;
        let offset = match &opened.table {
            None => self.offset(position),
            Some(table) => match table.find(position) {
                Some(offset) => offset,
                None => return Ok(None),
            },
        };
        let mut bytes = vec![0; READ];
        let got = read_up_to(file, &mut bytes, offset)?;
        let Some(head) = RecordHead::decode(&bytes[..got], self.salt, position) else { return Ok(None) };
        let record = |payload: &[u8], crc| Record {
            kind: head.kind,
            flags: head.flags,
            lsn: Lsn(position),
            durable: head.durable,
            payload: payload.to_vec(),
            end: head.end(position),
            mark: (crc, self.salt),
        };
        if head.kind == RecordType::Blob && (part == Part::NoContents || head.flags & PUNCHED != 0) {
            let head_end = RECORD_HEADER + head.length.min(CONTENT_HEAD);
            return Ok(bytes[..got].get(RECORD_HEADER..head_end).map(|hashes| record(hashes, 0)));
        }
        let whole = RECORD_HEADER + head.length + 4;
        if whole > got {
            bytes.resize(whole, 0);
            let more = read_up_to(file, &mut bytes[got..], offset + got as u64)?;
            bytes.truncate(got + more);
        }
        Ok(frame::payload(&bytes, head.length).map(|(payload, crc)| record(payload, crc)))
    }
}

/// Takes the segment's space now: cheaper to flush into, and not to be taken by others. Where it cannot, it grows as it is
/// written.
fn allocate(file: &File, mut size: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) if size > SEGMENT_MIN => {
                size /= 4;
                // A half-done attempt gives back what it took.
                file.set_len(0)?;
            }
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::FBIG) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A segment's identity: its number, and the salt, which is another one after it was packed.
type Identity = (u64, u32);

/// Segments open for reading, the one used last first.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Vec<(Identity, Arc<Opened>)>>);

impl OpenFiles {
    /// The file of a segment.
    pub fn of(&self, segment: &Segment) -> Result<Arc<Opened>> {
        let mut files = self.0.lock();
        let identity = (segment.number, segment.salt);
        if let Some(at) = files.iter().position(|(known, _)| *known == identity) {
            files[..=at].rotate_right(1);
            return Ok(Arc::clone(&files[0].1));
        }
        let opened = Arc::new(segment.open()?);
        files.truncate(OPEN_MAX - 1);
        files.insert(0, (identity, Arc::clone(&opened)));
        Ok(opened)
    }

    /// Closes all.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
}

/// Fills `buf` from an offset; short only at the end of the file.
pub(super) fn read_up_to(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
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
