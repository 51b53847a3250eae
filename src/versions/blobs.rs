//! Which contents are in the log, and where: eight bytes of each hash in memory, the rest is looked up.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Instant,
};

use parking_lot::Mutex;

use super::{StoreError, log::Log, segment::Part};
use crate::types::{Hash, Lsn};

#[derive(Default)]
struct Known {
    by_start: HashMap<u64, Lsn>,
    /// Contents whose first eight bytes of hash are another's too.
    twins: HashMap<Hash, Lsn>,
    /// When somebody was last told that a content is there: it may be about to be referred to.
    told: HashMap<u64, Instant>,
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
        known.told.insert(start_of(&hash), Instant::now());
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

    /// Somebody knows that a content is there, and will refer to it.
    pub fn tell(&self, hash: &Hash) {
        self.0.lock().told.insert(start_of(hash), Instant::now());
    }

    /// Forgets who was told before.
    pub fn forget_told(&self, before: Instant) {
        self.0.lock().told.retain(|_, told| *told >= before);
    }

    /// As `find`, by somebody who will refer to the content: it is not dropped for a while.
    pub fn claim(&self, hash: &Hash, log: &Log) -> Result<Option<Lsn>, StoreError> {
        // Told first: what is dropped after it is found was not told in time.
        self.0.lock().told.insert(start_of(hash), Instant::now());
        self.find(hash, log)
    }

    /// Takes contents out that nobody was told of since `since`; returns those that are out.
    pub fn remove(&self, dead: &[(Lsn, u64)], since: Instant) -> Vec<(Lsn, u64)> {
        let mut known = self.0.lock();
        known.told.retain(|_, told| *told >= since);
        let mut out = Vec::with_capacity(dead.len());
        for (lsn, start) in dead {
            if known.told.contains_key(start) {
                continue;
            }
            let first = known.by_start.get(start) == Some(lsn);
            let twin = known.twins.iter().find(|(hash, at)| *at == lsn && start_of(hash) == *start);
            let twin = twin.map(|(hash, _)| *hash);
            match (first, twin) {
                (true, _) => {
                    known.by_start.remove(start);
                }
                (false, Some(hash)) => {
                    known.twins.remove(&hash);
                }
                // A second copy of it: only the first is found.
                (false, None) => {}
            }
            out.push((*lsn, *start));
        }
        out
    }

    /// Puts back what was taken out and could not be dropped.
    pub fn restore(&self, contents: &[(Lsn, u64)]) {
        let mut known = self.0.lock();
        for (lsn, start) in contents {
            known.by_start.entry(*start).or_insert(*lsn);
        }
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
