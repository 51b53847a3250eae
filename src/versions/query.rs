//! Questions to the history.

use rusqlite::types::Value;

use super::{Operation, Store, StoreError, codec};
use crate::types::{Channel, NodeId, OpId, SourceId, Timestamp, ViewPath};

/// How many moves of a path, or of directories it lies in, are followed backwards.
const MOVES_MAX: usize = 64;

/// A moment, by number or by clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// An operation.
    Op(OpId),
    /// A time.
    Time(Timestamp),
}

/// Which actors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActorFilter {
    /// Only this way in.
    pub channel: Option<Channel>,
    /// Only this session.
    pub session: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only commands that contain this.
    pub command: Option<String>,
}

/// Which operations. Empty: all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryQuery {
    /// Only these sources; empty for all.
    pub sources: Vec<SourceId>,
    /// Only operations that touch this path, or anything below it; renames are followed backwards.
    pub path: Option<(SourceId, ViewPath)>,
    /// Only operations that touch this inode.
    pub node: Option<NodeId>,
    /// Only this actor.
    pub actor: ActorFilter,
    /// After this moment (exclusive).
    pub after: Option<Bound>,
    /// Up to this moment (inclusive).
    pub until: Option<Bound>,
    /// Oldest first.
    pub oldest_first: bool,
    /// At most so many; 0 is 100.
    pub limit: usize,
}

/// One page of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryPage {
    /// The operations.
    pub operations: Vec<Operation>,
    /// There are more beyond the limit.
    pub more: bool,
}

impl Store {
    /// Operations, newest first unless the query says otherwise.
    ///
    /// # Errors
    /// `Index`.
    pub fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        let limit = if query.limit == 0 { 100 } else { query.limit };
        let mut clauses = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let add = |values: &mut Vec<Value>, value: Value| {
            values.push(value);
            format!("?{}", values.len())
        };
        let number = |op: OpId| Value::Integer(op.0.cast_signed());
        if let Some((source, path)) = &query.path {
            let mut spans = Vec::new();
            for (path, first, last) in self.names_of(*source, path)? {
                let source = add(&mut values, Value::Integer(i64::from(source.0)));
                let (first, last) = (add(&mut values, number(first)), add(&mut values, number(last)));
                let within = if path.is_root() {
                    "1".to_owned()
                } else {
                    let exact = add(&mut values, Value::Blob(path.as_bytes().to_vec()));
                    let low = add(&mut values, Value::Blob([path.as_bytes(), b"/"].concat()));
                    // `0` is the byte after `/`.
                    let high = add(&mut values, Value::Blob([path.as_bytes(), b"0"].concat()));
                    format!("(path = {exact} OR (path > {low} AND path < {high}))")
                };
                spans.push(format!("(source = {source} AND op BETWEEN {first} AND {last} AND {within})"));
            }
            clauses.push(format!("op IN (SELECT op FROM touch WHERE {})", spans.join(" OR ")));
        } else if !query.sources.is_empty() {
            let list: Vec<String> = query.sources.iter().map(|source| source.0.to_string()).collect();
            clauses.push(format!(
                "EXISTS (SELECT 1 FROM touch WHERE touch.op = op.op AND source IN ({}))",
                list.join(",")
            ));
        }
        if let Some(node) = query.node {
            let node = add(&mut values, Value::Integer(node.0.cast_signed()));
            clauses.push(format!("op IN (SELECT op FROM touch WHERE node = {node})"));
        }
        let actor = &query.actor;
        if let Some(channel) = actor.channel {
            clauses.push(format!("channel = {}", codec::actor_channel_code(channel)));
        }
        if let Some(session) = &actor.session {
            let session = add(&mut values, Value::Text(session.clone()));
            clauses.push(format!("session = {session}"));
        }
        if let Some(pid) = actor.pid {
            clauses.push(format!("pid = {pid}"));
        }
        if let Some(command) = &actor.command {
            let command = add(&mut values, Value::Text(command.clone()));
            clauses.push(format!("instr(command, {command}) > 0"));
        }
        for (bound, by_op, by_time) in [(query.after, "op >", "time >"), (query.until, "op <=", "time <=")] {
            match bound {
                Some(Bound::Op(op)) => clauses.push(format!("{by_op} {}", add(&mut values, number(op)))),
                Some(Bound::Time(time)) => {
                    clauses.push(format!("{by_time} {}", add(&mut values, Value::Integer(time.as_nanos()))));
                }
                None => {}
            }
        }
        let order = if query.oldest_first { "ASC" } else { "DESC" };
        let sql = format!("SELECT op FROM op WHERE {} ORDER BY op {order} LIMIT {}", clauses.join(" AND "), limit + 1);
        let mut ops = self.index()?.ops(&sql, rusqlite::params_from_iter(values))?;
        let more = ops.len() > limit;
        ops.truncate(limit);
        let mut operations = Vec::with_capacity(ops.len());
        for op in ops {
            operations.extend(self.operation(op)?);
        }
        Ok(HistoryPage { operations, more })
    }

    /// The names that what stands at a path now had before, each with the operations in which it had them.
    fn names_of(&self, source: SourceId, path: &ViewPath) -> Result<Vec<(ViewPath, OpId, OpId)>, StoreError> {
        let mut names = Vec::new();
        let (mut path, mut last) = (path.clone(), OpId(i64::MAX.cast_unsigned()));
        for _ in 0..MOVES_MAX {
            let mut arrival: Option<OpId> = None;
            let mut at = Some(path.clone());
            while let Some(dir) = at.filter(|dir| !dir.is_root()) {
                arrival = arrival.max(self.index()?.last_arrival(source.0, &dir, last)?);
                at = dir.parent();
            }
            let Some(moved) = arrival else { break };
            names.push((path.clone(), moved, last));
            let Some(operation) = self.operation(moved)? else { break };
            let before = operation.changes.iter().rev().find_map(|change| {
                let rest = path.strip_prefix(&change.path)?;
                (change.kind == super::ChangeKind::Rename)
                    .then(|| change.from.as_ref().map(|from| from.join_path(&rest)))?
            });
            let Some(before) = before else { return Ok(names) };
            (path, last) = (before, OpId(moved.0.saturating_sub(1)));
        }
        names.push((path, OpId(0), last));
        Ok(names)
    }
}
