//! Looking at a log before it is used: which segments there are, where it ends, and whether it is damaged or only cut off.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    StoreError,
    error::failed,
    frame::{ALIGN, RECORD_HEADER, RecordHead, SEGMENT_HEADER, SegmentHead, SegmentStart},
    log::Log,
    segment::{Part, Record, Segment, read_up_to},
    table::Table,
};

type Result<T> = std::result::Result<T, StoreError>;

/// So much of a file is looked at in one go.
const STEP: usize = 1 << 20;

/// The segments of a log.
#[derive(Default, Debug)]
pub(super) struct Found {
    pub segments: Vec<Segment>,
    /// Files that were begun and never held a record.
    pub unborn: Vec<PathBuf>,
    /// Files whose records stand in a packed segment before them, and half-made packed segments.
    pub covered: Vec<PathBuf>,
    /// What cannot come from a crash.
    pub damage: Option<String>,
    /// The number for the next segment.
    pub next_number: u64,
}

/// How a scan ended.
#[derive(Default, Debug)]
pub(super) struct Scanned {
    /// The position after the last valid record.
    pub end: u64,
    /// Something is broken that was on disk: no torn tail.
    pub damage: Option<String>,
    /// Bytes behind the end: a write, or several, that a crash cut off.
    pub torn: bool,
    /// The last segment's file is needed up to this size.
    pub tail_size: u64,
}

/// Lists the segments in a directory and checks that they follow one another. Their records are not looked at.
pub(super) fn find(store: &Path, dir: &Path) -> Result<Found> {
    let mut files = Vec::new();
    let mut half = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| failed(dir, e))? {
        let path = entry.map_err(|e| failed(dir, e))?.path();
        if path.extension().is_some_and(|e| e == "new") {
            half.push(path);
            continue;
        }
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|e| e == "seg")) {
            files.push((number, path));
        }
    }
    files.sort();
    let next_number = files.last().map_or(1, |(number, _)| number + 1);
    let mut found = Found { next_number, covered: half, ..Found::default() };
    let last = files.last().map(|(number, _)| *number);
    let mut expected: Option<(u64, u64)> = None;
    for (number, path) in files {
        let file = File::open(&path).map_err(|e| failed(&path, e))?;
        let mut header = [0; 32];
        let got = read_up_to(&file, &mut header, 0).map_err(|e| failed(&path, e))?;
        let head = match SegmentHead::decode(&header[..got]) {
            SegmentStart::Good(head) => head,
            SegmentStart::OtherFormat(format) => {
                let reason = format!("segment {number} has format {format}; use the wardfs that wrote it");
                return Err(StoreError::Format { path: store.to_owned(), reason });
            }
            SegmentStart::Bad => {
                let holds = data_end(&file, SEGMENT_HEADER).map_err(|e| failed(&path, e))? > SEGMENT_HEADER;
                if holds || Some(number) != last {
                    found.note_damage(format!("segment {number} has a broken header"));
                } else {
                    found.unborn.push(path);
                }
                continue;
            }
        };
        let size = file.metadata().map_err(|e| failed(&path, e))?.len();
        let mut packed = None;
        if head.table != 0 {
            match Table::read(&file, u64::from(head.table)).map_err(|e| failed(&path, e))? {
                Some(table) => packed = Some((head.table, table.end)),
                None => {
                    found.note_damage(format!("segment {number} has a broken table"));
                    continue;
                }
            }
        }
        let reach = packed.map_or(head.base + size.saturating_sub(SEGMENT_HEADER), |(_, end)| end);
        // It was packed together with the one before it, and a crash came before it was removed.
        let before = found.segments.last().and_then(|segment| segment.packed);
        if before.is_some_and(|(_, end)| head.base < end && (reach <= end || Some(number) != last)) {
            found.covered.push(path);
            continue;
        }
        // A segment reaches at least to where the next one begins.
        match expected {
            None if head.base != 0 => found.note_damage(format!("the log's start is missing, before segment {number}")),
            Some((before, _)) if head.base < before => {
                found.note_damage(format!("segment {number} stands in the wrong place"));
            }
            Some((_, reach)) if head.base > reach => {
                found.note_damage(format!("the log has a gap before segment {number}"));
            }
            None | Some(_) => {}
        }
        let segment = Segment { number, base: head.base, salt: head.salt, path, packed };
        if let Some(same) = found.segments.iter().position(|other| other.base == head.base) {
            let other = found.segments[same].clone();
            let opened = other.open()?;
            if other.read(&opened, other.base, Part::Whole).map_err(|e| failed(&other.path, e))?.is_some() {
                found.note_damage(format!("segments {} and {number} begin at the same position", other.number));
                continue;
            }
            found.unborn.push(other.path);
            found.segments.remove(same);
        }
        expected = Some((head.base, reach));
        found.segments.push(segment);
    }
    Ok(found)
}

impl Found {
    fn note_damage(&mut self, damage: String) {
        self.damage.get_or_insert(damage);
    }

    /// Makes the last segment's pages durable and forgets the cached ones: what is read next is what is on disk.
    pub fn settle(&self) -> Result<()> {
        let Some(last) = self.segments.last() else { return Ok(()) };
        let file = File::open(&last.path).map_err(|e| failed(&last.path, e))?;
        file.sync_data().map_err(|e| failed(&last.path, e))?;
        // Advice only.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(())
    }

