//! The SQLite index: a fold over the log, thrown away and built anew at will. One connection writes, others read.

mod ask;
mod fold;
mod mark;
mod review;
pub(super) mod trim;

use std::path::{Path, PathBuf};

pub(super) use ask::Reader;
pub(super) use fold::check;
pub(super) use mark::{Kept, Marker, Ref, Turn};
pub(super) use review::Reviewing;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{
    StoreError,
    error::failed,
    log::Log,
    segment::{Part, Record},
};
use crate::crash_point;

type Result<T> = std::result::Result<T, StoreError>;

/// Of what the tables mean: another number, and the index is built anew.
const SCHEMA_VERSION: i64 = 5;
/// A larger index is not checked page by page at each start; damage in it is found when it is met.
const CHECKED_MAX: u64 = 64 << 20;
/// Unused pages beyond so many are given back, so many at a time.
const FREE_PAGES: i64 = if cfg!(test) { 16 } else { 1024 };
/// The write-ahead log is copied back when it is larger.
fn wal_max() -> u64 {
    super::crash::size(4 << 20, 64 << 10)
}

const SCHEMA: &str = "
CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE actor(id INTEGER PRIMARY KEY, channel INT NOT NULL, uid INT, pid INT, command TEXT, session TEXT, view TEXT);
CREATE TABLE op(op INTEGER PRIMARY KEY, lsn INT NOT NULL, time INT NOT NULL, actor INT NOT NULL, intent INT NOT NULL);
CREATE INDEX op_intent ON op(op) WHERE intent = 1;
CREATE INDEX op_withdrawn ON op(op) WHERE intent = 2;
CREATE TABLE touch(op INT NOT NULL, source INT NOT NULL, path BLOB NOT NULL, node INT NOT NULL, kind INT NOT NULL,
                   is_from INT NOT NULL);
CREATE INDEX touch_op ON touch(op);
CREATE INDEX touch_path ON touch(source, path, op, kind);
CREATE INDEX touch_node ON touch(node, op);
CREATE TABLE key(key BLOB PRIMARY KEY, node INT NOT NULL) WITHOUT ROWID;
CREATE INDEX key_node ON key(node);
CREATE TABLE node(node INTEGER PRIMARY KEY, last INT, live BLOB);
CREATE TABLE settled(op INT NOT NULL, node INT NOT NULL, content BLOB NOT NULL, PRIMARY KEY(op, node)) WITHOUT ROWID;
CREATE TABLE blob(lsn INTEGER PRIMARY KEY, start INT NOT NULL, size INT NOT NULL, base INT);
CREATE TABLE held(id INTEGER PRIMARY KEY, op INT NOT NULL, node INT NOT NULL, side INT NOT NULL, start INT, name TEXT);
CREATE INDEX held_op ON held(op);
CREATE INDEX held_node ON held(node, op);
CREATE TABLE trimmed(start INTEGER PRIMARY KEY, lsn INT NOT NULL);
CREATE TABLE trimmed_aside(name TEXT PRIMARY KEY, lsn INT NOT NULL) WITHOUT ROWID;
CREATE TABLE trim(lsn INTEGER PRIMARY KEY, secs INT NOT NULL, nanos INT NOT NULL, rule INT NOT NULL, upto INT NOT NULL,
                  horizon INT NOT NULL);
CREATE TABLE aside(name TEXT PRIMARY KEY, hash BLOB) WITHOUT ROWID;
CREATE TABLE open(op INTEGER PRIMARY KEY, lsn INT NOT NULL, actor INT NOT NULL);
CREATE TABLE begun(op INTEGER PRIMARY KEY, lsn INT NOT NULL);
CREATE TABLE answer(view TEXT NOT NULL, id TEXT NOT NULL, lsn INT NOT NULL, answered INT NOT NULL,
                    PRIMARY KEY(view, id)) WITHOUT ROWID;
CREATE INDEX answer_lsn ON answer(lsn);
CREATE TABLE source(id INTEGER PRIMARY KEY, key BLOB NOT NULL, path BLOB NOT NULL);
CREATE TABLE checkpoint(name TEXT PRIMARY KEY, op INT NOT NULL, lsn INT NOT NULL, actor INT NOT NULL) WITHOUT ROWID;
CREATE TABLE review(lsn INTEGER PRIMARY KEY, view TEXT NOT NULL, step INT NOT NULL, whose INT NOT NULL, session TEXT,
                    every INT NOT NULL, upto INT NOT NULL, position INT NOT NULL, content BLOB);
CREATE TABLE review_node(lsn INT NOT NULL, node INT NOT NULL, held INT, PRIMARY KEY(lsn, node)) WITHOUT ROWID;
INSERT INTO meta VALUES('applied', 0), ('last', 0), ('crc', 0), ('salt', 0), ('durable', 0), ('max_op', 0), ('max_node', 0),
    ('horizon', 0);
";

/// The writing side of an index.
pub(super) struct Index {
    db: Connection,
    path: PathBuf,
    applied: u64,
}

impl Index {
    /// Opens the index of a log, or begins a new one if it is missing, damaged, of another store, or does not fit the log.
    /// True if there was one that could not be used.
    pub fn open(path: &Path, store: &str, log: &Log) -> Result<(Index, bool)> {
        let there = path.exists();
        if there
            && let Ok(Some(index)) = Self::try_open(path, store)
            && index.fits(log)?
        {
            return Ok((index, false));
        }
        Ok((Self::create(path, store)?, there))
    }

