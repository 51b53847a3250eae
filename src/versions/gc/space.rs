//! How much the store takes, how much it may take, and what is refused when it is full.

use std::{collections::HashMap, os::unix::fs::MetadataExt, sync::atomic::Ordering};

use super::Result;
use crate::{
    types::{Timestamp, ViewPath},
    versions::{
        OnFull, Retention, Store, StoreError,
        error::failed,
        index::{Marker, Ref},
        retention::Disk,
    },
};

/// Segments are at most this part of the quota, and at least so large.
const SEGMENTS: u64 = 16;
const SEGMENT_MIN: u64 = 256 << 10;

/// Bytes of contents, by the age of the operation that first referred to them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// The source's path, as it was when it was first served.
    pub source: Vec<u8>,
    /// Contents and bytes: of the last hour, day, week, 30 days, and older.
    pub ages: [(u64, u64); 5],
}

/// The bounds of [`Share::ages`], in seconds.
const AGES: [i64; 4] = [3600, 86_400, 7 * 86_400, 30 * 86_400];

impl Store {
    /// What the contents of each source take, by age.
    ///
    /// # Errors
    /// `Io`, `Index`.
    pub fn shares(&self) -> Result<Vec<Share>> {
        self.indexer.ask(|_| Ok(()))?;
        let marker = Marker::open(&self.path.join("index.db"))?;
        let asides = self.aside_sizes()?;
        let mut sizes: HashMap<Ref, u64> = asides.into_iter().map(|(name, size)| (Ref::Aside(name), size)).collect();
        sizes.extend(marker.blobs()?.into_iter().map(|blob| (Ref::Blob(blob.start), blob.size)));
        let mut shares: Vec<(u32, Share)> =
            marker.sources()?.into_iter().map(|(id, source)| (id, Share { source, ..Share::default() })).collect();
        let now = Timestamp::now().secs;
        for (found, source, time) in marker.first_refs()? {
            let (Some(size), Some((_, share))) = (sizes.get(&found), shares.iter_mut().find(|(id, _)| *id == source))
            else {
                continue;
            };
            let age = now - time / 1_000_000_000;
            let (contents, bytes) = &mut share.ages[AGES.iter().take_while(|bound| age >= **bound).count()];
            (*contents, *bytes) = (*contents + 1, *bytes + size);
        }
        Ok(shares.into_iter().map(|(_, share)| share).collect())
    }

    /// What is kept, from now on.
    ///
    /// # Errors
    /// `Io`.
    pub fn retain(&self, retention: Retention) -> Result<()> {
        let used = self.used()?;
        let quota = match retention.bytes {
            Some(bytes) => bytes,
            None => Disk::of(&self.path)?.quota(used),
        };
        self.log.limit_segments((quota / SEGMENTS).max(SEGMENT_MIN));
        self.keeping.quota.store(quota, Ordering::Relaxed);
        self.keeping.refuses.store(retention.on_full == OnFull::Refuse, Ordering::Relaxed);
        *self.keeping.retention.write() = retention;
        Ok(())
    }

    /// What is kept.
    pub fn retention(&self) -> Retention {
        self.keeping.retention.read().clone()
    }

    /// Bytes that the store may take: the quota, or less where the disk is nearly full.
    ///
    /// # Errors
    /// `Io`.
    pub fn quota(&self) -> Result<u64> {
        let used = self.keeping.used.load(Ordering::Relaxed);
        let disk = Disk::of(&self.path)?;
        let quota = match self.keeping.quota.load(Ordering::Relaxed) {
            0 => disk.quota(used),
            quota => quota,
        };
        Ok(quota.min((used + disk.free).saturating_sub(disk.left_free())))
    }

    /// Bytes that the store took on its disk when that was last measured.
    pub fn last_used(&self) -> u64 {
        self.keeping.used.load(Ordering::Relaxed)
    }

    /// Bytes that the store takes on its disk.
    ///
    /// # Errors
    /// `Io`, `Index`.
    pub fn used(&self) -> Result<u64> {
        let aside: u64 = self.aside_sizes()?.values().sum();
        let used = self.log.size() + aside + self.indexer.ask_now(crate::versions::index::Reader::size)?;
        self.keeping.used.store(used, Ordering::Relaxed);
        Ok(used)
    }

    /// What each file aside takes. One that still stands in the tree too takes nothing of ours.
    pub(in crate::versions) fn aside_sizes(&self) -> Result<HashMap<String, u64>> {
        let dir = self.path.join("aside");
        let mut sizes = HashMap::new();
        for entry in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))? {
            let entry = entry.map_err(|e| failed(&dir, e))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.metadata() {
                Ok(meta) => {
                    sizes.insert(name, if meta.nlink() > 1 { 0 } else { meta.blocks() * 512 });
                }
                // It left while we looked.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&dir, error)),
            }
        }
        Ok(sizes)
    }

    /// May something more be kept? Refused only when the store is full, and was told to refuse then.
    ///
    /// # Errors
    /// `Quota`.
    pub fn admit(&self) -> Result<()> {
        if !self.keeping.refuses.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (used, quota) = (self.keeping.used.load(Ordering::Relaxed), self.keeping.quota.load(Ordering::Relaxed));
        let is_full = quota > 0 && (used >= quota || self.keeping.keeper.is_short_of_disk());
        if is_full { Err(StoreError::Quota { path: self.path.clone(), quota }) } else { Ok(()) }
    }

    /// Is history below this path kept shortly?
    pub fn is_short(&self, path: &ViewPath) -> bool {
        self.keeping.retention.read().is_short(path.as_bytes())
    }

    /// True if the store takes all that it may: what need not be kept now is better left out.
    pub fn is_full(&self) -> bool {
        let quota = self.keeping.quota.load(Ordering::Relaxed);
        quota > 0 && self.keeping.used.load(Ordering::Relaxed) >= quota
    }
}
