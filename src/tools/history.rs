//! `history`: recorded operations, newest first.

use std::fmt::Write;

use control_api::{
    ToolError,
    tools::{ActorInfo, Bound as Cut, Bounds, ChangeInfo, HistoryArgs, HistoryResult, OperationInfo, StateInfo},
};

use super::{Answer, cursor, errors, given, given::wide, mutation, native::Call, render};
use crate::{
    types::{Actor, OpId},
    versions::{Bound, Loss, OpKind, State},
    view::{ViewChange, ViewOperation, ViewQuery},
};

/// Operations in one answer.
pub(super) const LIMIT_MAX: u64 = 1_000;
const LIMIT: u64 = 50;
/// Changes told of one operation among others, and of one alone.
const CHANGES_MAX: usize = 100;
const CHANGES_OF_ONE_MAX: usize = 1_000;
/// And of all in one answer together, but one of each.
const CHANGES_IN_ALL: usize = 10_000;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &HistoryArgs) -> Result<Answer, ToolError> {
    let limit = given::bounded("limit", args.limit.unwrap_or(LIMIT), 1, LIMIT_MAX)?;
    if let Some(op) = args.operation {
        let operation = call.view.operation(OpId(op)).map_err(errors::of)?;
        let bounds = Bounds { total: Some(1), ..Bounds::default() };
        let result = HistoryResult { operations: vec![told(&operation, CHANGES_OF_ONE_MAX)], bounds };
        return Ok(Answer::new(rendered(&result), &result));
    }
    call.view.core().catch_up();
    let query_hash = given::query_of("history", args);
    let (before, from) = match given::position(&query_hash, args.cursor.as_deref())? {
        None => (0, None),
        Some(place) => {
            let (before, op) = place.split_first_chunk().ok_or_else(|| errors::invalid("that cursor is damaged"))?;
            let op = op.try_into().map_err(|_| errors::invalid("that cursor is damaged"))?;
            (u64::from_be_bytes(*before), Some(Bound::Op(OpId(u64::from_be_bytes(op)))))
        }
    };
    let until = args.until.as_ref().map(|at| given::bound(call.view, at)).transpose()?;
    let query = ViewQuery {
        path: args.path.as_ref().map(|path| given::path(call.view, path)).transpose()?,
        actor: given::actor(args.actor.as_ref())?,
        since: args.since.as_ref().map(|at| given::bound(call.view, at)).transpose()?,
        until: from.or(until),
        oldest_first: false,
        limit,
    };
    let page = call.view.history(&query).map_err(errors::of)?;
    let so_far = before + wide(page.operations.len());
    let mut bounds = Bounds::default();
    match page.operations.last().filter(|_| page.more) {
        Some(last) => {
            let next = last.op.0.saturating_sub(1).to_be_bytes();
            bounds.truncated = true;
            bounds.truncated_by = vec![Cut::Limit];
            bounds.total_at_least = Some(so_far + 1);
            bounds.next = Some(cursor::encode(&query_hash, &[so_far.to_be_bytes(), next].concat()));
        }
        None => bounds.total = Some(so_far),
    }
    let result = HistoryResult { operations: briefly(&page.operations), bounds };
    Ok(Answer::new(rendered(&result), &result))
}

/// An operation as results carry it, with at most `most` of its changes.
pub(super) fn told(operation: &ViewOperation, most: usize) -> OperationInfo {
    OperationInfo {
        operation: operation.op.0,
        time: operation.time.rfc3339(),
        kind: kind_word(operation.kind).into(),
        actor: actor(&operation.actor),
        operation_id: operation.operation_id.clone(),
        note: operation.note.clone(),
        undoes: operation.undoes.first().map(|op| op.0),
        undoes_also: operation.undoes.iter().skip(1).map(|op| op.0).collect(),
        changes: operation.changes.iter().take(most).map(change).collect(),
        changes_total: wide(operation.changes.len()),
    }
}

/// Operations among others.
pub(super) fn briefly(operations: &[ViewOperation]) -> Vec<OperationInfo> {
    let mut left = CHANGES_IN_ALL;
    let one = |operation: &ViewOperation| {
        let most = CHANGES_MAX.min(left).max(1);
        left -= most.min(operation.changes.len()).min(left);
        told(operation, most)
    };
    operations.iter().map(one).collect()
}

fn kind_word(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Write => "write",
        OpKind::Create => "create",
        OpKind::Remove => "remove",
        OpKind::Rename => "rename",
        OpKind::Link => "link",
        OpKind::Meta => "meta",
        OpKind::Edit => "edit",
        OpKind::Revert => "revert",
        OpKind::External => "external",
        OpKind::Recovered => "recovered",
    }
}

fn actor(actor: &Actor) -> ActorInfo {
    ActorInfo {
        channel: actor.channel.word().into(),
        uid: actor.uid,
        pid: actor.pid,
        command: actor.command.clone(),
        session: actor.session.clone(),
        view: actor.view.clone(),
    }
}

fn change(change: &ViewChange) -> ChangeInfo {
    ChangeInfo {
        path: errors::wire(&change.path),
        change: mutation::word(change.kind),
        from: change.from.as_ref().map(errors::wire),
        before: change.before.as_ref().map(state),
        after: change.after.as_ref().map(state),
        coalesced: change.coalesced,
        unversioned: change.unversioned.map(Loss::word).map(str::to_owned),
    }
}

fn state(state: &State) -> StateInfo {
    StateInfo {
        kind: given::file_type(state.kind),
        size: state.size,
        mode: given::octal(state.mode),
        hash: state.hash().map(|hash| hash.to_string()),
    }
}

fn rendered(result: &HistoryResult) -> String {
    let mut text = operations(&result.operations);
    if result.operations.is_empty() {
        text += "no operation";
    }
    text.truncate(text.trim_end().len());
    text + &render::bounds(&result.bounds)
}

/// A line for each operation, and one for each of its changes.
pub(super) fn operations(operations: &[OperationInfo]) -> String {
    let mut text = String::new();
    for operation in operations {
        let who = operation.actor.session.as_deref().or(operation.actor.command.as_deref()).unwrap_or("-");
        let note = operation.note.as_deref().map(|note| format!(" [{note}]")).unwrap_or_default();
        let (op, time, kind, channel) =
            (operation.operation, &operation.time, &operation.kind, &operation.actor.channel);
        writeln!(text, "{op} {time} {kind}{note} by {channel} {who}").expect("writing to a String cannot fail");
        for change in operation.changes.iter().take(20) {
            let from = change.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            let lost = change.unversioned.as_ref().map(|why| format!(" (unversioned: {why})")).unwrap_or_default();
            let word = format!("{:?}", change.change).to_lowercase();
            writeln!(text, "  {word} {}{from}{lost}", change.path).expect("writing to a String cannot fail");
        }
        if operation.changes_total > 20 {
            writeln!(text, "  and {} more", operation.changes_total - 20).expect("writing to a String cannot fail");
        }
    }
    text
}
