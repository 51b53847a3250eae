//! What a TRIM record does to the index, and what the index tells of what was dropped.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Reader, Result, fold::Numbers};
use crate::{
    types::{Hash, Lsn, OpId, Timestamp},
    versions::{
        Rule, Trim,
        blobs::start_of,
        trim::{RULES, TrimRecord},
    },
};

/// Actors so far below the newest may still be in somebody's hand.
pub(in crate::versions) const ACTORS_KEPT: u32 = 16384;

pub(super) fn apply(db: &Connection, record: &TrimRecord, lsn: i64, numbers: &mut Numbers) -> Result<()> {
    numbers.op = numbers.op.max(record.numbers.0);
    numbers.node = numbers.node.max(record.numbers.1);
    let trim = record.trim;
    db.prepare_cached("INSERT OR REPLACE INTO trim VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
        lsn,
        trim.time.secs,
        trim.time.nanos,
        trim.rule.code(),
        record.upto.0.cast_signed(),
        record.horizon.0.cast_signed()
    ])?;
    for (at, start) in &record.blobs {
        let (at, start) = (at.0.cast_signed(), start.cast_signed());
        db.prepare_cached("DELETE FROM blob WHERE lsn = ?1")?.execute(params![at])?;
        if trim.rule != Rule::Unused {
            db.prepare_cached("INSERT OR REPLACE INTO trimmed VALUES(?1, ?2)")?.execute(params![start, lsn])?;
        }
    }
    for name in &record.asides {
        db.prepare_cached("DELETE FROM aside WHERE name = ?1")?.execute(params![name])?;
        db.prepare_cached("INSERT OR REPLACE INTO trimmed_aside VALUES(?1, ?2)")?.execute(params![name, lsn])?;
    }
    for (at, base, size) in &record.deltas {
        let (at, base) = (at.0.cast_signed(), base.cast_signed());
        db.prepare_cached("UPDATE blob SET base = ?2, size = ?3 WHERE lsn = ?1")?.execute(params![at, base, size])?;
    }
    if record.answers.0 > 0 {
        db.execute("DELETE FROM answer WHERE lsn < ?1", params![record.answers.0.cast_signed()])?;
    }
    if record.horizon.0 > 0 {
        forget(db, record.horizon.0.cast_signed())?;
    }
    if record.actors > 0 {
        let sql = "DELETE FROM actor WHERE id < ?1 AND id + ?2 < (SELECT max(id) FROM actor)
                   AND id NOT IN (SELECT actor FROM op) AND id NOT IN (SELECT actor FROM checkpoint)
                   AND id NOT IN (SELECT actor FROM open)";
        db.execute(sql, params![record.actors, ACTORS_KEPT])?;
    }
    Ok(())
}

/// Forgets operations up to a number, and what only they told.
fn forget(db: &Connection, horizon: i64) -> Result<()> {
    db.execute("UPDATE meta SET v = max(v, ?1) WHERE k = 'horizon'", params![horizon])?;
    let mut statement = db.prepare_cached("SELECT DISTINCT node FROM touch WHERE op <= ?1")?;
    let nodes: Vec<i64> = statement.query_map(params![horizon], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for table in ["touch", "settled", "held", "op", "open"] {
        db.execute(&format!("DELETE FROM {table} WHERE op <= ?1"), params![horizon])?;
    }
    for node in nodes {
        let gone = db
            .prepare_cached("DELETE FROM node WHERE node = ?1 AND coalesce(last, 0) <= ?2")?
            .execute(params![node, horizon])?;
        if gone > 0 {
            db.prepare_cached("DELETE FROM key WHERE node = ?1")?.execute(params![node])?;
        }
    }
    // Records of drops that nothing refers to any more.
    let old = "SELECT lsn FROM trim WHERE upto <= ?1";
    db.execute(&format!("DELETE FROM trimmed WHERE lsn IN ({old})"), params![horizon])?;
    db.execute(&format!("DELETE FROM trimmed_aside WHERE lsn IN ({old})"), params![horizon])?;
    db.execute("DELETE FROM trim WHERE upto <= ?1 AND horizon < ?1", params![horizon])?;
    Ok(())
}

impl Reader {
    fn trim(&self, sql: &str, params: impl rusqlite::Params) -> Result<Option<Trim>> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, row.get::<_, u8>(2)?));
        let found = self.connection().prepare_cached(sql)?.query_row(params, row).optional()?;
        found.map(|(secs, nanos, rule)| Ok(Trim { time: Timestamp { secs, nanos }, rule: Rule::of(rule)? })).transpose()
    }

    /// Was anything ever dropped?
    pub fn has_trims(&self) -> Result<bool> {
        Ok(self.connection().prepare_cached("SELECT 1 FROM trim LIMIT 1")?.exists([])?)
    }

    /// When and why a content was dropped.
    pub fn trimmed(&self, hash: &Hash) -> Result<Option<Trim>> {
        let sql = "SELECT secs, nanos, rule FROM trimmed JOIN trim USING(lsn) WHERE start = ?1";
        self.trim(sql, params![start_of(hash).cast_signed()])
    }

    /// When and why a file aside was dropped.
    pub fn trimmed_aside(&self, name: &str) -> Result<Option<Trim>> {
        self.trim("SELECT secs, nanos, rule FROM trimmed_aside JOIN trim USING(lsn) WHERE name = ?1", params![name])
    }

    /// The last operation that was forgotten with its rows, when and why.
    pub fn horizon(&self) -> Result<Option<(OpId, Trim)>> {
        let sql = "SELECT secs, nanos, rule FROM trim WHERE horizon = (SELECT v FROM meta WHERE k = 'horizon')
                   AND horizon > 0 ORDER BY lsn DESC LIMIT 1";
        let Some(trim) = self.trim(sql, [])? else { return Ok(None) };
        let op: i64 = self.connection().query_row("SELECT v FROM meta WHERE k = 'horizon'", [], |row| row.get(0))?;
        Ok(Some((OpId(op.cast_unsigned()), trim)))
    }

    /// Is a record of a drop still needed?
    pub fn knows_trim(&self, lsn: Lsn) -> Result<bool> {
        Ok(self
            .connection()
            .prepare_cached("SELECT 1 FROM trim WHERE lsn = ?1")?
            .exists(params![lsn.0.cast_signed()])?)
    }

    /// How much was dropped, by rule: contents, and the last time.
    pub fn dropped(&self) -> Result<Vec<(Rule, u64, Timestamp)>> {
        let mut all = Vec::new();
        for rule in RULES {
            let sql = "SELECT (SELECT count(*) FROM trimmed JOIN trim USING(lsn) WHERE rule = ?1)
                       + (SELECT count(*) FROM trimmed_aside JOIN trim USING(lsn) WHERE rule = ?1),
                       coalesce((SELECT max(secs) FROM trim WHERE rule = ?1), 0)";
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let (count, secs) = self.connection().prepare_cached(sql)?.query_row(params![rule.code()], row)?;
            if secs > 0 {
                all.push((rule, count.cast_unsigned(), Timestamp { secs, nanos: 0 }));
            }
        }
        Ok(all)
    }
}
