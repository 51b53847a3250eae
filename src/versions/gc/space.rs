//! How much the store takes, how much it may take, and what is refused when it is full.

use std::{collections::HashMap, os::unix::fs::MetadataExt, sync::atomic::Ordering};

use super::Result;
use crate::versions::{OnFull, Retention, Store, StoreError, error::failed, retention::Disk};

/// Segments are at most this part of the quota, and at least so large.
const SEGMENTS: u64 = 16;
const SEGMENT_MIN: u64 = 256 << 10;

impl Store {
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

    /// True if the store takes all that it may: what need not be kept now is better left out.
    pub fn is_full(&self) -> bool {
        let quota = self.keeping.quota.load(Ordering::Relaxed);
        quota > 0 && self.keeping.used.load(Ordering::Relaxed) >= quota
    }
}
