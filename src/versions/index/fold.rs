//! What each record does to the index.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::Result;
use crate::versions::{Review, blob, frame::PUNCHED, trim::TrimRecord};
use crate::{
    types::{Actor, Channel, Hash, NodeId, OpId, ViewPath},
    versions::{
        Change, ChangeKind, Content, NodeKey, Operation, StoreError, blobs::start_of, codec, frame::RecordType,
        segment::Record,
    },
};

/// Which state of a change refers to a content: columns `side` of `held`.
pub(super) const BEFORE: i64 = 0;
pub(super) const AFTER: i64 = 1;
/// Said later.
pub(super) const SETTLED: i64 = 2;
/// The state before, of a file that is open.
pub(super) const OPEN: i64 = 3;
/// Accepted of a file that is under review.
pub(super) const REVIEW: i64 = 4;

/// The highest numbers seen.
#[derive(Default)]
pub(super) struct Numbers {
    pub op: u64,
    pub node: u64,
}

/// Applies one record.
pub(super) fn apply(db: &Connection, record: &Record, numbers: &mut Numbers) -> Result<()> {
    let lsn = record.lsn.0.cast_signed();
    match record.kind {
        RecordType::Blob => {
            let hash = record.payload.get(..32).and_then(|hash| hash.try_into().ok()).map(Hash);
            let hash = hash.ok_or_else(|| StoreError::Damaged("a content without its hash".into()))?;
            if record.flags & PUNCHED == 0 {
                let size = (record.end - record.lsn.0).cast_signed();
                let base = blob::base_of(record.flags, &record.payload).map(|base| start_of(&base).cast_signed());
                db.prepare_cached("INSERT OR REPLACE INTO blob VALUES(?1, ?2, ?3, ?4)")?.execute(params![
                    lsn,
                    start_of(&hash).cast_signed(),
                    size,
                    base
                ])?;
            }
        }
        RecordType::Op => operation(db, &record.payload, lsn, numbers)?,
        RecordType::Done => {
            let op = codec::number_of(&record.payload)?;
            db.prepare_cached("UPDATE op SET intent = 0 WHERE op = ?1")?.execute(params![signed(op)])?;
        }
        RecordType::Withdrawn => {
            let op = codec::number_of(&record.payload)?;
            db.prepare_cached("UPDATE op SET intent = 2 WHERE op = ?1 AND intent = 1")?.execute(params![signed(op)])?;
        }
        RecordType::Begun => {
            let operation = codec::operation_of(&record.payload, any_actor)?;
            numbers.op = numbers.op.max(operation.op.0);
            numbers.node = operation.changes.iter().map(|change| change.node.0).fold(numbers.node, u64::max);
            db.prepare_cached("INSERT OR REPLACE INTO begun VALUES(?1, ?2)")?
                .execute(params![signed(operation.op), lsn])?;
            for change in &operation.changes {
                if let Some(before) = &change.before {
                    hold(db, operation.op, change.node, OPEN, &before.content)?;
                }
            }
        }
        RecordType::Abort => abort(db, codec::number_of(&record.payload)?)?,
        RecordType::Open => {
            let mut actor = 0;
            let mark = codec::open_mark_of(&record.payload, |number| {
                actor = number;
                any_actor(number)
            })?;
            numbers.op = numbers.op.max(mark.op.0);
            numbers.node = numbers.node.max(mark.node.0);
            let values = params![signed(mark.op), lsn, actor];
            db.prepare_cached("INSERT OR REPLACE INTO open VALUES(?1, ?2, ?3)")?.execute(values)?;
            bind(db, &mark.key, mark.node)?;
            note_aside(db, mark.node, Some(&mark.before.content))?;
            hold(db, mark.op, mark.node, OPEN, &mark.before.content)?;
        }
        RecordType::Close => {
            let op = codec::number_of(&record.payload)?;
            db.prepare_cached("DELETE FROM open WHERE op = ?1")?.execute(params![signed(op)])?;
            db.prepare_cached("DELETE FROM held WHERE op = ?1 AND side = ?2")?.execute(params![signed(op), OPEN])?;
        }
        RecordType::Settle => {
            let (op, node, content) = codec::settled_of(&record.payload)?;
            note_aside(db, node, Some(&content))?;
            db.prepare_cached("INSERT OR REPLACE INTO settled VALUES(?1, ?2, ?3)")?.execute(params![
                signed(op),
                node.0.cast_signed(),
                codec::content(&content)
            ])?;
            let sql = "DELETE FROM held WHERE op = ?1 AND node = ?2 AND side = ?3";
            db.prepare_cached(sql)?.execute(params![signed(op), node.0.cast_signed(), SETTLED])?;
            hold(db, op, node, SETTLED, &content)?;
        }
        RecordType::Answer => {
            let (view, id, replay) = codec::answer_of(&record.payload)?;
            numbers.op = numbers.op.max(replay.op.map_or(0, |op| op.0));
            db.prepare_cached("INSERT OR REPLACE INTO answer VALUES(?1, ?2, ?3, 1)")?
                .execute(params![view, id, lsn])?;
        }
        RecordType::Actor => {
            let (id, actor) = codec::actor_of(&record.payload)?;
            db.prepare_cached("INSERT OR REPLACE INTO actor VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
                id,
                codec::actor_channel_code(actor.channel),
                actor.uid,
                actor.pid,
                actor.command,
                actor.session,
                actor.view
            ])?;
        }
        RecordType::Source => {
            let (id, key, path) = codec::source_of(&record.payload)?;
            db.execute("INSERT OR REPLACE INTO source VALUES(?1, ?2, ?3)", params![id.0, &key.0[..], path])?;
        }
        RecordType::Checkpoint => {
            let mut actor = 0;
            let point = codec::checkpoint_of(&record.payload, |number| {
                actor = number;
                any_actor(number)
            })?;
            let values = params![point.name, signed(point.op), lsn, actor];
            db.execute("INSERT OR REPLACE INTO checkpoint VALUES(?1, ?2, ?3, ?4)", values)?;
        }
        RecordType::Review => super::review::apply(db, &Review::decode(&record.payload)?, lsn)?,
        RecordType::Trim => super::trim::apply(db, &TrimRecord::decode(&record.payload)?, lsn, numbers)?,
        RecordType::Unknown(_) => {}
    }
    Ok(())
}

