//! What a disk recorded, and the disks that a power cut could have left.

use std::{fs::File, ops::Range, os::unix::fs::FileExt};

use crate::harness::Random;

/// What happened to a disk. In a recording: where it was written and how much (little endian, 8 bytes each), then the bytes; a
/// flush has an offset that no write has.
pub enum Entry<'a> {
    /// These bytes were written there.
    Write { offset: u64, data: &'a [u8] },
    /// What was written before is on disk.
    Flush,
}

const FLUSH: u64 = u64::MAX;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

impl Entry<'_> {
    /// As it stands in the recording.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (offset, data) = match self {
            Entry::Write { offset, data } => (*offset, *data),
            Entry::Flush => (FLUSH, &[][..]),
        };
        [&offset.to_le_bytes()[..], &(data.len() as u64).to_le_bytes()[..], data].concat()
    }
}

/// What reaches the disk of a write that was not flushed when the power went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unflushed {
    /// Nothing of any.
    Nothing,
    /// Everything.
    All,
    /// Some whole writes.
    Some(u64),
    /// Some writes, and of some only some sectors.
    Torn(u64),
}

/// When the power goes, and what of the last writes is there.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// So much had been recorded.
    pub at: u64,
    /// What became of the rest.
    pub unflushed: Unflushed,
}

struct Written {
    /// So much had been recorded after it.
    end: u64,
    /// None: it was a flush.
    write: Option<(u64, Range<usize>)>,
}

/// A recording.
pub struct Recording {
    bytes: Vec<u8>,
    entries: Vec<Written>,
}

impl Recording {
    /// Reads it.
    pub fn of(bytes: Vec<u8>) -> Recording {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (mut entries, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let (offset, start) = (number(at), at + 16);
            at = start + usize::try_from(number(at + 8)).unwrap();
            entries.push(Written { end: at as u64, write: (offset != FLUSH).then_some((offset, start..at)) });
        }
        Recording { bytes, entries }
    }

    /// The moments after each entry.
    pub fn moments(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.end)
    }

    /// How many flushes it holds.
    pub fn flushes(&self) -> usize {
        self.entries.iter().filter(|entry| entry.write.is_none()).count()
    }

    /// Writes onto `disk`, which holds what was there before the recording, what a cut would have left of it.
    pub fn replay(&self, disk: &File, cut: Cut) {
        let entries = &self.entries[..self.entries.partition_point(|entry| entry.end <= cut.at)];
        let flushed = entries.iter().rposition(|entry| entry.write.is_none()).unwrap_or(0);
        let mut random = match cut.unflushed {
            Unflushed::Some(seed) | Unflushed::Torn(seed) => Random::new(seed),
            Unflushed::Nothing | Unflushed::All => Random::new(0),
        };
        for (number, entry) in entries.iter().enumerate() {
            let Some((offset, range)) = &entry.write else { continue };
            let data = &self.bytes[range.clone()];
            let keeps = match cut.unflushed {
                _ if number < flushed => true,
                Unflushed::Nothing => false,
                Unflushed::All => true,
                Unflushed::Some(_) => random.next().is_multiple_of(2),
                Unflushed::Torn(_) => match random.below(3) {
                    0 => false,
                    1 => true,
                    _ => {
                        tear(disk, *offset, data, &mut random);
                        false
                    }
                },
            };
            if keeps {
                disk.write_all_at(data, *offset).unwrap();
            }
        }
    }
}

/// Some sectors of a write.
fn tear(disk: &File, offset: u64, data: &[u8], random: &mut Random) {
    for (number, bytes) in data.chunks(SECTOR).enumerate() {
        if random.next().is_multiple_of(2) {
            disk.write_all_at(bytes, offset + (number * SECTOR) as u64).unwrap();
        }
    }
}
