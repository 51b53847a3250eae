//! The log: records appended behind one another, in segments; read by position.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    StoreError,
    error::failed,
    flush::Flusher,
    frame::{self, PAYLOAD_MAX, RECORD_HEADER, RecordType, SEGMENT_HEADER},
    segment::{OpenFiles, Part, Record, Segment, segment_max},
};
use crate::{crash_point, types::Lsn};

type Result<T> = std::result::Result<T, StoreError>;

struct Tail {
    segment: Segment,
    file: Arc<File>,
    /// Where the next record goes, as a log position.
    end: u64,
}

/// The log of a store.
///
/// Locks: `tail`, then the flusher's; `segments` and the open files are taken alone.
pub(super) struct Log {
    dir: PathBuf,
    segments: RwLock<BTreeMap<u64, Segment>>,
    files: OpenFiles,
    tail: Mutex<Option<Tail>>,
    /// A segment is closed when it would pass this size.
    segment_max: AtomicU64,
    /// The end of what was appended.
    end: AtomicU64,
    pub flusher: Arc<Flusher>,
}

impl Log {
    /// A log of segments that were looked at. Nothing can be appended until [`Log::start`].
    pub fn new(dir: &Path, segments: Vec<Segment>, flusher: Arc<Flusher>) -> Log {
        Log {
            dir: dir.to_owned(),
            segments: RwLock::new(segments.into_iter().map(|segment| (segment.base, segment)).collect()),
            files: OpenFiles::default(),
            tail: Mutex::new(None),
            segment_max: AtomicU64::new(segment_max()),
            end: AtomicU64::new(0),
            flusher,
        }
    }

    /// Begins a new segment at `end`, for appending. All before it is on disk.
    pub fn start(&self, end: u64, number: u64) -> Result<()> {
        let (segment, file) = Segment::create(&self.dir, number, end, self.segment_max())?;
        // A segment with the same base has no records.
        self.segments.write().insert(end, segment.clone());
        *self.tail.lock() = Some(Tail { segment, file, end });
        self.set_end(end);
        Ok(())
    }

    /// From the next one on, segments are closed when they would pass this size.
    pub fn limit_segments(&self, size: u64) {
        self.segment_max.store(size.min(segment_max()), Ordering::Relaxed);
    }

    /// How large segments become.
    pub fn segment_max(&self) -> u64 {
        self.segment_max.load(Ordering::Relaxed)
    }

    /// Says where the log ends, if nothing is appended to it.
    pub fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Appends one record. `recorded` runs with its position and the one behind it before anybody can read it or append
    /// the next. On an error nothing was appended, and `recorded` did not run.
    pub fn append(
        &self,
        kind: RecordType,
        flags: u8,
        payload: &[u8],
        recorded: impl FnOnce(Lsn, u64),
    ) -> Result<(Lsn, u64)> {
        let mut tail = self.tail.lock();
        self.flusher.check()?;
        let Some(open) = tail.as_mut() else {
            return Err(StoreError::Damaged("it is open for reading only".into()));
        };
        if payload.len() > PAYLOAD_MAX {
            return Err(failed(&self.dir, io::Error::from_raw_os_error(libc::EFBIG)));
        }
        let used = open.segment.offset(open.end);
        if used + frame::framed(payload.len()) > self.segment_max() && open.end > open.segment.base {
            self.roll(open)?;
        }
        let lsn = Lsn(open.end);
        let bytes = frame::encode(kind, flags, payload, lsn.0, open.segment.salt, self.flusher.flushed());
        crash_point!("record-framed");
        self.write(open, &bytes)?;
        crash_point!("record-written");
        open.end += bytes.len() as u64;
        recorded(lsn, open.end);
        self.set_end(open.end);
        self.flusher.dirty();
        Ok((lsn, open.end))
    }

