//! Bringing a store up: the log's end is found, the index follows it, and what a crash left is listed for the layer above
//! to finish on the served files.

use std::{collections::HashMap, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use super::{
    OpenMark, Operation, StoreError, codec,
    error::failed,
    index::{Counters, Index},
    log::{Log, Record, RecordType},
};
use crate::types::{EntryName, Hash, Lsn, OpId};

type Result<T> = std::result::Result<T, StoreError>;

/// Records are applied to the index in batches of this many.
const BATCH: usize = 4096;

/// Work left by a crash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Guarded mutations that were recorded and perhaps not applied: roll forward.
    pub intents: Vec<Operation>,
    /// Files that were open for writing: look, and seal if they changed.
    pub open: Vec<OpenMark>,
    /// Names in `aside/` that no record explains (a crash between the move and the record).
    pub orphans: Vec<EntryName>,
    /// What was found, one sentence each, for `status` and the log.
    pub notes: Vec<String>,
}

/// A store's parts, brought up to date with its log.
pub(super) struct BroughtUp {
    pub index: Index,
    pub blobs: HashMap<Hash, Lsn>,
    pub counters: Counters,
    pub last: OpId,
    pub end: u64,
    pub damage: Option<String>,
    pub intents: Vec<Operation>,
    pub open: Vec<OpenMark>,
    pub orphans: Vec<EntryName>,
    pub notes: Vec<String>,
}

/// Scans what the index has not seen, applies it, and lists what is unfinished.
pub(super) fn bring_up(store: &Path, id: &str, log: &Arc<Log>) -> Result<BroughtUp> {
    let path = store.join("index.db");
    let mut notes = Vec::new();
    let mut index = Index::open(&path, id, u64::MAX)?;
    let mut from = next_position(log, index.applied()?)?;
    if from.is_none() {
        notes.push("the index did not fit the log and was built anew".into());
        index = Index::open(&path, id, 0)?;
        from = Some(0);
    }
    let mut batch: Vec<Record> = Vec::new();
    let scanned = log.scan(from.unwrap_or(0), &mut |record| {
        batch.push(record);
        if batch.len() >= BATCH {
            index.apply(&batch)?;
            batch.clear();
        }
        Ok(())
    })?;
    index.apply(&batch)?;
    if scanned.torn && scanned.damage.is_none() {
        notes.push("the last record in the log was cut off by a crash; it was never acknowledged".into());
    }
    notes.extend(scanned.damage.clone());
    let mut blobs = HashMap::new();
    index.blobs(&mut |hash, lsn| {
        blobs.insert(hash, lsn);
    })?;
    let (marks, unfinished) = index.unfinished()?;
    let mut open = Vec::new();
    for lsn in marks {
        open.push(codec::open_mark_of(&log.read(lsn)?.payload)?);
    }
    let mut intents = Vec::new();
    for op in unfinished {
        if let Some(lsn) = index.lsn(op)? {
            intents.push(codec::operation_of(&log.read(lsn)?.payload)?);
        }
    }
    let orphans = orphans(store, &index)?;
    empty_tmp(store)?;
    Ok(BroughtUp {
        counters: index.counters()?,
        last: index.last_op()?,
        end: scanned.end,
        damage: scanned.damage,
        index,
        blobs,
        intents,
        open,
        orphans,
        notes,
    })
}

/// The position behind the last record that the index has seen; `None` if the log has no record there.
fn next_position(log: &Log, applied: u64) -> Result<Option<u64>> {
    if applied == 0 {
        return Ok(Some(0));
    }
    // The index keeps the position just inside its last record.
    match log.read(Lsn(applied - 1)) {
        Ok(record) => Ok((record.kind != RecordType::Unknown(0)).then_some(record.end)),
        Err(StoreError::Damaged(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn orphans(store: &Path, index: &Index) -> Result<Vec<EntryName>> {
    let dir = store.join("aside");
    let mut orphans = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))? {
        let name = entry.map_err(|e| failed(&dir, e))?.file_name();
        let known = match name.to_str() {
            Some(name) => index.knows_aside(name)?,
            None => false,
        };
        if !known && let Ok(name) = EntryName::new(name.as_bytes()) {
            orphans.push(name);
        }
    }
    Ok(orphans)
}

/// What was staged and not put in place is in the log, or was never acknowledged. Roots of views are directories.
fn empty_tmp(store: &Path) -> Result<()> {
    let dir = store.join("tmp");
    for entry in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))? {
        let entry = entry.map_err(|e| failed(&dir, e))?;
        if entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            std::fs::remove_file(entry.path()).map_err(|e| failed(&dir, e))?;
        }
    }
    Ok(())
}
