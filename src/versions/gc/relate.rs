//! Old versions of a file are kept as their difference to the next newer one: the newest stays whole, and is read fast.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use super::{GcReport, Result, judge::Standing, judge::Tier};
use crate::{
    crash_point,
    types::{Hash, Lsn},
    versions::{
        Rule, Store, StoreError,
        blob::{self, CHAIN_MAX},
        frame,
        index::{Kept, Ref},
        segment::Part,
        trim::TrimRecord,
    },
};

/// Smaller records are left as they are.
const SIZE_MIN: u64 = 300;
/// A segment is written anew for this if it becomes so many percent smaller.
const WORTH: u64 = 15;
/// So long one collection works on it.
const TIME: Duration = Duration::from_secs(5);

/// An older content, and the next newer one that it may be kept as the difference to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub older: Lsn,
    pub older_start: u64,
    pub newer: Lsn,
    pub newer_start: u64,
}

/// Records as they will be written.
pub(super) type Short = HashMap<Lsn, (u8, Vec<u8>)>;

/// Who stands on whom: no circles, and no chain longer than allowed.
struct Chains {
    bases: HashMap<u64, u64>,
    /// The longest chain that ends at a content.
    heights: HashMap<u64, usize>,
}

impl Chains {
    fn new(blobs: &[Kept]) -> Chains {
        let bases = blobs.iter().filter_map(|blob| Some((blob.start, blob.base?))).collect();
        let mut chains = Chains { bases, heights: HashMap::new() };
        for start in chains.bases.keys().copied().collect::<Vec<_>>() {
            chains.lift(start);
        }
        chains
    }

    fn above(&self, start: u64) -> Vec<u64> {
        std::iter::successors(self.bases.get(&start), |base| self.bases.get(base))
            .take(CHAIN_MAX + 1)
            .copied()
            .collect()
    }

    fn lift(&mut self, start: u64) {
        let own = self.heights.get(&start).copied().unwrap_or(0);
        for (at, base) in self.above(start).into_iter().enumerate() {
            let height = self.heights.entry(base).or_default();
            *height = (*height).max(own + at + 1);
        }
    }

    fn may_add(&self, older: u64, newer: u64) -> bool {
        let above = self.above(newer);
        let height = self.heights.get(&older).copied().unwrap_or(0);
        !self.bases.contains_key(&older)
            && newer != older
            && !above.contains(&older)
            && height + 1 + above.len() <= CHAIN_MAX
    }

    fn add(&mut self, older: u64, newer: u64) {
        self.bases.insert(older, newer);
        self.lift(older);
    }
}

/// The pairs that may be, of versions that stay; `neighbours` are older and newer contents, the newest first.
pub(super) fn pairs(blobs: &[Kept], found: &HashMap<Ref, Standing>, neighbours: &[(u64, u64)]) -> Vec<Pair> {
    let stays = |start: u64| {
        let standing = found.get(&Ref::Blob(start));
        standing.is_some_and(|standing| !matches!(standing.tier, Tier::Dropped | Tier::Root))
    };
    let kept: HashMap<u64, &Kept> = blobs.iter().map(|blob| (blob.start, blob)).collect();
    let mut chains = Chains::new(blobs);
    let mut pairs = Vec::new();
    for (older, newer) in neighbours {
        let (Some(old), Some(new)) = (kept.get(older), kept.get(newer)) else { continue };
        if old.size < SIZE_MIN || !stays(*older) || !stays(*newer) || !chains.may_add(*older, *newer) {
            continue;
        }
        chains.add(*older, *newer);
        pairs.push(Pair { older: old.lsn, older_start: *older, newer: new.lsn, newer_start: *newer });
    }
    pairs
}

