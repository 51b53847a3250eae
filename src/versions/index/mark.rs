//! A look at the whole index as it is at one moment, for those who decide what is kept.

use std::{collections::HashMap, path::Path};

use rusqlite::{Connection, OpenFlags, Row, Statement, params};

use super::{
    Result,
    fold::{AFTER, BEFORE, OPEN, REVIEW, SETTLED},
};
use crate::types::{Lsn, NodeId, OpId};

/// A content, as an operation refers to it: by the start of its hash in the log, or by its name aside.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::versions) enum Ref {
    Blob(u64),
    Aside(String),
}

/// One operation in the life of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::versions) struct Turn {
    pub op: OpId,
    pub node: NodeId,
    /// Where it was recorded last.
    pub lsn: Lsn,
    /// In nanoseconds.
    pub time: i64,
    pub actor: u32,
    /// The kind of its last change of this node.
    pub kind: u8,
    pub path: Vec<u8>,
    pub before: Vec<Ref>,
    pub after: Vec<Ref>,
}

/// A content in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::versions) struct Kept {
    pub lsn: Lsn,
    pub start: u64,
    /// Of its record.
    pub size: u64,
    /// The content that is needed to read it.
    pub base: Option<u64>,
}

/// The index, frozen.
pub(in crate::versions) struct Marker {
    pub(super) db: Connection,
}

impl Marker {
    pub fn open(path: &Path) -> Result<Marker> {
        Self::open_beside(path, None)
    }

