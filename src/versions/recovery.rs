//! Bringing a store up: the log's end is found, the index follows it, and what a crash left is listed for the layer above
//! to finish on the served files.

use std::{collections::HashSet, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use super::{
    OpenMark, Operation, StoreError,
    error::failed,
    flush::Flusher,
    index::Index,
    indexer::BATCH,
    log::Log,
    scan::{self, Found, Scanned},
    segment::Record,
};
use crate::{crash_point, types::EntryName};

type Result<T> = std::result::Result<T, StoreError>;

/// Work left by a crash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Guarded mutations that were recorded and perhaps not applied: roll forward.
    pub intents: Vec<Operation>,
    /// Guarded mutations that could not be applied whole, and perhaps were not taken back whole.
    pub withdrawn: Vec<Operation>,
    /// Operations of names or metadata that were announced: look which came to be, and record or abort them.
    pub begun: Vec<Operation>,
    /// Files that were open for writing: look, and seal if they changed.
    pub open: Vec<OpenMark>,
    /// Names in `aside/` that no record explains (a crash between the move and the record).
    pub orphans: Vec<EntryName>,
    /// The machine was started anew since the store was last open: what was recorded of names may not have reached the disk.
    pub other_boot: bool,
    /// What was found, one sentence each, for `status` and the log.
    pub notes: Vec<String>,
}

/// A log that was looked at, with an index that follows it.
pub(super) struct BroughtUp {
    pub log: Arc<Log>,
    pub index: Index,
    /// The log is damaged: nothing is added to it, and nothing in the store is touched.
    pub damage: Option<String>,
    pub notes: Vec<String>,
}

/// Finds the log's end, brings the index there, and begins a new segment: a segment that lived through a crash is never
/// appended to. All before it is on disk then.
pub(super) fn bring_up(store: &Path, id: &str, flusher: &Arc<Flusher>) -> Result<BroughtUp> {
    let dir = store.join("log");
    let mut notes = Vec::new();
    let found = scan::find(store, &dir)?;
    found.settle()?;
    let log = Arc::new(Log::new(&dir, found.segments.clone(), Arc::clone(flusher)));
    let path = store.join("index.db");
    let (mut index, misfit) = Index::open(&path, id, &log)?;
    if misfit {
        notes.push("the index was damaged or did not fit the log, and was built anew".into());
    }
    let scanned = follow(&log, &found, &mut index)?;
    crash_point!("index-followed");
    let damage = found.damage.clone().or_else(|| scanned.damage.clone());
    match &damage {
        None => begin(store, &found, &scanned, &log, &mut notes)?,
        Some(damage) => {
            log.set_end(index.applied());
            flusher.damaged(damage.clone());
            notes.push(format!("the log is damaged, and the store is open for reading only: {damage}"));
        }
    }
    Ok(BroughtUp { log, index, damage, notes })
}

/// Applies to the index what it has not seen. All of the log is on disk by now.
fn follow(log: &Arc<Log>, found: &Found, index: &mut Index) -> Result<Scanned> {
    let mut batch: Vec<Record> = Vec::new();
    let mut scanned = scan::scan(log, found, index.applied(), &mut |record| {
        super::index::check(&record)?;
        batch.push(record);
        if batch.len() >= BATCH {
            index.apply(&batch, u64::MAX)?;
            batch.clear();
        }
        Ok(())
    })?;
    index.apply(&batch, u64::MAX)?;
    scanned.end = scanned.end.max(index.applied());
    Ok(scanned)
}

fn begin(store: &Path, found: &Found, scanned: &Scanned, log: &Arc<Log>, notes: &mut Vec<String>) -> Result<()> {
    if scanned.torn {
        notes.push(format!(
            "the log's last write was cut off by a crash at position {}; it had not been flushed, and is left out",
            scanned.end
        ));
    }
    found.tidy(&store.join("quarantine"), scanned)?;
    log.start(scanned.end, found.next_number)?;
    crash_point!("segment-begun");
    Ok(())
}

/// Files in `aside/` that no record explains.
pub(super) fn orphans(store: &Path, index: &super::index::Reader) -> Result<Vec<EntryName>> {
    let dir = store.join("aside");
    let mut orphans = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))? {
        let name = entry.map_err(|e| failed(&dir, e))?.file_name();
        let known = match name.to_str() {
            Some(name) if index.is_trimmed_aside(name)? => {
                // It was dropped, and a crash came before it was removed.
                std::fs::remove_file(dir.join(name)).map_err(|e| failed(&dir, e))?;
                true
            }
            Some(name) => index.knows_aside(name)?,
            None => false,
        };
        if !known && let Ok(name) = EntryName::new(name.as_bytes()) {
            orphans.push(name);
        }
    }
    Ok(orphans)
}

/// Removes what was staged for operations that are finished or were never recorded. Roots of views are directories.
pub(super) fn empty_tmp<'a>(store: &Path, unfinished: impl Iterator<Item = &'a Operation>) -> Result<()> {
    let staged: HashSet<&str> =
        unfinished.flat_map(|operation| &operation.changes).filter_map(|change| change.staged.as_deref()).collect();
    let dir = store.join("tmp");
    for entry in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))? {
        let entry = entry.map_err(|e| failed(&dir, e))?;
        let needed = entry.file_name().to_str().is_some_and(|name| staged.contains(name));
        if !needed && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            std::fs::remove_file(entry.path()).map_err(|e| failed(&dir, e))?;
        }
    }
    crash_point!("tmp-emptied");
    Ok(())
}