impl Store {
    /// Makes the differences, says in the log which contents will be kept so, and returns how they are to be written.
    pub(super) fn relate(&self, pairs: &[Pair], numbers: (u64, u64), report: &mut GcReport) -> Result<Short> {
        let until = Instant::now() + TIME;
        let closed = self.log.closed();
        let mut by_segment: BTreeMap<u64, Vec<&Pair>> = BTreeMap::new();
        for pair in pairs {
            if let Some((segment, end)) = closed.iter().rev().find(|(segment, _)| segment.base <= pair.older.0)
                && pair.older.0 < *end
            {
                by_segment.entry(segment.base).or_default().push(pair);
            }
        }
        let mut short = Short::new();
        let mut record = TrimRecord::new(Rule::Unused, self.last_op(), numbers);
        for (base, pairs) in by_segment {
            if Instant::now() > until || self.is_ending() {
                break;
            }
            let size = closed.iter().find(|(s, _)| s.base == base).map_or(0, |(s, end)| match s.packed {
                Some((table, _)) => u64::from(table),
                None => end - s.base,
            });
            let mut made = Vec::new();
            let mut saved = 0;
            for pair in pairs {
                let Some((flags, payload, before)) = self.difference(pair)? else { continue };
                let after = frame::framed(payload.len());
                saved += before - after;
                made.push((pair, flags, payload, after));
            }
            if saved * 100 < size * WORTH {
                continue;
            }
            for (pair, flags, payload, after) in made {
                let after = u32::try_from(after).unwrap_or(u32::MAX);
                record.deltas.push((pair.older, pair.newer_start, after));
                short.insert(pair.older, (flags, payload));
            }
        }
        if !record.deltas.is_empty() {
            report.deltas = record.deltas.len() as u64;
            self.put_trim(&record)?;
            crash_point!("deltas-said");
            self.sync_all()?;
            self.index_caught_up()?;
        }
        Ok(short)
    }

    /// The record of a content as its difference to another, and the size of the one that it replaces; none if it is not
    /// worth it.
    fn difference(&self, pair: &Pair) -> Result<Option<(u8, Vec<u8>, u64)>> {
        let hash = |lsn: Lsn| -> Result<Option<(Hash, u64)>> {
            let record = self.log.at(lsn.0, Part::Whole)?;
            Ok(record.and_then(|r| Some((Hash(r.payload.get(..32)?.try_into().ok()?), frame::framed(r.payload.len())))))
        };
        let (Some((old, size)), Some((new, _))) = (hash(pair.older)?, hash(pair.newer)?) else { return Ok(None) };
        let read = |hash: &Hash| match self.blob_within(hash, CHAIN_MAX + 1) {
            Ok(bytes) => Ok(Some(bytes)),
            // It is for `verify` to tell.
            Err(StoreError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(bytes), Some(dictionary)) = (read(&old)?, read(&new)?) else { return Ok(None) };
        let Some((flags, payload)) = blob::encode_delta(&old, &bytes, &new, &dictionary) else { return Ok(None) };
        if frame::framed(payload.len()) * 2 > size {
            return Ok(None);
        }
        // Each link is tried before the whole is let go.
        let again = blob::decode(&old, flags, &payload, &mut |_| Ok(dictionary.clone()));
        Ok(again.is_ok().then_some((flags, payload, size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_an_end_and_no_circle() {
        let kept = |start, base| Kept { lsn: Lsn(start), start, size: 1000, base };
        let check = |blobs: &[Kept], neighbours: &[(u64, u64)], expected: &[(u64, u64)]| {
            let standing = Standing { tier: Tier::Plain, time: 0, rule: Rule::Age };
            let found = blobs.iter().map(|blob| (Ref::Blob(blob.start), standing)).collect();
            let made: Vec<_> =
                pairs(blobs, &found, neighbours).iter().map(|p| (p.older_start, p.newer_start)).collect();
            assert_eq!(made, expected);
        };
        let all: Vec<Kept> = (1..=40).map(|n| kept(n, None)).collect();
        // Newest first: every seventeenth stays whole.
        let line: Vec<(u64, u64)> = (1..40).rev().map(|n| (n, n + 1)).collect();
        let expected: Vec<_> = line.iter().copied().filter(|(older, _)| ![23, 6].contains(older)).collect();
        check(&all, &line, &expected);
        check(&all, &[(1, 2), (2, 1)], &[(1, 2)]);
        check(&all, &[(1, 2), (2, 3), (3, 1)], &[(1, 2), (2, 3)]);
        // What stands on it already counts as well.
        let mut grown: Vec<Kept> = (1..=16).map(|n| kept(n, Some(n + 1))).collect();
        grown.extend([kept(17, None), kept(18, None)]);
        check(&grown, &[(17, 18)], &[]);
        check(&grown[1..], &[(17, 18)], &[(17, 18)]);
    }
}