    /// With another index at its side, to be compared.
    pub fn open_beside(path: &Path, other: Option<&Path>) -> Result<Marker> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        if let Some(other) = other {
            db.execute("ATTACH ?1 AS other", params![other.to_string_lossy()])?;
        }
        // What is read from here on is of one moment.
        db.execute_batch("BEGIN")?;
        let marker = Marker { db };
        marker.number("SELECT v FROM meta WHERE k = 'applied'")?;
        Ok(marker)
    }

    fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.db.query_row(sql, [], |row| row.get(0))?)
    }

    /// How many rows of a table the other index has and this one has not, and the reverse.
    pub fn differences(&self, table: &str, columns: &str) -> Result<(i64, i64)> {
        let count = |one: &str, other: &str| {
            let rows = |index: &str| format!("SELECT {columns} FROM {index}.{table}");
            self.number(&format!("SELECT count(*) FROM ({} EXCEPT {})", rows(one), rows(other)))
        };
        Ok((count("other", "main")?, count("main", "other")?))
    }

    /// References recorded after this look have higher numbers.
    pub fn last_ref(&self) -> Result<i64> {
        self.number("SELECT coalesce(max(id), 0) FROM held")
    }

    /// The log position up to which the index was.
    pub fn applied(&self) -> Result<u64> {
        Ok(self.number("SELECT v FROM meta WHERE k = 'applied'")?.cast_unsigned())
    }

    /// The highest numbers given.
    pub fn numbers(&self) -> Result<(u64, u64)> {
        let max = |key: &str| self.number(&format!("SELECT v FROM meta WHERE k = '{key}'")).map(i64::cast_unsigned);
        Ok((max("max_op")?, max("max_node")?))
    }

    /// Every content in the log.
    pub fn blobs(&self) -> Result<Vec<Kept>> {
        let mut statement = self.db.prepare("SELECT lsn, start, size, base FROM blob ORDER BY lsn")?;
        let rows = statement.query_map([], |row| {
            Ok(Kept {
                lsn: Lsn(row.get::<_, i64>(0)?.cast_unsigned()),
                start: row.get::<_, i64>(1)?.cast_unsigned(),
                size: row.get::<_, i64>(2)?.cast_unsigned(),
                base: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Every file aside that a record names.
    pub fn asides(&self) -> Result<Vec<String>> {
        let mut statement = self.db.prepare("SELECT name FROM aside")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// What must stay whatever the rules say: contents of operations that are not finished, of files that
    /// are open, and what is accepted of files under review.
    pub fn roots(&self) -> Result<Vec<Ref>> {
        let sql = format!(
            "SELECT start, name FROM held WHERE side IN ({OPEN}, {REVIEW}) OR op IN (SELECT op FROM op WHERE intent = 1 OR intent = 2)
             UNION ALL SELECT start, name FROM held JOIN open USING(op)"
        );
        let mut statement = self.db.prepare(&sql)?;
        let rows = statement.query_map([], |row| reference(row, 0))?;
        let all: Vec<Option<Ref>> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The operations that checkpoints name.
    pub fn checkpoints(&self) -> Result<Vec<OpId>> {
        let mut statement = self.db.prepare("SELECT DISTINCT op FROM checkpoint ORDER BY op")?;
        let rows = statement.query_map([], |row| Ok(OpId(row.get::<_, i64>(0)?.cast_unsigned())))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Which actors are of one session: one number for each of those. Without a session a process is one.
    pub fn sessions(&self) -> Result<HashMap<u32, usize>> {
        let mut statement = self.db.prepare("SELECT id, channel, pid, command, session, view FROM actor")?;
        type Key = (Option<String>, Option<String>, Option<(i64, Option<u32>, Option<String>)>);
        let rows = statement.query_map([], |row| {
            let session: Option<String> = row.get(4)?;
            let process = if session.is_some() { None } else { Some((row.get(1)?, row.get(2)?, row.get(3)?)) };
            Ok((row.get::<_, u32>(0)?, (session, row.get(5)?, process)))
        })?;
        let mut known: HashMap<Key, usize> = HashMap::new();
        let mut all = HashMap::new();
        for row in rows {
            let (id, key) = row?;
            let next = known.len();
            all.insert(id, *known.entry(key).or_insert(next));
        }
        Ok(all)
    }

    /// Each content that is referred to, with the source and the time (in nanoseconds) of its first operation.
    pub fn first_refs(&self) -> Result<Vec<(Ref, u32, i64)>> {
        let sql = "SELECT start, name, source, time FROM
                   (SELECT start, name, min(op) AS op, node FROM held GROUP BY start, name) AS first
                   JOIN op USING(op) JOIN (SELECT op, node, min(source) AS source FROM touch GROUP BY op, node) USING(op, node)";
        let mut statement = self.db.prepare(sql)?;
        let rows =
            statement.query_map([], |row| Ok((reference(row, 0)?, row.get::<_, u32>(2)?, row.get::<_, i64>(3)?)))?;
        let all: Vec<(Option<Ref>, u32, i64)> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(all.into_iter().filter_map(|(found, source, time)| Some((found?, source, time))).collect())
    }

    /// The sources' numbers and paths.
    pub fn sources(&self) -> Result<Vec<(u32, Vec<u8>)>> {
        let mut statement = self.db.prepare("SELECT id, path FROM source ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Operations with their times, oldest first, from behind `after` on, up to the first that is not finished.
    pub fn finished(&self, after: OpId, limit: u64) -> Result<Vec<(OpId, i64)>> {
        let sql = "SELECT op, time FROM op WHERE op > ?1 AND op < (SELECT coalesce(min(op), 9e18) FROM open)
                   AND op < (SELECT coalesce(min(op), 9e18) FROM op WHERE intent = 1) ORDER BY op LIMIT ?2";
        let mut statement = self.db.prepare(sql)?;
        let rows = statement.query_map(params![after.0.cast_signed(), limit.cast_signed()], |row| {
            Ok((OpId(row.get::<_, i64>(0)?.cast_unsigned()), row.get(1)?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The position behind which no record is older than `time`, in nanoseconds.
    pub fn position_at(&self, time: i64) -> Result<Lsn> {
        let sql = "SELECT coalesce(max(lsn), 0) FROM op WHERE op <= (SELECT op FROM op WHERE time <= ?1 ORDER BY op DESC LIMIT 1)
                   AND time <= ?1";
        Ok(Lsn(self.db.query_row(sql, params![time], |row| row.get::<_, i64>(0))?.cast_unsigned()))
    }

    /// Each node with its operations, oldest first.
    pub fn nodes(&self, each: &mut dyn FnMut(Vec<Turn>)) -> Result<()> {
        let mut turns = self.db.prepare(
            "SELECT touch.node, touch.op, op.time, op.actor, touch.kind, touch.path, op.lsn FROM touch JOIN op USING(op)
             WHERE touch.is_from = 0 ORDER BY touch.node, touch.op",
        )?;
        let mut held = self.db.prepare("SELECT op, side, start, name FROM held WHERE node = ?1 AND side != ?2")?;
        let mut rows = turns.query([])?;
        let mut node = None;
        let mut life: Vec<Turn> = Vec::new();
        while let Some(row) = rows.next()? {
            let of: i64 = row.get(0)?;
            if node != Some(of) {
                if let Some(node) = node {
                    refer(&mut held, node, &mut life)?;
                    each(std::mem::take(&mut life));
                }
                node = Some(of);
            }
            let op = OpId(row.get::<_, i64>(1)?.cast_unsigned());
            if let Some(last) = life.last_mut().filter(|last| last.op == op) {
                (last.kind, last.path) = (row.get(4)?, row.get(5)?);
                continue;
            }
            life.push(Turn {
                op,
                node: NodeId(of.cast_unsigned()),
                lsn: Lsn(row.get::<_, i64>(6)?.cast_unsigned()),
                time: row.get(2)?,
                actor: row.get(3)?,
                kind: row.get(4)?,
                path: row.get(5)?,
                before: Vec::new(),
                after: Vec::new(),
            });
        }
        if let Some(node) = node {
            refer(&mut held, node, &mut life)?;
            each(life);
        }
        Ok(())
    }
}

fn reference(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Ref>> {
    let start: Option<i64> = row.get(at)?;
    let name: Option<String> = row.get(at + 1)?;
    Ok(start.map(|start| Ref::Blob(start.cast_unsigned())).or(name.map(Ref::Aside)))
}

/// Puts a node's references to its operations.
fn refer(held: &mut Statement<'_>, node: i64, life: &mut [Turn]) -> Result<()> {
    let mut rows = held.query(params![node, OPEN])?;
    while let Some(row) = rows.next()? {
        let op = OpId(row.get::<_, i64>(0)?.cast_unsigned());
        let side: i64 = row.get(1)?;
        let (Some(found), Ok(at)) = (reference(row, 2)?, life.binary_search_by_key(&op, |turn| turn.op)) else {
            continue;
        };
        match side {
            BEFORE => life[at].before.push(found),
            AFTER | SETTLED => life[at].after.push(found),
            // Sides are ours: there is no other.
            _ => {}
        }
    }
    Ok(())
}

impl super::Reader {
    /// References that were recorded after a look.
    pub fn refs_after(&self, last: i64) -> Result<Vec<Ref>> {
        let mut statement = self.connection().prepare_cached("SELECT start, name FROM held WHERE id > ?1")?;
        let rows = statement.query_map(params![last], |row| reference(row, 0))?;
        let all: Vec<Option<Ref>> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Every reference to a content: the node, the operation, and what it refers to.
    pub fn all_refs(&self) -> Result<Vec<(NodeId, OpId, Ref)>> {
        let mut statement = self.connection().prepare("SELECT node, op, start, name FROM held ORDER BY node, op")?;
        let rows = statement.query_map([], |row| {
            let node = NodeId(row.get::<_, i64>(0)?.cast_unsigned());
            Ok(reference(row, 2)?.map(|found| (node, OpId(row.get::<_, i64>(1).unwrap_or(0).cast_unsigned()), found)))
        })?;
        let all: Vec<Option<_>> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Where contents are between two positions of the log.
    pub fn blobs_between(&self, from: u64, until: u64) -> Result<Vec<(Lsn, u64)>> {
        let sql = "SELECT lsn, size FROM blob WHERE lsn >= ?1 AND lsn < ?2 ORDER BY lsn";
        let mut statement = self.connection().prepare_cached(sql)?;
        let rows = statement.query_map(params![from.cast_signed(), until.cast_signed()], |row| {
            Ok((Lsn(row.get::<_, i64>(0)?.cast_unsigned()), row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Is an idempotent call answered from the record at a position?
    pub fn is_answer(&self, lsn: Lsn) -> Result<bool> {
        let sql = "SELECT 1 FROM answer WHERE lsn = ?1";
        Ok(self.connection().prepare_cached(sql)?.exists(params![lsn.0.cast_signed()])?)
    }

    /// Is a content at a position of the log one that is kept?
    pub fn is_kept(&self, lsn: Lsn) -> Result<bool> {
        Ok(self
            .connection()
            .prepare_cached("SELECT 1 FROM blob WHERE lsn = ?1")?
            .exists(params![lsn.0.cast_signed()])?)
    }

    /// Did nothing change the content of a node since an operation?
    pub fn is_unchanged_since(&self, op: OpId, node: NodeId) -> Result<bool> {
        let sql = "SELECT 1 FROM touch WHERE node = ?1 AND op > ?2 AND kind IN (0, 1, 3)";
        let changed =
            self.connection().prepare_cached(sql)?.exists(params![node.0.cast_signed(), op.0.cast_signed()])?;
        Ok(!changed)
    }

    /// Is an OPEN record one of a file that is open?
    pub fn is_open(&self, op: OpId, lsn: Lsn) -> Result<bool> {
        let sql = "SELECT 1 FROM open WHERE op = ?1 AND lsn = ?2";
        Ok(self.connection().prepare_cached(sql)?.exists(params![op.0.cast_signed(), lsn.0.cast_signed()])?)
    }

    /// Is a BEGUN record one of an operation that has no end?
    pub fn is_begun(&self, op: OpId, lsn: Lsn) -> Result<bool> {
        let sql = "SELECT 1 FROM begun WHERE op = ?1 AND lsn = ?2";
        Ok(self.connection().prepare_cached(sql)?.exists(params![op.0.cast_signed(), lsn.0.cast_signed()])?)
    }

    /// The number up to which operations are forgotten.
    pub fn forgotten(&self) -> Result<OpId> {
        let op: i64 = self.connection().query_row("SELECT v FROM meta WHERE k = 'horizon'", [], |row| row.get(0))?;
        Ok(OpId(op.cast_unsigned()))
    }

    /// Pages in use, in bytes.
    pub fn size(&self) -> Result<u64> {
        let pragma = |name: &str| -> Result<i64> {
            Ok(self.connection().query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?)
        };
        Ok(((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?).max(0).cast_unsigned())
    }
}
