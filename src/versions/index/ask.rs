//! Questions to the index.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::Result;
use crate::{
    types::{Actor, Hash, Lsn, NodeId, OpId, ViewPath},
    versions::{Content, NodeKey, codec},
};

/// A name that an inode, or a directory above it, came to: kinds of `touch` rows.
const MOVES: &str = "4, 5";
/// What ends or moves everything below a directory: its creation, a rename, an exchange.
const TURNS: &str = "0, 4, 5";

/// Positions of what was begun and has no end in the log, in the order of operations.
#[derive(Default)]
pub(in crate::versions) struct Unfinished {
    /// Files marked open.
    pub open: Vec<Lsn>,
    /// Operations recorded before they were applied.
    pub intents: Vec<Lsn>,
    /// Such operations that were being taken back.
    pub withdrawn: Vec<Lsn>,
    /// Operations announced and not recorded.
    pub begun: Vec<Lsn>,
}

/// The reading side of an index.
pub(in crate::versions) struct Reader {
    db: Connection,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.set_prepared_statement_cache_capacity(64);
        Ok(Reader { db })
    }

    /// Its connection, for questions of other parts of the index.
    pub(super) fn connection(&self) -> &Connection {
        &self.db
    }

    /// Operations that a query names in its first column.
    pub fn ops(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<OpId>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| row.get::<_, i64>(0))?;
        let mut ops = Vec::new();
        for row in rows {
            ops.push(OpId(row?.cast_unsigned()));
        }
        Ok(ops)
    }

    fn op(&self, sql: &str, params: impl rusqlite::Params) -> Result<Option<OpId>> {
        Ok(self.ops(sql, params)?.into_iter().next())
    }

    fn number(&self, sql: &str, params: impl rusqlite::Params) -> Result<Option<u64>> {
        let number: Option<i64> = self.db.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
        Ok(number.map(i64::cast_unsigned))
    }

    fn position(&self, sql: &str, params: impl rusqlite::Params) -> Result<Option<Lsn>> {
        Ok(self.number(sql, params)?.map(Lsn))
    }

    /// The highest operation and node numbers that were ever recorded.
    pub fn numbers(&self) -> Result<(u64, u64)> {
        let max = |key: &str| self.number("SELECT v FROM meta WHERE k = ?1", params![key]);
        Ok((max("max_op")?.unwrap_or(0), max("max_node")?.unwrap_or(0)))
    }

    /// The highest operation there is.
    pub fn last_op(&self) -> Result<OpId> {
        Ok(self.op("SELECT coalesce(max(op), 0) FROM op", [])?.unwrap_or(OpId(0)))
    }

    /// The node of an inode.
    pub fn node(&self, key: &NodeKey) -> Result<Option<NodeId>> {
        Ok(self.number("SELECT node FROM key WHERE key = ?1", params![&key.0[..]])?.map(NodeId))
    }

    /// The operation that was recorded last of those that touch a node.
    pub fn last_touching(&self, node: NodeId) -> Result<Option<OpId>> {
        let sql = "SELECT last FROM node WHERE node = ?1 AND last IS NOT NULL";
        self.op(sql, params![node.0.cast_signed()])
    }

    /// The nodes that an operation touches.
    pub fn nodes_of(&self, op: OpId) -> Result<Vec<NodeId>> {
        let nodes = self.ops("SELECT DISTINCT node FROM touch WHERE op = ?1", params![op.0.cast_signed()])?;
        Ok(nodes.into_iter().map(|node| NodeId(node.0)).collect())
    }

    /// Operations that touch a node, oldest first, from `from` on.
    pub fn touching(&self, node: NodeId, from: OpId, limit: u32) -> Result<Vec<OpId>> {
        let sql = "SELECT DISTINCT op FROM touch WHERE node = ?1 AND op >= ?2 ORDER BY op LIMIT ?3";
        self.ops(sql, params![node.0.cast_signed(), from.0.cast_signed(), limit])
    }

    /// The first operation after `op` that touches a path.
    pub fn first_touching(&self, source: u32, path: &ViewPath, after: OpId) -> Result<Option<OpId>> {
        let sql = "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op > ?3 ORDER BY op LIMIT 1";
        self.op(sql, params![source, path.as_bytes(), after.0.cast_signed()])
    }

    /// The first operation after `op` by which a directory at a path came, went elsewhere, or was made.
    pub fn first_turn(&self, source: u32, dir: &ViewPath, after: OpId) -> Result<Option<OpId>> {
        let sql = format!(
            "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op > ?3 AND kind IN ({TURNS}) ORDER BY op LIMIT 1"
        );
        self.op(&sql, params![source, dir.as_bytes(), after.0.cast_signed()])
    }

    /// The last operation up to `until` by which something came to a path by a move.
    pub fn last_move(&self, source: u32, path: &ViewPath, until: OpId) -> Result<Option<OpId>> {
        let sql = format!(
            "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op <= ?3 AND kind IN ({MOVES})
             AND (is_from = 0 OR kind = 5) ORDER BY op DESC LIMIT 1"
        );
        self.op(&sql, params![source, path.as_bytes(), until.0.cast_signed()])
    }

    /// The last operation up to `until` by which a path was made: as a new inode, or as one more name.
    pub fn last_birth(&self, source: u32, path: &ViewPath, until: OpId) -> Result<Option<OpId>> {
        let sql = "SELECT op FROM touch WHERE source = ?1 AND path = ?2 AND op <= ?3 AND kind IN (0, 6)
                   ORDER BY op DESC LIMIT 1";
        self.op(sql, params![source, path.as_bytes(), until.0.cast_signed()])
    }

    /// Where an operation's last record is.
    pub fn lsn(&self, op: OpId) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM op WHERE op = ?1", params![op.0.cast_signed()])
    }

    /// Where the live contents of an operation went.
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

    /// Every content in the log: the start of its hash, and where it is.
    pub fn blobs(&self, each: &mut dyn FnMut(u64, Lsn) -> Result<()>) -> Result<()> {
        let mut statement = self.db.prepare("SELECT start, lsn FROM blob ORDER BY lsn")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (start, lsn) = row?;
            each(start.cast_unsigned(), Lsn(lsn.cast_unsigned()))?;
        }
        Ok(())
    }

    /// Does a record explain this file in `aside/`?
    pub fn knows_aside(&self, name: &str) -> Result<bool> {
        Ok(self.db.prepare_cached("SELECT 1 FROM aside WHERE name = ?1")?.exists(params![name])?)
    }

    /// The hash of a file in `aside/`, where one is known.
    pub fn aside_hash(&self, name: &str) -> Result<Option<Hash>> {
        let sql = "SELECT hash FROM aside WHERE name = ?1 AND hash IS NOT NULL";
        let hash = self.db.prepare_cached(sql)?.query_row(params![name], |row| row.get(0)).optional()?;
        Ok(hash.map(Hash))
    }

    /// Does a drop explain it? Then only its removal was cut off.
    pub fn is_trimmed_aside(&self, name: &str) -> Result<bool> {
        Ok(self.db.prepare_cached("SELECT 1 FROM trimmed_aside WHERE name = ?1")?.exists(params![name])?)
    }

    /// What a start has to look at.
    pub fn unfinished(&self) -> Result<Unfinished> {
        let positions =
            |sql: &str| -> Result<Vec<Lsn>> { Ok(self.ops(sql, [])?.into_iter().map(|lsn| Lsn(lsn.0)).collect()) };
        Ok(Unfinished {
            open: positions("SELECT lsn FROM open ORDER BY op")?,
            intents: positions("SELECT lsn FROM op WHERE intent = 1 ORDER BY op")?,
            withdrawn: positions("SELECT lsn FROM op WHERE intent = 2 ORDER BY op")?,
            begun: positions("SELECT lsn FROM begun WHERE op > (SELECT v FROM meta WHERE k = 'horizon') ORDER BY op")?,
        })
    }

    /// Where an idempotent call's outcome is: its answer, or its operation.
    pub fn answer(&self, view: &str, id: &str) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM answer WHERE view = ?1 AND id = ?2", params![view, id])
    }

    /// An actor by number.
    pub fn actor(&self, number: u32) -> Result<Option<Actor>> {
        let sql = "SELECT id, channel, uid, pid, command, session, view FROM actor WHERE id = ?1";
        Ok(self.actors_of(sql, params![number])?.pop().map(|(_, actor)| actor))
    }

    /// The newest actors, and the highest number.
    pub fn actors(&self, limit: u32) -> Result<(Vec<(u32, Actor)>, u32)> {
        let sql = "SELECT id, channel, uid, pid, command, session, view FROM actor ORDER BY id DESC LIMIT ?1";
        let actors = self.actors_of(sql, params![limit])?;
        let last = actors.first().map_or(0, |(number, _)| *number);
        Ok((actors, last))
    }

    fn actors_of(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<(u32, Actor)>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut actors = Vec::new();
        while let Some(row) = rows.next()? {
            let actor = Actor {
                channel: codec::actor_channel_of(row.get(1)?)?,
                uid: row.get(2)?,
                pid: row.get(3)?,
                command: row.get(4)?,
                session: row.get(5)?,
                view: row.get(6)?,
            };
            actors.push((row.get(0)?, actor));
        }
        Ok(actors)
    }

    /// Every source, by its root's identity.
    pub fn sources(&self) -> Result<Vec<(u32, NodeKey)>> {
        let mut statement = self.db.prepare("SELECT id, key FROM source ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, NodeKey(row.get::<_, Vec<u8>>(1)?.into()))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Where a checkpoint is.
    pub fn checkpoint(&self, name: &str) -> Result<Option<Lsn>> {
        self.position("SELECT lsn FROM checkpoint WHERE name = ?1", params![name])
    }

    /// Where all checkpoints are, newest first.
    pub fn checkpoints(&self) -> Result<Vec<Lsn>> {
        let lsns = self.ops("SELECT lsn FROM checkpoint ORDER BY op DESC, lsn DESC", [])?;
        Ok(lsns.into_iter().map(|lsn| Lsn(lsn.0)).collect())
    }

    /// The last operation at or before a time.
    pub fn op_at_time(&self, time: i64) -> Result<OpId> {
        // From the newest back: times follow numbers, but not strictly (an open file's operation is recorded late).
        let sql = "SELECT op FROM op WHERE time <= ?1 ORDER BY op DESC LIMIT 1";
        Ok(self.op(sql, params![time])?.unwrap_or(OpId(0)))
    }

    /// Operations and changes.
    pub fn counts(&self) -> Result<(u64, u64)> {
        let count = |sql: &str| self.number(sql, []);
        let ops = count("SELECT count(*) FROM op")?.unwrap_or(0);
        Ok((ops, count("SELECT count(*) FROM touch WHERE is_from = 0")?.unwrap_or(0)))
    }
}