/// Can this record be read? One that is whole and says nothing we understand ends the log like damage does.
pub(in crate::versions) fn check(record: &Record) -> Result<()> {
    match record.kind {
        RecordType::Blob if record.payload.len() < 40 => Err(StoreError::Damaged("a content without its hash".into())),
        RecordType::Blob | RecordType::Unknown(_) => Ok(()),
        RecordType::Op | RecordType::Begun => codec::operation_of(&record.payload, any_actor).map(drop),
        RecordType::Done | RecordType::Abort | RecordType::Close | RecordType::Withdrawn => {
            codec::number_of(&record.payload).map(drop)
        }
        RecordType::Open => codec::open_mark_of(&record.payload, any_actor).map(drop),
        RecordType::Settle => codec::settled_of(&record.payload).map(drop),
        RecordType::Answer => codec::answer_of(&record.payload).map(drop),
        RecordType::Actor => codec::actor_of(&record.payload).map(drop),
        RecordType::Source => codec::source_of(&record.payload).map(drop),
        RecordType::Checkpoint => codec::checkpoint_of(&record.payload, any_actor).map(drop),
        RecordType::Review => Review::decode(&record.payload).map(drop),
        RecordType::Trim => TrimRecord::decode(&record.payload).map(drop),
    }
}

fn signed(op: OpId) -> i64 {
    op.0.cast_signed()
}

/// The index keeps the number alone.
fn any_actor(_: u32) -> Result<Actor> {
    Ok(Actor::of(Channel::External))
}

fn bind(db: &Connection, key: &NodeKey, node: NodeId) -> Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO key VALUES(?1, ?2)")?
        .execute(params![&key.0[..], node.0.cast_signed()])?;
    Ok(())
}

/// A file that is aside by record is no orphan. If the last that was said of the node's content is its hash, it is the
/// file's.
fn note_aside(db: &Connection, node: NodeId, content: Option<&Content>) -> Result<()> {
    if let Some(Content::Aside(name)) = content {
        let sql = "INSERT INTO aside VALUES(?1, (SELECT live FROM node WHERE node = ?2)) ON CONFLICT DO NOTHING";
        db.prepare_cached(sql)?.execute(params![name, node.0.cast_signed()])?;
    }
    Ok(())
}

fn operation(db: &Connection, payload: &[u8], lsn: i64, numbers: &mut Numbers) -> Result<()> {
    let mut actor = 0;
    let operation = codec::operation_of(payload, |number| {
        actor = number;
        any_actor(number)
    })?;
    let op = signed(operation.op);
    numbers.op = numbers.op.max(operation.op.0);
    // The same number again replaces what it said before.
    let before = nodes_of(db, operation.op)?;
    forget(db, op)?;
    let values = params![op, lsn, operation.time.as_nanos(), actor, operation.intent];
    db.prepare_cached("INSERT OR REPLACE INTO op VALUES(?1, ?2, ?3, ?4, ?5)")?.execute(values)?;
    end_begun(db, operation.op)?;
    for change in &operation.changes {
        numbers.node = numbers.node.max(change.node.0);
        apply_change(db, op, change)?;
    }
    let now: HashSet<i64> = operation.changes.iter().map(|change| change.node.0.cast_signed()).collect();
    before.into_iter().filter(|node| !now.contains(node)).try_for_each(|node| look_back(db, node))?;
    answer(db, &operation, actor, lsn)
}

