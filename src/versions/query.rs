//! Questions to the history.

use rusqlite::types::Value;

use super::{
    ChangeKind, Operation, Store, StoreError, codec,
    frame::RecordType,
    segment::{Part, Record},
};
use crate::types::{Actor, Channel, Lsn, NodeId, OpId, SourceId, Timestamp, ViewPath};

/// How many moves of a path, or of directories it lies in, are followed backwards.
const MOVES_MAX: usize = 64;
/// Records looked at for one page of what was recorded since.
const RECORDS_MAX: usize = 50_000;
/// Operations in a page, if the query says nothing.
const LIMIT: usize = 100;

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

impl ActorFilter {
    /// Is it one of these?
    #[must_use]
    pub fn matches(&self, actor: &Actor) -> bool {
        self.channel.is_none_or(|channel| channel == actor.channel)
            && self.session.as_ref().is_none_or(|session| actor.session.as_ref() == Some(session))
            && self.pid.is_none_or(|pid| actor.pid == Some(pid))
            && self.command.as_ref().is_none_or(|part| actor.command.as_ref().is_some_and(|line| line.contains(part)))
    }
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

/// Which operations, in the order in which they were recorded last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedQuery {
    /// Only these sources; empty for all.
    pub sources: Vec<SourceId>,
    /// Only this actor.
    pub actor: ActorFilter,
    /// Recorded at or after this position.
    pub from: Lsn,
    /// And before this one.
    pub below: Lsn,
    /// At most so many.
    pub limit: usize,
}

impl RecordedQuery {
    fn wants(&self, operation: &Operation) -> bool {
        let touches = |change: &super::Change| self.sources.is_empty() || self.sources.contains(&change.source);
        operation.changes.iter().any(touches) && self.actor.matches(&operation.actor)
    }
}

/// One page of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedPage {
    /// The operations.
    pub operations: Vec<Operation>,
    /// Where the next page begins.
    pub next: Lsn,
    /// There are more below the query's bound.
    pub more: bool,
}

/// A part of a path's life: a name, and the first and last operation in which it had it.
type Span = (ViewPath, OpId, OpId);

/// A statement in the making.
#[derive(Default)]
struct Clauses {
    clauses: Vec<String>,
    values: Vec<Value>,
}

impl Clauses {
    /// The place of a value in the statement.
    fn value(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("?{}", self.values.len())
    }

    fn number(&mut self, op: OpId) -> String {
        self.value(Value::Integer(op.0.cast_signed()))
    }

    /// Of an operation's few rows, not of a source's many: the plus sign keeps SQLite from walking through those.
    fn touches(&mut self, sources: &str) {
        self.clauses.push(format!("EXISTS (SELECT 1 FROM touch WHERE touch.op = op.op AND +source {sources})"));
    }

    fn paths(&mut self, source: SourceId, spans: &[Span]) {
        let source = self.value(Value::Integer(i64::from(source.0)));
        let mut parts = Vec::new();
        for (path, first, last) in spans {
            if path.is_root() {
                // Everything: walking the operations beats collecting them all.
                self.touches(&format!("= {source}"));
                return;
            }
            let (first, last) = (self.number(*first), self.number(*last));
            let exact = self.value(Value::Blob(path.as_bytes().to_vec()));
            let low = self.value(Value::Blob([path.as_bytes(), b"/"].concat()));
            // `0` is the byte after `/`.
            let high = self.value(Value::Blob([path.as_bytes(), b"0"].concat()));
            for within in [format!("path = {exact}"), format!("path > {low} AND path < {high}")] {
                parts.push(format!(
                    "SELECT op FROM touch WHERE source = {source} AND {within} AND op BETWEEN {first} AND {last}"
                ));
            }
        }
        self.clauses.push(format!("op.op IN ({})", parts.join(" UNION ")));
    }

    fn actor(&mut self, actor: &ActorFilter) {
        if let Some(channel) = actor.channel {
            self.clauses.push(format!("channel = {}", codec::actor_channel_code(channel)));
        }
        if let Some(session) = &actor.session {
            let session = self.value(Value::Text(session.clone()));
            self.clauses.push(format!("session = {session}"));
        }
        if let Some(pid) = actor.pid {
            self.clauses.push(format!("pid = {pid}"));
        }
        if let Some(command) = &actor.command {
            let command = self.value(Value::Text(command.clone()));
            self.clauses.push(format!("instr(command, {command}) > 0"));
        }
    }

    fn bound(&mut self, bound: Option<Bound>, relation: &str) {
        match bound {
            Some(Bound::Op(op)) => {
                let op = self.number(op);
                self.clauses.push(format!("op.op {relation} {op}"));
            }
            Some(Bound::Time(time)) => {
                let time = self.value(Value::Integer(time.as_nanos()));
                self.clauses.push(format!("time {relation} {time}"));
            }
            None => {}
        }
    }
}