    /// One write. What a failed one left behind must not be taken for a record later, so its header is wiped; the next
    /// record overwrites the rest.
    fn write(&self, open: &Tail, bytes: &[u8]) -> Result<()> {
        let offset = open.segment.offset(open.end);
        let mut done = 0;
        let error = loop {
            match open.file.write_at(&bytes[done..], offset + done as u64) {
                Ok(0) => break io::Error::from(io::ErrorKind::WriteZero),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
            if done == bytes.len() {
                return Ok(());
            }
        };
        let wipe = done.min(RECORD_HEADER);
        if wipe > 0
            && let Err(error) = open.file.write_all_at(&vec![0; wipe], offset)
        {
            self.flusher.poison(format!("a cut-off record could not be wiped: {error}"));
        }
        Err(failed(&self.dir, error))
    }

    /// Closes the segment and begins the next. The old one is on disk before: only a log's last segment may be torn.
    fn roll(&self, open: &mut Tail) -> Result<()> {
        self.flusher.flush(&open.file, open.end)?;
        crash_point!("roll-flushed");
        let (segment, file) = Segment::create(&self.dir, open.segment.number + 1, open.end, self.segment_max())?;
        crash_point!("roll-created");
        // The space behind its last record is given back. It is only space: a failure costs nothing else.
        let _ = open.file.set_len(open.segment.offset(open.end));
        self.segments.write().insert(segment.base, segment.clone());
        *open = Tail { segment, file, end: open.end };
        Ok(())
    }

    /// Gives back the space that the last segment did not use. Nothing can be appended any more.
    pub fn finish(&self) {
        let open = self.tail.lock().take();
        if let Some(open) = open {
            // As above: only space.
            let _ = open.file.set_len(open.segment.offset(open.end));
        }
    }

    /// Reads the record at a position.
    pub fn read(&self, lsn: Lsn) -> Result<Record> {
        self.at(lsn.0, Part::Whole)?.ok_or_else(|| StoreError::Damaged(format!("no record at position {lsn}")))
    }

    /// The record at a position, if there is one.
    pub fn at(&self, position: u64, part: Part) -> Result<Option<Record>> {
        let mut tried = None;
        // A segment may be packed, or go, between the look for it and the look into it; then it is looked for once more.
        while let Some(segment) = self.segment_of(position) {
            if tried.as_ref() == Some(&segment) {
                break;
            }
            let found = match self.files.of(&segment) {
                Ok(opened) => segment.read(&opened, position, part).map_err(|e| failed(&segment.path, e)),
                Err(error) => Err(error),
            };
            match found {
                Ok(None) => {}
                Err(error) if self.segment_of(position).as_ref() == Some(&segment) => return Err(error),
                Err(_) => {}
                Ok(found) => return Ok(found),
            }
            tried = Some(segment);
        }
        Ok(None)
    }

    fn segment_of(&self, position: u64) -> Option<Segment> {
        self.segments.read().range(..=position).next_back().map(|(_, segment)| segment.clone())
    }

    /// The position of the first record at or behind `position`: what was packed away is passed over.
    pub fn seek(&self, mut position: u64) -> Result<u64> {
        loop {
            let Some(segment) = self.segment_of(position) else { return Ok(position) };
            let found = self.files.of(&segment).map(|opened| segment.seek(&opened, position));
            if self.segment_of(position).as_ref() != Some(&segment) {
                continue;
            }
            let found = found?;
            if segment.packed.is_none() || segment.packed.is_some_and(|(_, end)| found < end) || found == position {
                return Ok(found);
            }
            position = found;
        }
    }

    /// Where the segment behind a position begins.
    pub fn next_segment(&self, position: u64) -> Option<u64> {
        self.segments.read().range(position + 1..).next().map(|(base, _)| *base)
    }

    /// The segments that nothing is appended to any more, in order, each with the position behind it.
    pub fn closed(&self) -> Vec<(Segment, u64)> {
        let segments = self.segments.read();
        let bases: Vec<u64> = segments.keys().copied().collect();
        segments.values().zip(bases.into_iter().skip(1)).map(|(segment, end)| (segment.clone(), end)).collect()
    }

    /// One segment stands for several that followed one another.
    pub fn replace(&self, old: &[Segment], new: Segment) {
        let mut segments = self.segments.write();
        for segment in old {
            segments.remove(&segment.base);
        }
        segments.insert(new.base, new);
        drop(segments);
        self.files.forget();
    }

    /// The directory of the segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The position behind the last record.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The file that is being appended to, and the end of the log: a flush of the one makes all before the other durable.
    pub fn tail(&self) -> Option<(Arc<File>, u64)> {
        self.tail.lock().as_ref().map(|tail| (Arc::clone(&tail.file), tail.end))
    }

    /// Bytes that the segments take on the disk. Of the last one only what is written counts: the rest is given back.
    pub fn size(&self) -> u64 {
        let segments = self.segments.read();
        let last = segments.keys().next_back().copied().unwrap_or(0);
        let closed = segments.values().filter(|segment| segment.base != last);
        let size = |segment: &Segment| std::fs::metadata(&segment.path).map_or(0, |meta| meta.blocks() * 512);
        closed.map(size).sum::<u64>() + SEGMENT_HEADER + (self.end() - last.min(self.end()))
    }
}