/// A caller's key is known as soon as its operation is, even if no answer follows.
fn answer(db: &Connection, operation: &Operation, actor: u32, lsn: i64) -> Result<()> {
    if let (Some(id), Some(_)) = (&operation.operation_id, &operation.request) {
        let sql = "INSERT INTO answer VALUES(coalesce((SELECT view FROM actor WHERE id = ?1), ''), ?2, ?3, 0)
                   ON CONFLICT DO UPDATE SET lsn = excluded.lsn WHERE answered = 0";
        db.prepare_cached(sql)?.execute(params![actor, id, lsn])?;
    }
    Ok(())
}

fn forget(db: &Connection, op: i64) -> Result<()> {
    db.prepare_cached("DELETE FROM touch WHERE op = ?1")?.execute(params![op])?;
    db.prepare_cached("DELETE FROM settled WHERE op = ?1")?.execute(params![op])?;
    db.prepare_cached("DELETE FROM held WHERE op = ?1 AND side != ?2")?.execute(params![op, OPEN])?;
    Ok(())
}

/// What was announced is recorded, or came to nothing.
fn end_begun(db: &Connection, op: OpId) -> Result<()> {
    if db.prepare_cached("DELETE FROM begun WHERE op = ?1")?.execute(params![signed(op)])? > 0 {
        db.prepare_cached("DELETE FROM held WHERE op = ?1 AND side = ?2")?.execute(params![signed(op), OPEN])?;
    }
    Ok(())
}

/// A content of a node that an operation refers to: garbage collection begins from these.
pub(super) fn hold(db: &Connection, op: OpId, node: NodeId, side: i64, content: &Content) -> Result<()> {
    let (start, name) = match content {
        Content::Blob(hash) => (Some(start_of(hash).cast_signed()), None),
        Content::Aside(name) => (None, Some(name)),
        Content::None | Content::Target(_) | Content::Live(_) | Content::Lost(_) => return Ok(()),
    };
    let sql = "INSERT INTO held(op, node, side, start, name) VALUES(?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute(params![signed(op), node.0.cast_signed(), side, start, name])?;
    Ok(())
}

fn nodes_of(db: &Connection, op: OpId) -> Result<Vec<i64>> {
    let mut statement = db.prepare_cached("SELECT DISTINCT node FROM touch WHERE op = ?1")?;
    let rows = statement.query_map(params![signed(op)], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The operation never was.
fn abort(db: &Connection, op: OpId) -> Result<()> {
    let nodes = nodes_of(db, op)?;
    let lsn: Option<i64> =
        db.query_row("SELECT lsn FROM op WHERE op = ?1", params![signed(op)], |row| row.get(0)).optional()?;
    end_begun(db, op)?;
    db.execute("DELETE FROM op WHERE op = ?1", params![signed(op)])?;
    // Its key is free again, unless an answer was kept.
    db.execute("DELETE FROM answer WHERE lsn = ?1 AND answered = 0", params![lsn])?;
    forget(db, signed(op))?;
    nodes.into_iter().try_for_each(|node| look_back(db, node))
}

/// What was recorded last of a node, now that something is gone.
fn look_back(db: &Connection, node: i64) -> Result<()> {
    let sql = "UPDATE node SET live = NULL, last = (SELECT touch.op FROM touch JOIN op USING(op)
               WHERE touch.node = ?1 ORDER BY op.lsn DESC LIMIT 1) WHERE node = ?1";
    db.execute(sql, params![node])?;
    Ok(())
}

fn apply_change(db: &Connection, op: i64, change: &Change) -> Result<()> {
    let node = change.node.0.cast_signed();
    let touch = |path: &ViewPath, is_from: bool| -> Result<()> {
        db.prepare_cached("INSERT INTO touch VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
            op,
            change.source.0,
            path.as_bytes(),
            node,
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
    note_aside(db, change.node, change.before.as_ref().map(|state| &state.content))?;
    for (side, state) in [(BEFORE, &change.before), (AFTER, &change.after)] {
        if let Some(state) = state {
            hold(db, OpId(op.cast_unsigned()), change.node, side, &state.content)?;
        }
    }
    let after = if change.kind == ChangeKind::Exchange { &change.before } else { &change.after };
    note_aside(db, change.node, after.as_ref().map(|state| &state.content))?;
    let live = match after.as_ref().map(|state| &state.content) {
        Some(Content::Live(Some(hash))) => Some(hash.0),
        Some(
            Content::Live(None)
            | Content::None
            | Content::Target(_)
            | Content::Blob(_)
            | Content::Aside(_)
            | Content::Lost(_),
        )
        | None => None,
    };
    let sql =
        "INSERT INTO node VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE SET last = excluded.last, live = excluded.live";
    db.prepare_cached(sql)?.execute(params![node, op, live])?;
    Ok(())
}