impl Store {
    /// Operations, newest first unless the query says otherwise.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        let limit = if query.limit == 0 { LIMIT } else { query.limit };
        let (sql, values) = self.statement(query, limit)?;
        let mut ops = self.index().ask(|index| index.ops(&sql, rusqlite::params_from_iter(&values)))?;
        let more = ops.len() > limit;
        ops.truncate(limit);
        let mut operations = Vec::with_capacity(ops.len());
        for op in ops {
            operations.extend(self.indexed_operation(op)?);
        }
        Ok(HistoryPage { operations, more })
    }

    /// The statement that answers a query, with one operation more than asked for.
    pub(super) fn statement(&self, query: &HistoryQuery, limit: usize) -> Result<(String, Vec<Value>), StoreError> {
        let mut asked = Clauses { clauses: vec!["op.actor = actor.id".into()], values: Vec::new() };
        if let Some((source, path)) = &query.path {
            let spans = self.names_of(*source, path)?;
            asked.paths(*source, &spans);
        }
        if !query.sources.is_empty() {
            let list: Vec<String> = query.sources.iter().map(|source| source.0.to_string()).collect();
            asked.touches(&format!("IN ({})", list.join(",")));
        }
        if let Some(node) = query.node {
            let node = asked.value(Value::Integer(node.0.cast_signed()));
            asked.clauses.push(format!("op.op IN (SELECT op FROM touch WHERE node = {node})"));
        }
        asked.actor(&query.actor);
        asked.bound(query.after, ">");
        asked.bound(query.until, "<=");
        let sql = format!(
            "SELECT op.op FROM op, actor WHERE {} ORDER BY op.op {} LIMIT {}",
            asked.clauses.join(" AND "),
            if query.oldest_first { "ASC" } else { "DESC" },
            limit.saturating_add(1)
        );
        Ok((sql, asked.values))
    }

    /// Operations in the order of their last records: one that was recorded again is told again, and with what it says now.
    /// `None` if no record begins where the query does.
    ///
    /// # Errors
    /// `Index`, `Damaged`.
    pub fn recorded(&self, query: &RecordedQuery) -> Result<Option<RecordedPage>, StoreError> {
        self.index().ask(|_| Ok(()))?;
        let mut page = RecordedPage { operations: Vec::new(), next: query.from, more: false };
        for _ in 0..RECORDS_MAX {
            let at = self.log.seek(page.next.0)?;
            if at >= query.below.0 {
                page.next = query.below.max(query.from);
                return Ok(Some(page));
            }
            let Some(record) = self.log.at(at, Part::NoContents)? else { return Ok(None) };
            if record.kind == RecordType::Op
                && let Some(operation) = self.recorded_last(&record)?.filter(|operation| query.wants(operation))
            {
                if page.operations.len() == query.limit {
                    break;
                }
                page.operations.push(operation);
            }
            page.next = Lsn(record.end);
        }
        page.more = true;
        Ok(Some(page))
    }

    /// The operation of a record, unless a later record says it anew.
    fn recorded_last(&self, record: &Record) -> Result<Option<Operation>, StoreError> {
        let op = codec::operation_of(&record.payload, |_| Ok(Actor::of(Channel::External)))?.op;
        let last = self.index().ask_now(|index| index.lsn(op))?;
        if last == Some(record.lsn) { self.indexed_operation(op) } else { Ok(None) }
    }

    /// The path itself at all times, and the names that what stands there now had before it came there, each for as long as
    /// it had it: a file that is saved by replacement keeps its history, and what is moved brings its own along.
    fn names_of(&self, source: SourceId, path: &ViewPath) -> Result<Vec<Span>, StoreError> {
        let forever = OpId(i64::MAX.cast_unsigned());
        let mut names = vec![(path.clone(), OpId(0), forever)];
        if path.is_root() {
            return Ok(names);
        }
        let (mut path, mut last) = (path.clone(), forever);
        for _ in 0..MOVES_MAX {
            let (moved, birth) = self.index().ask(|index| {
                let mut moved = None;
                let mut at = Some(path.clone());
                while let Some(dir) = at.filter(|dir| !dir.is_root()) {
                    moved = moved.max(index.last_move(source.0, &dir, last)?);
                    at = dir.parent();
                }
                Ok((moved, index.last_birth(source.0, &path, last)?))
            })?;
            // It was made here after anything was moved here: nothing is to be followed further.
            let (Some(moved), true) = (moved, moved >= birth) else {
                if let (Some(birth), Some((_, first, _)), true) = (birth, names.last_mut(), last < forever) {
                    *first = birth;
                }
                break;
            };
            if let (Some((_, first, _)), true) = (names.last_mut(), last < forever) {
                *first = moved;
            }
            let Some(operation) = self.indexed_operation(moved)? else { break };
            let Some(before) = before_moves(&operation, source, &path) else { break };
            (path, last) = (before, OpId(moved.0.saturating_sub(1)));
            names.push((path.clone(), OpId(0), last));
        }
        Ok(names)
    }
}

/// The path that what stands at `path` after an operation had before it; none if the operation made it.
fn before_moves(operation: &Operation, source: SourceId, path: &ViewPath) -> Option<ViewPath> {
    let mut path = path.clone();
    for change in operation.changes.iter().rev().filter(|change| change.source == source) {
        let from = change.from.as_ref();
        match change.kind {
            ChangeKind::Create | ChangeKind::Link if change.path == path => return None,
            ChangeKind::Rename | ChangeKind::Exchange => {
                if let (Some(below), Some(from)) = (path.strip_prefix(&change.path), from) {
                    path = from.join_path(&below);
                } else if let (Some(below), ChangeKind::Exchange) =
                    (from.and_then(|from| path.strip_prefix(from)), change.kind)
                {
                    path = change.path.join_path(&below);
                }
            }
            ChangeKind::Create | ChangeKind::Link | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove => {}
        }
    }
    Some(path)
}