    /// Takes away what never held a record, and the space that the last segment did not use. Bytes that a crash cut off go
    /// to `quarantine/`.
    pub fn tidy(&self, quarantine: &Path, scanned: &Scanned) -> Result<()> {
        for path in &self.unborn {
            discard(path, quarantine)?;
        }
        for path in &self.covered {
            std::fs::remove_file(path).map_err(|e| failed(path, e))?;
        }
        let Some(last) = self.segments.last().filter(|last| last.packed.is_none()) else { return Ok(()) };
        if last.base == scanned.end {
            return discard(&last.path, quarantine);
        }
        let file = File::options().write(true).open(&last.path).map_err(|e| failed(&last.path, e))?;
        if file.metadata().map_err(|e| failed(&last.path, e))?.len() > scanned.tail_size {
            file.set_len(scanned.tail_size).map_err(|e| failed(&last.path, e))?;
        }
        Ok(())
    }
}

/// Removes a segment without records; keeps it aside if something is written in it.
fn discard(path: &Path, quarantine: &Path) -> Result<()> {
    let file = File::open(path).map_err(|e| failed(path, e))?;
    let written = data_end(&file, SEGMENT_HEADER).map_err(|e| failed(path, e))? > SEGMENT_HEADER;
    let name = path.file_name().unwrap_or_default();
    let done = if written {
        let free = (0..).map(|n| quarantine.join(format!("{}.{n}", name.display()))).find(|to| !to.exists());
        std::fs::rename(path, free.unwrap_or_else(|| quarantine.join(name)))
    } else {
        std::fs::remove_file(path)
    };
    done.map_err(|e| failed(path, e))
}

/// Reads records from `from` on, in order, to the end of the log. An error of `each` that says `Damaged` ends the log there.
pub(super) fn scan(
    log: &Arc<Log>,
    found: &Found,
    from: u64,
    each: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<Scanned> {
    let mut end = from;
    for (at, segment) in found.segments.iter().enumerate() {
        let next = found.segments.get(at + 1).map(|next| next.base);
        if next.is_some_and(|next| next <= from) {
            continue;
        }
        if segment.base > end {
            let damage = format!("nothing holds positions {end} to {}", segment.base);
            return Ok(Scanned { end, damage: Some(damage), ..Scanned::default() });
        }
        let opened = match segment.open() {
            Err(StoreError::Damaged(what)) => return Ok(Scanned { end, damage: Some(what), ..Scanned::default() }),
            opened => opened?,
        };
        while next.is_none_or(|next| end < next) {
            let at = segment.seek(&opened, end);
            if segment.packed.is_some_and(|(_, behind)| at >= behind) {
                end = at;
                break;
            }
            let Some(record) = segment.read(&opened, at, Part::Whole).map_err(|e| failed(&segment.path, e))? else {
                end = at;
                break;
            };
            let behind = record.end;
            match each(record) {
                Ok(()) => end = behind,
                Err(StoreError::Damaged(what)) => {
                    let damage = format!("segment {}, position {end}: {what}", segment.number);
                    return Ok(Scanned { end, damage: Some(damage), ..Scanned::default() });
                }
                Err(error) => return Err(error),
            }
        }
        match next {
            Some(next) if end != next => {
                let damage = format!("segment {} is damaged at position {end} (it reaches {next})", segment.number);
                return Ok(Scanned { end, damage: Some(damage), ..Scanned::default() });
            }
            Some(_) => {}
            None => {
                log.set_end(end);
                let Some((_, behind)) = segment.packed else {
                    return judge_tail(segment, &opened.file, end).map_err(|e| failed(&segment.path, e));
                };
                let damage = format!("segment {} is damaged at position {end} (it reaches {behind})", segment.number);
                return Ok(Scanned { end, damage: (end != behind).then_some(damage), ..Scanned::default() });
            }
        }
    }
    Ok(Scanned { end, ..Scanned::default() })
}

/// What follows the last valid record: nothing, what a crash cut off, or records that were written when what is broken here
/// was on disk already.
fn judge_tail(segment: &Segment, file: &File, end: u64) -> io::Result<Scanned> {
    let from = segment.offset(end);
    let until = data_end(file, from)?;
    let mut scanned = Scanned { end, torn: until > from, tail_size: until.max(from), ..Scanned::default() };
    let mut bytes = vec![0; STEP + RECORD_HEADER];
    let mut offset = from + ALIGN as u64;
    while offset < until {
        let got = read_up_to(file, &mut bytes, offset)?;
        for at in (0..got.min(STEP)).step_by(ALIGN) {
            let position = end + (offset - from) + at as u64;
            let head = RecordHead::decode(&bytes[at..got], segment.salt, position);
            if let Some(head) = head.filter(|head| head.durable > end) {
                let damage = format!(
                    "segment {} is damaged at position {end}; it was on disk up to {}",
                    segment.number, head.durable
                );
                return Ok(Scanned { damage: Some(damage), ..scanned });
            }
        }
        offset += STEP as u64;
    }
    scanned.torn = until > from;
    Ok(scanned)
}

/// The offset behind the last byte at or after `from` that is not zero; `from` if there is none. Holes are passed over.
fn data_end(file: &File, from: u64) -> io::Result<u64> {
    use rustix::fs::{SeekFrom, seek};
    let size = file.metadata()?.len();
    let mut end = from;
    let mut at = from;
    let mut bytes = vec![0; STEP];
    while at < size {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => at,
        };
        let got = read_up_to(file, &mut bytes, at)?;
        if got == 0 {
            break;
        }
        if let Some(last) = bytes[..got].iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        at += got as u64;
    }
    Ok(end)
}
