//! Giving space back: segments of which little is left are written anew without what is dead; empty ones become a header.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use super::{GcReport, Result, relate::Short};
use crate::{
    crash_point,
    types::{Actor, Channel, Lsn, OpId},
    versions::{
        Store, StoreError, codec,
        error::failed,
        frame::{self, ALIGN, RecordType, SEGMENT_HEADER, SegmentHead},
        index::Reader,
        lock,
        segment::{Opened, Part, Record, Segment},
        table::Table,
    },
};

/// A segment is written anew if less than this part of it is alive (percent), and if space is needed.
const ALIVE: u64 = 40;
const ALIVE_URGENT: u64 = 85;
/// Smaller ones are not worth it by themselves.
const WORTH: u64 = 64 << 10;
/// So many neighbours that are small become one.
const SMALL: usize = 4;

/// What was found when a segment was last walked through: it is not walked again before that changed.
pub(super) type Seen = HashMap<u64, Look>;

/// What tells whether a segment may have died further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    contents: usize,
    forgotten: OpId,
    urgent: bool,
}

/// A closed segment.
struct Closed {
    segment: Segment,
    /// The position behind it.
    end: u64,
    size: u64,
}

impl Store {
    /// Packs what is worth it. What is dead was said to be so in the log, and that is on disk.
    pub(super) fn pack(&self, urgent: bool, short: &Short, seen: &mut Seen, report: &mut GcReport) -> Result<()> {
        self.index_caught_up()?;
        let needs_space = |error: &StoreError| matches!(error, StoreError::NoSpace { .. });
        let all = self.closed_segments()?;
        for one in &all {
            if self.is_ending() {
                return Ok(());
            }
            if short.keys().any(|lsn| (one.segment.base..one.end).contains(&lsn.0)) {
                match self.rewrite(std::slice::from_ref(one), short) {
                    Ok(()) => report.segments += 1,
                    Err(error) if needs_space(&error) => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            let alive = self.alive(one, urgent, seen)?;
            let Some(alive) = alive else { continue };
            let bytes: u64 = alive.iter().map(|(_, size)| size).sum();
            if alive.is_empty() {
                self.bury(one)?;
                report.segments += 1;
            } else if one.size > WORTH && bytes * 100 < one.size * if urgent { ALIVE_URGENT } else { ALIVE } {
                match self.rewrite(std::slice::from_ref(one), short) {
                    Ok(()) => report.segments += 1,
                    // On a full disk the others may still be emptied.
                    Err(error) if needs_space(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        match self.join_small(short, report) {
            Err(error) if needs_space(&error) => Ok(()),
            joined => joined,
        }
    }

    fn closed_segments(&self) -> Result<Vec<Closed>> {
        let size = |segment: &Segment| std::fs::metadata(&segment.path).map_err(|e| failed(&segment.path, e));
        let closed = |(segment, end): (Segment, u64)| {
            let size = size(&segment)?.blocks() * 512;
            Ok(Closed { segment, end, size })
        };
        self.log.closed().into_iter().map(closed).collect()
    }

    /// The records that are alive in a segment, and their sizes; none if it need not be looked at.
    fn alive(&self, one: &Closed, urgent: bool, seen: &mut Seen) -> Result<Option<Vec<(Lsn, u64)>>> {
        let (base, end) = (one.segment.base, one.end);
        let (contents, forgotten) = self.indexer.ask_now(|i| Ok((i.blobs_between(base, end)?, i.forgotten()?)))?;
        let bytes: u64 = contents.iter().map(|(_, size)| size).sum();
        let look = Look { contents: contents.len(), forgotten, urgent };
        let known = seen.insert(one.segment.number, look) == Some(look);
        if known || bytes * 100 >= one.size * if urgent { ALIVE_URGENT } else { ALIVE } {
            return Ok(None);
        }
        if one.segment.packed.is_some() && one.size <= 4096 {
            return Ok(None);
        }
        let mut alive = Vec::new();
        self.each_alive(one, &mut |record| {
            alive.push((record.lsn, frame::framed(record.payload.len())));
            Ok(())
        })?;
        Ok(Some(alive))
    }

    /// Goes through the records of a segment that are still needed.
    fn each_alive(&self, one: &Closed, each: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        let opened = one.segment.open()?;
        let mut checkpoints = None;
        let mut at = one.segment.base;
        loop {
            at = one.segment.seek(&opened, at);
            if at >= one.end {
                return Ok(());
            }
            let record = read(&one.segment, &opened, at)?;
            at = record.end;
            if self.is_alive(&record, &mut checkpoints)? {
                each(record)?;
            }
        }
    }

    fn is_alive(&self, record: &Record, checkpoints: &mut Option<HashSet<Lsn>>) -> Result<bool> {
        let lsn = record.lsn;
        let ask = |question: &dyn Fn(&Reader) -> Result<bool>| self.indexer.ask_now(|index| question(index));
        let somebody = |_: u32| Ok(Actor::of(Channel::External));
        Ok(match record.kind {
            RecordType::Blob => ask(&|index| index.is_kept(lsn))?,
            RecordType::Op => {
                let op = codec::operation_of(&record.payload, somebody)?.op;
                ask(&|index| Ok(index.lsn(op)? == Some(lsn) || index.is_answer(lsn)?))?
            }
            RecordType::Begun => {
                let op = codec::operation_of(&record.payload, somebody)?.op;
                ask(&|index| index.is_begun(op, lsn))?
            }
            RecordType::Done | RecordType::Abort | RecordType::Close | RecordType::Withdrawn => {
                let op = codec::number_of(&record.payload)?;
                ask(&|index| Ok(op > index.forgotten()?))?
            }
            RecordType::Open => {
                let op = codec::open_mark_of(&record.payload, somebody)?.op;
                ask(&|index| index.is_open(op, lsn))?
            }
            RecordType::Settle => {
                let (op, _, _) = codec::settled_of(&record.payload)?;
                ask(&|index| Ok(op > index.forgotten()?))?
            }
            RecordType::Answer => ask(&|index| index.is_answer(lsn))?,
            RecordType::Actor => {
                let (number, _) = codec::actor_of(&record.payload)?;
                ask(&|index| Ok(index.actor(number)?.is_some()))?
            }
            RecordType::Checkpoint => {
                let all = match checkpoints {
                    Some(all) => all,
                    None => checkpoints.insert(self.indexer.ask_now(Reader::checkpoints)?.into_iter().collect()),
                };
                all.contains(&lsn)
            }
            RecordType::Review => ask(&|index| index.knows_review(lsn))?,
            RecordType::Trim => ask(&|index| index.knows_trim(lsn))?,
            RecordType::Source | RecordType::Unknown(_) => true,
        })
    }

    /// Nothing in a segment is needed: in place, without a byte of new space, it becomes a header that says so.
    fn bury(&self, one: &Closed) -> Result<()> {
        let segment = &one.segment;
        let table = Table { end: one.end, packed: self.log.end(), rows: Vec::new() };
        let at = u32::try_from(SEGMENT_HEADER).expect("32 fits");
        let salt = u32::from_le_bytes(lock::random(&segment.path)?);
        let head = SegmentHead { salt, base: segment.base, table: at };
        // One write within one sector: there is never half a header.
        let bytes = [head.encode(), table.encode()].concat();
        let write = || -> std::io::Result<()> {
            let file = File::options().write(true).open(&segment.path)?;
            file.write_all_at(&bytes, 0)?;
            crash_point!("segment-buried");
            file.sync_data()?;
            self.log.replace(
                std::slice::from_ref(segment),
                Segment { salt, packed: Some((at, one.end)), ..segment.clone() },
            );
            crash_point!("segment-burial-flushed");
            file.set_len(bytes.len() as u64)
        };
        write().map_err(|e| failed(&segment.path, e))
    }

    /// Writes the records that are needed of neighbouring segments into one new file, which takes the place of the first;
    /// the others go then.
    fn rewrite(&self, run: &[Closed], short: &Short) -> Result<()> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let path = self.log.dir().join(format!("{:08}.new", first.segment.number));
        let written = self.write_packed(&path, run, last.end, short);
        let (salt, table) = match written {
            Ok(written) => written,
            Err(error) => {
                // It holds nothing that is not elsewhere. If even this fails, the next start takes it away.
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
        };
        crash_point!("segment-packed");
        let install = || -> std::io::Result<()> {
            std::fs::rename(&path, &first.segment.path)?;
            crash_point!("segment-replaced");
            File::open(self.log.dir())?.sync_all()
        };
        install().map_err(|e| failed(&path, e))?;
        let old: Vec<Segment> = run.iter().map(|one| one.segment.clone()).collect();
        let packed = Some((table, last.end));
        self.log.replace(&old, Segment { salt, packed, ..first.segment.clone() });
        crash_point!("segments-joined");
        for one in &old[1..] {
            std::fs::remove_file(&one.path).map_err(|e| failed(&one.path, e))?;
            crash_point!("segment-unlinked");
        }
        Ok(())
    }

    /// Returns the new segment's salt, and where its table is.
    fn write_packed(&self, path: &Path, run: &[Closed], end: u64, short: &Short) -> Result<(u32, u32)> {
        let on_disk = |error: std::io::Error| failed(path, error);
        let base = run.first().map_or(0, |one| one.segment.base);
        let salt = u32::from_le_bytes(lock::random(path)?);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(on_disk)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut offset = SEGMENT_HEADER;
        out.write_all(&[0; 32]).map_err(on_disk)?;
        let mut table = Table { end, packed: self.log.end(), rows: Vec::new() };
        for one in run {
            self.each_alive(one, &mut |record| {
                let (flags, payload) = match short.get(&record.lsn) {
                    Some((flags, payload)) => (*flags, payload),
                    None => (record.flags, &record.payload),
                };
                let bytes = frame::encode(record.kind, flags, payload, record.lsn.0, salt, record.durable);
                let at = u32::try_from(offset).map_err(|_| on_disk(std::io::Error::from_raw_os_error(libc::EFBIG)))?;
                table.rows.push((record.lsn.0, at));
                offset += bytes.len() as u64;
                out.write_all(&bytes).map_err(on_disk)
            })?;
        }
        debug_assert!(offset.is_multiple_of(ALIGN as u64));
        let at = u32::try_from(offset).map_err(|_| on_disk(std::io::Error::from_raw_os_error(libc::EFBIG)))?;
        out.write_all(&table.encode()).map_err(on_disk)?;
        let file = out.into_inner().map_err(|error| on_disk(error.into_error()))?;
        let finish = || -> std::io::Result<()> {
            file.write_all_at(&SegmentHead { salt, base, table: at }.encode(), 0)?;
            file.sync_all()
        };
        finish().map_err(on_disk)?;
        Ok((salt, at))
    }

    /// Several small neighbours become one.
    fn join_small(&self, short: &Short, report: &mut GcReport) -> Result<()> {
        let most = self.log.segment_max() / 2;
        let mut run: Vec<Closed> = Vec::new();
        let mut sum = 0;
        let mut runs = Vec::new();
        for one in self.closed_segments()? {
            if one.size > most || sum + one.size > most {
                runs.push(std::mem::take(&mut run));
                sum = 0;
            }
            if one.size <= most {
                sum += one.size;
                run.push(one);
            }
        }
        runs.push(run);
        for run in runs.into_iter().filter(|run| run.len() >= SMALL) {
            self.rewrite(&run, short)?;
            report.segments += run.len() as u64;
        }
        Ok(())
    }
}

fn read(segment: &Segment, opened: &Opened, at: u64) -> Result<Record> {
    let record = segment.read(opened, at, Part::Whole).map_err(|e| failed(&segment.path, e))?;
    record.ok_or_else(|| StoreError::Damaged(format!("no record at position {at}")))
}
