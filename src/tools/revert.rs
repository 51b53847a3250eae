//! `revert`: changes taken back, as one operation that can be taken back itself.

use control_api::{
    ToolError,
    tools::{self as api, ConflictInfo, MutationResult, OnRevertConflict, RevertArgs, RevertResult},
};
use serde_json::json;

use super::{Answer, errors, given, mutation, mutation::Mutation, native::Call, render};
use crate::{
    text,
    types::{OpId, ViewPath},
    view::{At, Conflict, ConflictCode, Guard, LastStep, OnConflict, Request, RevertTarget, Reverted, View, ViewError},
};

/// Operations named in an answer.
const OPERATIONS_MAX: usize = 1_000;
/// Conflicts told, and those of them with diffs.
const CONFLICTS_MAX: usize = 1_000;
const DIFFS_MAX: usize = 20;
/// Characters of each diff of a conflict.
const DIFF_MAX: usize = 4_000;
/// Bytes of a content that is compared.
const CONTENT_MAX: u64 = 1 << 20;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &RevertArgs) -> Result<Answer, ToolError> {
    let target = target(call.view, args)?;
    let on_conflict = choice(args.on_conflict);
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let guard = Guard { confirm_token: args.confirm_token.as_deref(), if_head: args.if_head.map(OpId) };
        answered(call.view, request, &target, call.view.revert(request, &target, on_conflict, guard))
    })
}

/// What to do with what changed later, as the caller says it.
pub(super) fn choice(on_conflict: OnRevertConflict) -> OnConflict {
    match on_conflict {
        OnRevertConflict::Fail => OnConflict::Fail,
        OnRevertConflict::Skip => OnConflict::Skip,
        OnRevertConflict::Merge => OnConflict::Merge,
        OnRevertConflict::Force => OnConflict::Force,
        OnRevertConflict::Aside => OnConflict::Aside,
    }
}

/// What a revert came to, as it is answered.
pub(super) fn answered(
    view: &View,
    request: &Request,
    target: &RevertTarget,
    done: Result<Reverted, ViewError>,
) -> Result<RevertResult, ToolError> {
    let reverted = match done {
        Ok(reverted) => reverted,
        Err(ViewError::RevertConflict(conflicts)) => return Err(refused(view, request, target, conflicts)),
        Err(error) => return Err(errors::of(error)),
    };
    Ok(RevertResult {
        reverted: reverted.operations.iter().take(OPERATIONS_MAX).map(|op| op.0).collect(),
        conflicts: told(view, &reverted.conflicts, &reverted.operations),
        refused: reverted.refused,
        confirm_token: reverted.confirm_token,
        mutation: mutation::told(view, request, &reverted.done),
    })
}

fn target(view: &View, args: &RevertArgs) -> Result<RevertTarget, ToolError> {
    let by_actor = args.actor.is_some() || args.session.is_some();
    let named = [
        args.path.is_some(),
        args.operation.is_some(),
        by_actor && args.last.is_none(),
        args.last.is_some(),
        args.checkpoint.is_some(),
        args.time.is_some(),
    ];
    if named.iter().filter(|is| **is).count() != 1 {
        return Err(errors::invalid("give one of path, operation, last, actor or session, checkpoint, and time"));
    }
    if args.to.is_some() && args.path.is_none() {
        return Err(errors::invalid("to goes with path"));
    }
    if args.since.is_some() && (!by_actor || args.last.is_some()) {
        return Err(errors::invalid("since goes with actor or session alone"));
    }
    if let Some(path) = &args.path {
        let to = args.to.as_ref().map(given::moment).transpose()?;
        return Ok(RevertTarget::Path { path: given::path(view, path)?, to });
    }
    if let Some(op) = args.operation {
        return Ok(RevertTarget::Operation(OpId(op)));
    }
    if let Some(name) = &args.checkpoint {
        return Ok(RevertTarget::To(At::Checkpoint(name.clone())));
    }
    if let Some(text) = &args.time {
        return Ok(RevertTarget::To(At::Time(given::time("time", text)?)));
    }
    let mut actor = given::actor(args.actor.as_ref())?;
    match (&actor.session, &args.session) {
        (Some(one), Some(other)) if one != other => {
            return Err(errors::invalid("session and actor name two sessions; give one"));
        }
        (_, Some(session)) => actor.session = Some(session.clone()),
        (_, None) => {}
    }
    match args.last {
        None => Ok(RevertTarget::Actor { actor, since: args.since.as_ref().map(given::moment).transpose()? }),
        Some(api::LastStep::Change) => Ok(RevertTarget::Last(LastStep::Change(actor))),
        Some(api::LastStep::Undo) if by_actor => Err(errors::invalid("actor and session go with last \"change\"")),
        Some(api::LastStep::Undo) => Ok(RevertTarget::Last(LastStep::Undo)),
    }
}

