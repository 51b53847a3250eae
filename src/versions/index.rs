//! The SQLite index: a fold over the log, thrown away and rebuilt at will. Records wait in memory until the next question
//! or the next turn of the indexer's thread; every question sees all that was appended before it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Change, ChangeKind, Content, NodeKey, Operation, StoreError, codec,
    log::{Record, RecordType},
};
use crate::types::{Hash, Lsn, NodeId, OpId, ViewPath};

type Result<T> = std::result::Result<T, StoreError>;

const SCHEMA: &str = "
CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE op(op INTEGER PRIMARY KEY, lsn INT NOT NULL, time INT NOT NULL, channel INT NOT NULL, session TEXT,
                pid INT, command TEXT, intent INT NOT NULL);
CREATE INDEX op_time ON op(time);
CREATE TABLE touch(op INT NOT NULL, source INT NOT NULL, path BLOB NOT NULL, node INT NOT NULL, kind INT NOT NULL,
                   is_from INT NOT NULL);
CREATE INDEX touch_op ON touch(op);
CREATE INDEX touch_path ON touch(source, path, op);
CREATE INDEX touch_node ON touch(node, op);
CREATE TABLE node(key BLOB PRIMARY KEY, node INT NOT NULL) WITHOUT ROWID;
CREATE TABLE settled(op INT NOT NULL, node INT NOT NULL, content BLOB NOT NULL, PRIMARY KEY(op, node)) WITHOUT ROWID;
CREATE TABLE blob(hash BLOB PRIMARY KEY, lsn INT NOT NULL) WITHOUT ROWID;
CREATE TABLE aside(name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE open(op INTEGER PRIMARY KEY, lsn INT NOT NULL);
CREATE TABLE answer(view TEXT NOT NULL, id TEXT NOT NULL, lsn INT NOT NULL, PRIMARY KEY(view, id)) WITHOUT ROWID;
CREATE TABLE source(id INTEGER PRIMARY KEY, key BLOB NOT NULL);
CREATE TABLE checkpoint(name TEXT PRIMARY KEY, op INT NOT NULL, lsn INT NOT NULL) WITHOUT ROWID;
";

/// Numbers that go on from where the log is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    pub op: u64,
    pub node: u64,
    pub source: u32,
}

/// The index of a store.
pub(super) struct Index {
    db: Connection,
}

