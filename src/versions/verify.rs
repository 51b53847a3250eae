//! A full check: every record, every content, every file aside, and the index against the log.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Read,
    path::Path,
};

use super::{
    Content, Store, StoreError,
    blobs::start_of,
    error::failed,
    frame::PUNCHED,
    index::{Index, Kept, Marker, Ref},
    segment::{Part, Record},
};
use crate::types::{Hash, NodeId, OpId, ViewPath};

type Result<T> = std::result::Result<T, StoreError>;

/// Tables that must say what the log says, and the columns of them that are compared.
const COMPARED: &[(&str, &str)] = &[
    ("op", "op, lsn, time, actor, intent"),
    ("touch", "op, source, path, node, kind, is_from"),
    ("settled", "op, node, content"),
    ("blob", "lsn, start"),
    ("answer", "view, id, lsn"),
    ("source", "id, key, path"),
    ("checkpoint", "name, op, lsn"),
    ("review", "lsn, view, step, whose, session, every, upto, position, content"),
    ("review_node", "lsn, node"),
];

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Records that were read.
    pub records: u64,
    /// Contents that were read and have their hash.
    pub contents: u64,
    /// Files aside that are there.
    pub asides: u64,
    /// Bytes of contents and files.
    pub bytes: u64,
    /// What is wrong, one sentence each.
    pub damage: Vec<String>,
    /// Versions that cannot be read.
    pub files: Vec<DamagedVersion>,
}

/// A version of a file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedVersion {
    /// The path, in its source, when the operation was recorded.
    pub path: ViewPath,
    /// The operation that refers to the content.
    pub op: OpId,
    /// The newest operation after which the file can be read, if there is one.
    pub last_good: Option<OpId>,
}

#[derive(Default)]
struct Bad(HashSet<Ref>);

impl Store {
    /// Checks everything. Nothing is changed, and nothing is dropped meanwhile.
    ///
    /// # Errors
    /// `Io`, `Index`: the check itself could not be made.
    pub fn verify(&self) -> Result<VerifyReport> {
        let _still = self.keeping.turn();
        self.indexer.ask(|_| Ok(()))?;
        let mut report = VerifyReport::default();
        let folded = self.path.join("tmp").join(format!("{}.db", self.tmp_name()));
        let checked = self.verify_log(&folded, &mut report);
        let removed = super::index::remove(&folded);
        let marker = checked?;
        removed?;
        let mut bad = Bad::default();
        self.verify_contents(&marker.blobs()?, &mut report, &mut bad)?;
        self.verify_asides(&marker.asides()?, &mut report, &mut bad)?;
        self.name_files(&bad, &mut report)?;
        Ok(report)
    }

