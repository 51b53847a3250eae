//! Which contents are in the log, and where: eight bytes of each hash in memory, the rest is looked up.

use std::collections::{HashMap, hash_map::Entry};

use parking_lot::Mutex;

use super::{StoreError, log::Log, segment::Part};
use crate::types::{Hash, Lsn};

#[derive(Default)]
struct Known {
    by_start: HashMap<u64, Lsn>,
    /// Contents whose first eight bytes of hash are another's too.
    twins: HashMap<Hash, Lsn>,
}

/// The contents of a store. Its lock is taken last.
#[derive(Default)]
pub(super) struct Blobs(Mutex<Known>);

/// The first eight bytes of a hash.
pub(super) fn start_of(hash: &Hash) -> u64 {
    u64::from_be_bytes(hash.0[..8].try_into().expect("eight of 32 bytes"))
}

impl Blobs {
    /// A content that the index knows by the start of its hash.
    pub fn load(&self, start: u64, lsn: Lsn, log: &Log) -> Result<(), StoreError> {
        let taken = self.0.lock().by_start.get(&start).copied();
        match taken {
            None => {
                self.0.lock().by_start.insert(start, lsn);
            }
            Some(_) => {
                if let Some(hash) = hash_at(log, lsn)? {
                    self.0.lock().twins.insert(hash, lsn);
                }
            }
        }
        Ok(())
    }

    /// A content was appended.
    pub fn insert(&self, hash: Hash, lsn: Lsn) {
        let mut known = self.0.lock();
        match known.by_start.entry(start_of(&hash)) {
            Entry::Vacant(free) => {
                free.insert(lsn);
            }
            Entry::Occupied(_) => {
                known.twins.insert(hash, lsn);
            }
        }
    }

    /// Where a content is.
    pub fn find(&self, hash: &Hash, log: &Log) -> Result<Option<Lsn>, StoreError> {
        let (twin, first) = {
            let known = self.0.lock();
            (known.twins.get(hash).copied(), known.by_start.get(&start_of(hash)).copied())
        };
        if twin.is_some() {
            return Ok(twin);
        }
        let Some(lsn) = first else { return Ok(None) };
        Ok((hash_at(log, lsn)? == Some(*hash)).then_some(lsn))
    }

    /// How many.
    pub fn len(&self) -> usize {
        let known = self.0.lock();
        known.by_start.len() + known.twins.len()
    }
}

/// The hash that a BLOB record at a position is said to have.
fn hash_at(log: &Log, lsn: Lsn) -> Result<Option<Hash>, StoreError> {
    let record = log.at(lsn.0, Part::NoContents)?;
    Ok(record.and_then(|record| record.payload.get(..32)?.try_into().ok()).map(Hash))
}