impl Index {
    /// Opens the index of a log, or makes a new one: if it is missing, damaged, of another store, or ahead of the log.
    pub fn open(path: &Path, store: &str, log_end: u64) -> Result<Index> {
        match Self::try_open(path, store) {
            Ok(Some(index)) if index.applied()? <= log_end => Ok(index),
            Ok(_) | Err(_) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut file = path.as_os_str().to_owned();
                    file.push(suffix);
                    match std::fs::remove_file(&file) {
                        Ok(()) => {}
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        Err(source) => return Err(StoreError::Io { what: path.display().to_string(), source }),
                    }
                }
                let db = connect(path)?;
                db.execute_batch(SCHEMA)?;
                db.execute("INSERT INTO meta VALUES('store', ?1), ('applied', 0), ('schema', 1)", params![store])?;
                Ok(Index { db })
            }
        }
    }

    fn try_open(path: &Path, store: &str) -> Result<Option<Index>> {
        if !path.exists() {
            return Ok(None);
        }
        let db = connect(path)?;
        let healthy: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let index = Index { db };
        let of = index.meta("store")?.unwrap_or_default();
        let schema: Option<i64> =
            index.db.query_row("SELECT v FROM meta WHERE k = 'schema'", [], |row| row.get(0)).optional()?;
        Ok((healthy == "ok" && of == store && schema == Some(1)).then_some(index))
    }

    fn meta(&self, key: &str) -> Result<Option<String>> {
        Ok(self.db.query_row("SELECT v FROM meta WHERE k = ?1", params![key], |row| row.get(0)).optional()?)
    }

    /// The log position up to which it was applied.
    pub fn applied(&self) -> Result<u64> {
        let applied: i64 = self.db.query_row("SELECT v FROM meta WHERE k = 'applied'", [], |row| row.get(0))?;
        Ok(applied.cast_unsigned())
    }

    /// Applies records, all or none.
    pub fn apply(&mut self, records: &[Record]) -> Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        let transaction = self.db.transaction()?;
        for record in records {
            apply(&transaction, record)?;
        }
        transaction.execute("UPDATE meta SET v = ?1 WHERE k = 'applied'", params![(last.lsn.0 + 1).cast_signed()])?;
        transaction.commit()?;
        Ok(())
    }

    /// The highest numbers given.
    pub fn counters(&self) -> Result<Counters> {
        let max = |sql: &str| -> Result<i64> { Ok(self.db.query_row(sql, [], |row| row.get(0))?) };
        Ok(Counters {
            op: max("SELECT max(coalesce((SELECT max(op) FROM op), 0), coalesce((SELECT max(op) FROM open), 0))")?
                .cast_unsigned(),
            node: max(
                "SELECT max(coalesce((SELECT max(node) FROM node), 0), coalesce((SELECT max(node) FROM touch), 0))",
            )?
            .cast_unsigned(),
            source: u32::try_from(max("SELECT coalesce(max(id), 0) FROM source")?).unwrap_or(0),
        })
    }

    pub fn last_op(&self) -> Result<OpId> {
        let op: i64 = self.db.query_row("SELECT coalesce(max(op), 0) FROM op", [], |row| row.get(0))?;
        Ok(OpId(op.cast_unsigned()))
    }

    pub fn node(&self, key: &NodeKey) -> Result<Option<NodeId>> {
        let sql = "SELECT node FROM node WHERE key = ?1";
        let node: Option<i64> =
            self.db.prepare_cached(sql)?.query_row(params![&key.0[..]], |row| row.get(0)).optional()?;
        Ok(node.map(|node| NodeId(node.cast_unsigned())))
    }

    /// Operations that touch a node, oldest first, from `from` on.
    pub fn touching(&self, node: NodeId, from: OpId, limit: usize) -> Result<Vec<OpId>> {
        let sql = "SELECT DISTINCT op FROM touch WHERE node = ?1 AND op >= ?2 ORDER BY op LIMIT ?3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.ops(sql, params![node.0.cast_signed(), from.0.cast_signed(), limit])
    }

    pub fn last_touching(&self, node: NodeId) -> Result<Option<OpId>> {
        let sql = "SELECT op FROM touch WHERE node = ?1 ORDER BY op DESC LIMIT 1";
        Ok(self.ops(sql, params![node.0.cast_signed()])?.into_iter().next())
    }

    /// The first operation after `op` that touches a path, or moves something at it.
    pub fn first_touching(&self, source: u32, path: &ViewPath, after: OpId) -> Result<Option<OpId>> {
        let sql = "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op > ?3 ORDER BY op LIMIT 1";
        Ok(self.ops(sql, params![source, path.as_bytes(), after.0.cast_signed()])?.into_iter().next())
    }

    /// The first operation after `op` that moves a directory at, to or from a path.
    pub fn first_move(&self, source: u32, path: &ViewPath, after: OpId) -> Result<Option<OpId>> {
        let sql =
            "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op > ?3 AND kind IN (4, 5) ORDER BY op LIMIT 1";
        Ok(self.ops(sql, params![source, path.as_bytes(), after.0.cast_signed()])?.into_iter().next())
    }

    /// The last operation up to `op` by which something came to a path.
    pub fn last_arrival(&self, source: u32, path: &ViewPath, until: OpId) -> Result<Option<OpId>> {
        let sql = "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op <= ?3 AND kind = 4 AND is_from = 0
                   ORDER BY op DESC LIMIT 1";
        Ok(self.ops(sql, params![source, path.as_bytes(), until.0.cast_signed()])?.into_iter().next())
    }

    pub fn ops(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<OpId>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| row.get::<_, i64>(0))?;
        let mut ops = Vec::new();
        for row in rows {
            ops.push(OpId(row?.cast_unsigned()));
        }
        Ok(ops)
    }

    /// Where an operation's last record is.
    pub fn lsn(&self, op: OpId) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM op WHERE op = ?1", params![op.0.cast_signed()])
    }

    fn position(&self, sql: &str, params: impl rusqlite::Params) -> Result<Option<Lsn>> {
        let lsn: Option<i64> = self.db.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
        Ok(lsn.map(|lsn| Lsn(lsn.cast_unsigned())))
    }

    pub fn settled(&self, op: OpId) -> Result<Vec<(NodeId, Content)>> {
        let mut statement = self.db.prepare_cached("SELECT node, content FROM settled WHERE op = ?1")?;
        let rows = statement
            .query_map(params![op.0.cast_signed()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let mut all = Vec::new();
        for row in rows {
            let (node, content) = row?;
            all.push((NodeId(node.cast_unsigned()), codec::content_of(&content)?));
        }
        Ok(all)
    }

    /// Every content in the log, and where.
    pub fn blobs(&self, each: &mut dyn FnMut(Hash, Lsn)) -> Result<()> {
        let mut statement = self.db.prepare("SELECT hash, lsn FROM blob")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (hash, lsn) = row?;
            each(Hash(hash), Lsn(lsn.cast_unsigned()));
        }
        Ok(())
    }

    pub fn knows_aside(&self, name: &str) -> Result<bool> {
        Ok(self.db.prepare_cached("SELECT 1 FROM aside WHERE name = ?1")?.exists(params![name])?)
    }

    /// Positions of files marked open, and operations whose intent was not finished.
    pub fn unfinished(&self) -> Result<(Vec<Lsn>, Vec<OpId>)> {
        let open = self.ops("SELECT lsn FROM open ORDER BY op", [])?.into_iter().map(|lsn| Lsn(lsn.0)).collect();
        Ok((open, self.ops("SELECT op FROM op WHERE intent = 1 ORDER BY op", [])?))
    }

    pub fn answer(&self, view: &str, id: &str) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM answer WHERE view = ?1 AND id = ?2", params![view, id])
    }

    pub fn source(&self, key: &NodeKey) -> Result<Option<u32>> {
        let sql = "SELECT id FROM source WHERE key = ?1";
        Ok(self.db.query_row(sql, params![&key.0[..]], |row| row.get(0)).optional()?)
    }

    pub fn checkpoint(&self, name: &str) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM checkpoint WHERE name = ?1", params![name])
    }

    pub fn checkpoints(&self) -> Result<Vec<Lsn>> {
        Ok(self
            .ops("SELECT lsn FROM checkpoint ORDER BY op DESC, lsn DESC", [])?
            .into_iter()
            .map(|lsn| Lsn(lsn.0))
            .collect())
    }

    pub fn op_at_time(&self, time: i64) -> Result<OpId> {
        let op: i64 =
            self.db
                .query_row("SELECT coalesce(max(op), 0) FROM op WHERE time <= ?1", params![time], |row| row.get(0))?;
        Ok(OpId(op.cast_unsigned()))
    }

    /// Operations and changes.
    pub fn counts(&self) -> Result<(u64, u64)> {
        let count = |sql: &str| -> Result<i64> { Ok(self.db.query_row(sql, [], |row| row.get(0))?) };
        let ops = count("SELECT count(*) FROM op")?.cast_unsigned();
        Ok((ops, count("SELECT count(*) FROM touch WHERE is_from = 0")?.cast_unsigned()))
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

fn apply(db: &Connection, record: &Record) -> Result<()> {
    let lsn = record.lsn.0.cast_signed();
    let op_param = |op: OpId| op.0.cast_signed();
    match record.kind {
        RecordType::Blob => {
            let hash = record.payload.get(..32).unwrap_or_default();
            db.prepare_cached("INSERT OR IGNORE INTO blob VALUES(?1, ?2)")?.execute(params![hash, lsn])?;
        }
        RecordType::Op => apply_operation(db, &codec::operation_of(&record.payload)?, lsn)?,
        RecordType::Done => {
            let op = codec::number_of(&record.payload)?;
            db.prepare_cached("UPDATE op SET intent = 0 WHERE op = ?1")?.execute(params![op_param(op)])?;
        }
        RecordType::Abort => {
            let op = codec::number_of(&record.payload)?;
            db.execute("DELETE FROM op WHERE op = ?1", params![op_param(op)])?;
            db.execute("DELETE FROM touch WHERE op = ?1", params![op_param(op)])?;
        }
        RecordType::Open => {
            let mark = codec::open_mark_of(&record.payload)?;
            db.prepare_cached("INSERT OR REPLACE INTO open VALUES(?1, ?2)")?
                .execute(params![op_param(mark.op), lsn])?;
            bind(db, &mark.key, mark.node)?;
        }
        RecordType::Close => {
            let op = codec::number_of(&record.payload)?;
            db.prepare_cached("DELETE FROM open WHERE op = ?1")?.execute(params![op_param(op)])?;
        }
        RecordType::Settle => {
            let (op, node, content) = codec::settled_of(&record.payload)?;
            note_aside(db, Some(&content))?;
            db.prepare_cached("INSERT OR REPLACE INTO settled VALUES(?1, ?2, ?3)")?.execute(params![
                op_param(op),
                node.0.cast_signed(),
                codec::content(&content)
            ])?;
        }
        RecordType::Answer => {
            let (view, id, _) = codec::answer_of(&record.payload)?;
            db.prepare_cached("INSERT OR REPLACE INTO answer VALUES(?1, ?2, ?3)")?.execute(params![view, id, lsn])?;
        }
        RecordType::Source => {
            let (id, key, _) = codec::source_of(&record.payload)?;
            db.execute("INSERT OR REPLACE INTO source VALUES(?1, ?2)", params![id.0, &key.0[..]])?;
        }
        RecordType::Checkpoint => {
            let point = codec::checkpoint_of(&record.payload)?;
            let values = params![point.name, op_param(point.op), lsn];
            db.execute("INSERT OR REPLACE INTO checkpoint VALUES(?1, ?2, ?3)", values)?;
        }
        RecordType::Unknown(_) => {}
    }
    Ok(())
}

fn bind(db: &Connection, key: &NodeKey, node: NodeId) -> Result<()> {
    let values = params![&key.0[..], node.0.cast_signed()];
    db.prepare_cached("INSERT OR REPLACE INTO node VALUES(?1, ?2)")?.execute(values)?;
    Ok(())
}

fn note_aside(db: &Connection, content: Option<&Content>) -> Result<()> {
    if let Some(Content::Aside(name)) = content {
        db.prepare_cached("INSERT OR IGNORE INTO aside VALUES(?1)")?.execute(params![name])?;
    }
    Ok(())
}

fn apply_operation(db: &Connection, operation: &Operation, lsn: i64) -> Result<()> {
    let op = operation.op.0.cast_signed();
    // The same number again replaces what it said before.
    let again: bool = db.prepare_cached("SELECT 1 FROM op WHERE op = ?1")?.exists(params![op])?;
    if again {
        db.prepare_cached("DELETE FROM touch WHERE op = ?1")?.execute(params![op])?;
        db.prepare_cached("DELETE FROM settled WHERE op = ?1")?.execute(params![op])?;
    }
    db.prepare_cached("INSERT OR REPLACE INTO op VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(params![
        op,
        lsn,
        operation.time.as_nanos(),
        codec::actor_channel_code(operation.actor.channel),
        operation.actor.session,
        operation.actor.pid,
        operation.actor.command,
        operation.intent
    ])?;
    for change in &operation.changes {
        apply_change(db, op, change)?;
    }
    Ok(())
}

fn apply_change(db: &Connection, op: i64, change: &Change) -> Result<()> {
    let touch = |path: &ViewPath, is_from: bool| -> Result<()> {
        db.prepare_cached("INSERT INTO touch VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
            op,
            change.source.0,
            path.as_bytes(),
            change.node.0.cast_signed(),
            codec::change_kind_code(change.kind),
            is_from
        ])?;
        Ok(())
    };
    touch(&change.path, false)?;
    if let Some(from) = &change.from
        && change.kind != ChangeKind::Link
    {
        touch(from, true)?;
    }
    if let Some(key) = &change.key {
        bind(db, key, change.node)?;
    }
    note_aside(db, change.before.as_ref().map(|state| &state.content))?;
    note_aside(db, change.after.as_ref().map(|state| &state.content))
}