    /// Checks the log as far as the index goes, and holds the index to what the log folds to, in a file at `path`. Gives the
    /// moment of the index to which that was done.
    fn verify_log(&self, path: &Path, report: &mut VerifyReport) -> Result<Marker> {
        let mut folded = Index::create(path, "verify")?;
        let marker = Marker::open_beside(&self.path.join("index.db"), Some(path))?;
        let until = marker.applied()?;
        let mut batch: Vec<Record> = Vec::new();
        let (mut at, mut whole) = (0, true);
        loop {
            at = self.log.seek(at)?;
            if at >= until {
                break;
            }
            let Some(record) = self.log.at(at, Part::Whole)? else {
                report.damage.push(format!("the log is damaged at position {at}"));
                whole = false;
                match self.log.next_segment(at) {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            };
            if let Err(error) = super::index::check(&record) {
                report.damage.push(format!("the log is damaged at position {at}: {error}"));
                whole = false;
            }
            at = record.end;
            report.records += 1;
            batch.push(record);
            if batch.len() == 4096 && whole {
                folded.apply(&batch, u64::MAX)?;
                batch.clear();
            }
        }
        if whole {
            folded.apply(&batch, u64::MAX)?;
            drop(folded);
            for (table, columns) in COMPARED {
                let (missing, extra) = marker.differences(table, columns)?;
                if missing > 0 || extra > 0 {
                    report.damage.push(format!(
                        "the index does not say what the log says: {missing} rows of `{table}` are missing, {extra} are \
                         wrong; remove index.db, and it is built anew"
                    ));
                }
            }
        }
        Ok(marker)
    }

    fn verify_contents(&self, blobs: &[Kept], report: &mut VerifyReport, bad: &mut Bad) -> Result<()> {
        for blob in blobs {
            let record = self.log.at(blob.lsn.0, Part::NoContents)?;
            let hash = record.as_ref().filter(|record| record.flags & PUNCHED == 0);
            let hash = hash.and_then(|record| record.payload.get(..32)?.try_into().ok()).map(Hash);
            let read = match hash {
                Some(hash) if start_of(&hash) == blob.start => self.blob_within(&hash, super::blob::CHAIN_MAX + 1),
                Some(_) | None => Err(StoreError::Damaged(String::new())),
            };
            match read {
                Ok(bytes) => {
                    report.contents += 1;
                    report.bytes += bytes.len() as u64;
                }
                Err(StoreError::Corrupt(_) | StoreError::Damaged(_)) => {
                    let name = hash.map_or_else(|| "of an unknown hash".to_owned(), |hash| hash.to_string());
                    report.damage.push(format!("content {name} at position {} is damaged", blob.lsn));
                    bad.0.insert(Ref::Blob(blob.start));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn verify_asides(&self, names: &[String], report: &mut VerifyReport, bad: &mut Bad) -> Result<()> {
        let mut buf = vec![0; 1 << 20];
        for name in names {
            let mut read = || -> Result<u64> {
                let mut reader = self.read(&Content::Aside(name.clone()))?;
                let mut all = 0;
                loop {
                    match reader.read(&mut buf) {
                        Ok(0) => return Ok(all),
                        Ok(n) => all += n as u64,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(failed(&self.path.join("aside").join(name), error)),
                    }
                }
            };
            match read() {
                Ok(bytes) => {
                    report.asides += 1;
                    report.bytes += bytes;
                }
                Err(error) => {
                    report.damage.push(format!("aside/{name}: {error}"));
                    bad.0.insert(Ref::Aside(name.clone()));
                }
            }
        }
        Ok(())
    }

    /// The files whose versions cannot be read, and what can be read of them.
    fn name_files(&self, bad: &Bad, report: &mut VerifyReport) -> Result<()> {
        if bad.0.is_empty() {
            return Ok(());
        }
        let mut nodes: BTreeMap<NodeId, BTreeMap<OpId, ()>> = BTreeMap::new();
        for (node, op, found) in self.indexer.ask(super::index::Reader::all_refs)? {
            if bad.0.contains(&found) {
                nodes.entry(node).or_default().insert(op, ());
            }
        }
        let mut good: HashMap<NodeId, Option<OpId>> = HashMap::new();
        for (node, ops) in nodes {
            for op in ops.into_keys() {
                let Some(operation) = self.operation(op)? else { continue };
                let Some(change) = operation.changes.iter().find(|change| change.node == node) else { continue };
                let last_good = match good.get(&node) {
                    Some(found) => *found,
                    None => {
                        let found = self.last_good(node, bad)?;
                        good.insert(node, found);
                        found
                    }
                };
                report.files.push(DamagedVersion { path: change.path.clone(), op, last_good });
            }
        }
        Ok(())
    }

    fn last_good(&self, node: NodeId, bad: &Bad) -> Result<Option<OpId>> {
        let query = super::HistoryQuery { node: Some(node), limit: 1000, ..super::HistoryQuery::default() };
        for operation in self.history(&query)?.operations {
            let last = operation.changes.iter().rev().find(|change| change.node == node);
            if last.is_none_or(|change| change.kind == super::ChangeKind::Remove) {
                continue;
            }
            let content = self.content_of(node, operation.op)?;
            let is_good = match &content {
                Content::Blob(hash) => !bad.0.contains(&Ref::Blob(start_of(hash))) && self.has_blob(hash),
                Content::Aside(name) => !bad.0.contains(&Ref::Aside(name.clone())),
                Content::Live(_) | Content::Target(_) => true,
                Content::None | Content::Lost(_) => false,
            };
            if is_good {
                return Ok(Some(operation.op));
            }
        }
        Ok(None)
    }
}