    /// Begins a new index.
    pub fn create(path: &Path, store: &str) -> Result<Index> {
        remove(path)?;
        crash_point!("index-emptied");
        let mut db = connect(path)?;
        // Before the first table: what is deleted can be given back to the disk later.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let made = db.transaction()?;
        made.execute_batch(SCHEMA)?;
        made.execute("INSERT INTO meta VALUES('store', ?1), ('schema', ?2)", params![store, SCHEMA_VERSION])?;
        made.commit()?;
        Ok(Index { db, path: path.to_owned(), applied: 0 })
    }

    fn try_open(path: &Path, store: &str) -> Result<Option<Index>> {
        let size = std::fs::metadata(path).map_err(|e| failed(path, e))?.len();
        let db = connect(path)?;
        if size <= CHECKED_MAX {
            let healthy: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if healthy != "ok" {
                return Ok(None);
            }
        }
        let of: Option<String> =
            db.query_row("SELECT v FROM meta WHERE k = 'store'", [], |row| row.get(0)).optional()?;
        let schema: Option<i64> =
            db.query_row("SELECT v FROM meta WHERE k = 'schema'", [], |row| row.get(0)).optional()?;
        if of.as_deref() != Some(store) || schema != Some(SCHEMA_VERSION) {
            return Ok(None);
        }
        let mut index = Index { db, path: path.to_owned(), applied: 0 };
        index.applied = index.number("applied")?.cast_unsigned();
        Ok(Some(index))
    }

    fn number(&self, key: &str) -> Result<i64> {
        Ok(self.db.query_row("SELECT v FROM meta WHERE k = ?1", params![key], |row| row.get(0))?)
    }

    /// Is the last record it has seen in this log, at its place, and all before it that was not on disk then? An index that
    /// knows records which a power cut took from the log does not fit.
    fn fits(&self, log: &Log) -> Result<bool> {
        if self.applied == 0 {
            return Ok(true);
        }
        let mut at = self.number("durable")?.cast_unsigned();
        loop {
            at = log.seek(at)?;
            if at >= self.applied {
                break;
            }
            let Some(record) = log.at(at, Part::Whole)? else { return Ok(false) };
            at = record.end;
        }
        let (last, crc, salt) = (self.number("last")?, self.number("crc")?, self.number("salt")?);
        let record = log.at(last.cast_unsigned(), Part::Whole)?;
        Ok(record.is_some_and(|record| {
            record.end == self.applied && (i64::from(record.mark.0), i64::from(record.mark.1)) == (crc, salt)
        }))
    }

    /// The log position up to which it was applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies records, all or none. `durable`: so much of the log is on disk.
    pub fn apply(&mut self, records: &[Record], durable: u64) -> Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        let transaction = self.db.transaction()?;
        let mut numbers = fold::Numbers::default();
        for record in records {
            fold::apply(&transaction, record, &mut numbers)?;
        }
        crash_point!("index-applying");
        let set =
            |key: &str, value: i64| transaction.execute("UPDATE meta SET v = ?2 WHERE k = ?1", params![key, value]);
        set("applied", last.end.cast_signed())?;
        set("last", last.lsn.0.cast_signed())?;
        set("durable", durable.min(last.end).cast_signed())?;
        set("crc", i64::from(last.mark.0))?;
        set("salt", i64::from(last.mark.1))?;
        let raise = "UPDATE meta SET v = max(v, ?2) WHERE k = ?1";
        transaction.execute(raise, params!["max_op", numbers.op.cast_signed()])?;
        transaction.execute(raise, params!["max_node", numbers.node.cast_signed()])?;
        transaction.commit()?;
        crash_point!("index-applied");
        self.applied = last.end;
        Ok(())
    }

    /// Copies the write-ahead log back if it has grown. Readers are not kept out.
    pub fn checkpoint(&self) -> Result<()> {
        let mut wal = self.path.as_os_str().to_owned();
        wal.push("-wal");
        if std::fs::metadata(wal).is_ok_and(|meta| meta.len() > wal_max()) {
            crash_point!("index-checkpoint");
            self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            let free: i64 = self.db.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
            if free > FREE_PAGES {
                self.db.execute_batch(&format!("PRAGMA incremental_vacuum({FREE_PAGES})"))?;
            }
        }
        Ok(())
    }

    /// A connection that reads.
    pub fn reader(&self) -> Result<Reader> {
        Reader::open(&self.path)
    }
}

/// Removes an index, and what SQLite keeps beside it.
pub(super) fn remove(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path, error)),
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Must the index be built anew after this error?
pub(super) fn is_broken(error: &StoreError) -> bool {
    let StoreError::Index(error) = error else { return false };
    // A row that is not what was written.
    let odd = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::SqlInputError { .. }
    );
    let broken = error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            rusqlite::ErrorCode::DatabaseCorrupt
                | rusqlite::ErrorCode::NotADatabase
                | rusqlite::ErrorCode::SchemaChanged
                | rusqlite::ErrorCode::Unknown
        )
    });
    odd || broken
}