/// The refusal, with both diffs of what stands in the way.
fn refused(view: &View, request: &Request, target: &RevertTarget, conflicts: Vec<Conflict>) -> ToolError {
    let look = Request { dry_run: true, ..request.clone() };
    let operations = match target {
        RevertTarget::Operation(op) => vec![*op],
        RevertTarget::Path { .. }
        | RevertTarget::Actor { .. }
        | RevertTarget::To(_)
        | RevertTarget::Last(_)
        | RevertTarget::Pending(_)
        | RevertTarget::Hunks(_) => view
            .revert(&look, target, OnConflict::Fail, Guard::default())
            .map(|reverted| reverted.operations)
            .unwrap_or_default(),
    };
    let list = told(view, &conflicts, &operations);
    let error = errors::of(ViewError::RevertConflict(conflicts));
    error.with(json!({ "conflicts": list }))
}

fn told(view: &View, conflicts: &[Conflict], operations: &[OpId]) -> Vec<ConflictInfo> {
    let info = |(at, conflict): (usize, &Conflict)| {
        let shows = at < DIFFS_MAX && conflict.code != ConflictCode::Meta;
        let diffs = if shows { diffs(view, &conflict.path, operations) } else { None };
        let (reverted_diff, later_diff) = diffs.unzip();
        ConflictInfo {
            path: errors::wire(&conflict.path),
            conflict: conflict.code.word().into(),
            detail: conflict.detail.clone(),
            reverted_diff,
            later_diff,
        }
    };
    conflicts.iter().take(CONFLICTS_MAX).enumerate().map(info).collect()
}

/// What the newest of the reverted operations that touched the path did to it, and what was done later. None where contents
/// are not texts that are kept.
fn diffs(view: &View, path: &ViewPath, operations: &[OpId]) -> Option<(String, String)> {
    let (op, change) = operations.iter().take(OPERATIONS_MAX).find_map(|op| {
        let operation = view.operation(*op).ok()?;
        Some((*op, operation.changes.into_iter().rev().find(|change| change.path == *path)?))
    })?;
    let side = |after: bool| match if after { &change.after } else { &change.before } {
        None => Some(Vec::new()),
        Some(_) => view.bytes_of(op, &change, after, CONTENT_MAX).ok(),
    };
    let (before, after) = (side(false)?, side(true)?);
    let now = match view.open_path(path) {
        Ok(reading) => view.read_all(&reading, CONTENT_MAX).ok()?,
        Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => Vec::new(),
        Err(_) => return None,
    };
    let (a, b) = (format!("a/{path}"), format!("b/{path}"));
    let diff = |from: &[u8], to: &[u8]| text::unified(from, to, Some(&a), Some(&b), 3, DIFF_MAX).text;
    Some((diff(&before, &after), diff(&after, &now)))
}

impl Mutation for RevertResult {
    fn common(&mut self) -> &mut MutationResult {
        &mut self.mutation
    }

    fn rendered(&self) -> String {
        let mut text = match self.reverted.as_slice() {
            _ if self.refused => "it would be refused".to_owned(),
            [] => "nothing to take back".to_owned(),
            [one] => format!("took back operation {one}"),
            [first, .., last] => format!("took back {} operations, {last} to {first}", self.reverted.len()),
        };
        let paths = render::count(self.mutation.paths_total, "path", "paths");
        text += &format!(": {paths} changed");
        let only = MutationResult { paths_total: 1, ..self.mutation.clone() };
        let mut text = mutation::line(&only, &text);
        for touched in self.mutation.paths.iter().take(20) {
            text += &format!("\n  {} {}", format!("{:?}", touched.change).to_lowercase(), touched.path);
        }
        for conflict in self.conflicts.iter().take(20) {
            text += &format!("\nleft alone: {} ({}): {}", conflict.path, conflict.conflict, conflict.detail);
        }
        if let Some(token) = &self.confirm_token {
            text += &format!("\n(to have it done, give confirm_token {token:?})");
        }
        text
    }

    fn recalled(mutation: MutationResult) -> Self {
        RevertResult { mutation, ..RevertResult::default() }
    }
}
