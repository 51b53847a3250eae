//! What all tools that change files share: asked once by an operation id, recorded, answered with hashes, versions and a diff.

use control_api::{
    ErrorCode, ToolError,
    tools::{ChangeWord, FileType, MutationResult, SideInfo, TouchedPath},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Answer, answer, diff::CHARS_MAX, errors, given, given::wide, native::Call, render};
use crate::{
    text,
    types::{Hash, Kind, OpId, ViewPath},
    versions::{Bound, ChangeKind, State},
    view::{Done, Request, Side, Touched, View, ViewChange, ViewError, ViewQuery},
};

/// Paths told in one answer.
const PATHS_MAX: usize = 1_000;
/// Paths whose version before is looked up.
const VERSIONS_MAX: usize = 100;
/// Characters of an operation id.
const ID_MAX: usize = 128;
/// Hashes are taken of contents up to this size.
const HASH_MAX: u64 = 64 << 20;

/// The result of a tool that changes files.
pub(super) trait Mutation: Serialize + DeserializeOwned {
    /// The part that all of them have.
    fn common(&mut self) -> &mut MutationResult;

    /// How it reads.
    fn rendered(&self) -> String;

    /// From what the log alone knows of the operation.
    fn recalled(mutation: MutationResult) -> Self;
}

/// Carries a mutation out: once, if it has an operation id.
pub(super) fn run<R: Mutation>(
    call: &Call<'_>,
    args: &impl Serialize,
    id: Option<&str>,
    dry_run: bool,
    work: impl FnOnce(&Request) -> Result<R, ToolError>,
) -> Result<Answer, ToolError> {
    let mut request = Request {
        actor: call.context.actor.clone(),
        tool: call.tool.to_owned(),
        operation: None,
        dry_run,
        require_hash: call.native.settings.require_hash,
        owner: call.context.owner,
    };
    let result = once(
        call,
        args,
        id.or(call.operation_id).filter(|_| !dry_run),
        |operation| {
            request.operation = operation;
            let mut result = work(&request)?;
            let op = result.common().operation;
            Ok((result, op.map(OpId)))
        },
        // The answer was never given: a crash came between the change and its record.
        |op| Ok(R::recalled(op.map(|op| recalled(call.view, op)).transpose()?.unwrap_or_default())),
    )?;
    answered(match result {
        Once::Done(result) => result,
        Once::Before(mut result) => {
            result.common().replayed = true;
            result
        }
    })
}

/// What a call with an operation id came to.
pub(super) enum Once<R> {
    /// It was carried out now.
    Done(R),
    /// It was carried out before.
    Before(R),
}

/// Carries a call out once, if it has an operation id. `work` also tells the operation that it made; `recall` makes an answer
/// from that number alone.
pub(super) fn once<R: Serialize + DeserializeOwned>(
    call: &Call<'_>,
    args: &impl Serialize,
    id: Option<&str>,
    work: impl FnOnce(Option<(String, Hash)>) -> Result<(R, Option<OpId>), ToolError>,
    recall: impl FnOnce(Option<OpId>) -> Result<R, ToolError>,
) -> Result<Once<R>, ToolError> {
    let Some(id) = id else { return Ok(Once::Done(work(None)?.0)) };
    if id.is_empty() || id.chars().count() > ID_MAX {
        return Err(errors::invalid(format!("operation_id has to be 1 to {ID_MAX} characters")));
    }
    let hash = request_hash(call.tool, args);
    let _alone = call.native.alone(id);
    if let Some(replay) = call.view.replay(id, &hash).map_err(errors::of)? {
        let recorded = replay.response.as_deref().and_then(|json| serde_json::from_str::<R>(json).ok());
        return Ok(Once::Before(match recorded {
            Some(result) => result,
            None => recall(replay.op)?,
        }));
    }
    let (result, op) = work(Some((id.to_owned(), hash)))?;
    let json = answer::json(&result).to_string();
    call.view.answered(id, &hash, op, &json).map_err(|error| {
        // The change itself stands, and a repetition finds it by its id.
        let mut error = errors::of(error);
        error.applied = op.is_some();
        error
    })?;
    Ok(Once::Done(result))
}

fn answered<R: Mutation>(result: R) -> Result<Answer, ToolError> {
    Ok(Answer::new(result.rendered(), &result))
}

/// The same for the same request, however its JSON was written: `args` has its own order.
fn request_hash(tool: &str, args: &impl Serialize) -> Hash {
    let mut value = answer::json(args);
    if let Some(object) = value.as_object_mut() {
        object.remove("operation_id");
    }
    Hash::of(format!("{tool}\n{value}").as_bytes())
}

/// The common part of an answer. The change is made by now, so nothing that cannot be told of it makes it an error.
pub(super) fn told(view: &View, request: &Request, done: &Done) -> MutationResult {
    let shown = done.paths.iter().take(PATHS_MAX).enumerate();
    let paths = shown.map(|(at, touched)| touched_path(view, done, touched, at < VERSIONS_MAX)).collect();
    let (diff, diff_truncated) = diff_of(view, &done.paths);
    MutationResult {
        operation: done.op.map(|op| op.0),
        replayed: false,
        dry_run: request.dry_run,
        paths,
        paths_total: wide(done.paths.len()),
        diff,
        diff_truncated,
    }
}

fn touched_path(view: &View, done: &Done, touched: &Touched, versions: bool) -> TouchedPath {
    let mut after = touched.after.as_ref().map(|side| side_info(side, done.op));
    let mut before = touched.before.as_ref().map(|side| side_info(side, None));
    if let Some(side) = before.as_mut().filter(|_| versions) {
        let was_at = touched.from.as_ref().unwrap_or(&touched.path);
        side.version = version_before(view, was_at, side.kind, done.op);
    }
    let is_moved = touched.from.is_some() && touched.change == ChangeKind::Rename;
    if let Some(side) = after.as_mut()
        && side.hash.is_none()
        && touched.after.as_ref().is_some_and(|side| side.kind == Kind::File && side.size <= HASH_MAX)
    {
        let path = if done.op.is_none() { touched.from.as_ref() } else { Some(&touched.path) };
        side.hash = path.and_then(|path| hash_at(view, path));
        if let Some(before) = before.as_mut().filter(|_| is_moved) {
            before.hash.clone_from(&side.hash);
        }
    }
    TouchedPath {
        path: errors::wire(&touched.path),
        from: touched.from.as_ref().map(errors::wire),
        change: word(touched.change),
        before,
        after,
    }
}

/// The hash of what is there; none if somebody was quicker.
fn hash_at(view: &View, path: &ViewPath) -> Option<String> {
    let reading = view.open_path(path).ok()?;
    Some(view.hash(&reading).ok()?.to_string())
}

fn side_info(side: &Side, op: Option<OpId>) -> SideInfo {
    SideInfo {
        kind: given::file_type(side.kind),
        size: side.size,
        hash: side.hash.or_else(|| side.bytes.as_ref().map(|bytes| Hash::of(bytes))).map(|hash| hash.to_string()),
        version: op.map(|op| op.0),
    }
}

/// A recorded state, as results tell of it.
pub(super) fn side_of(state: &State, op: Option<OpId>) -> SideInfo {
    side_info(&Side { kind: state.kind, size: state.size, hash: state.hash(), bytes: None }, op)
}

/// The operation that last touched a path before `op`; none if there is none, or the index cannot say.
fn version_before(view: &View, path: &ViewPath, kind: FileType, op: Option<OpId>) -> Option<u64> {
    if let (Some(op), true) = (op, kind != FileType::Directory) {
        return view.version_before(path, op).ok()?.map(|op| op.0);
    }
    let until = op.map(|op| Bound::Op(OpId(op.0.saturating_sub(1))));
    let query = ViewQuery { path: Some(path.clone()), until, limit: 1, ..ViewQuery::default() };
    view.history(&query).ok()?.operations.first().map(|operation| operation.op.0)
}

/// A change as results call it.
pub(super) fn word(kind: ChangeKind) -> ChangeWord {
    match kind {
        ChangeKind::Create => ChangeWord::Create,
        ChangeKind::Write => ChangeWord::Write,
        ChangeKind::Meta => ChangeWord::Meta,
        ChangeKind::Remove => ChangeWord::Remove,
        ChangeKind::Rename => ChangeWord::Rename,
        ChangeKind::Exchange => ChangeWord::Exchange,
        ChangeKind::Link => ChangeWord::Link,
    }
}

/// One diff of all texts, and whether it is less than all.
fn diff_of(view: &View, paths: &[Touched]) -> (String, bool) {
    let (mut diff, mut cut, mut left) = (String::new(), false, CHARS_MAX);
    for touched in paths {
        let is_file = |side: &Option<Side>| side.as_ref().is_none_or(|side| side.kind == Kind::File);
        if !is_file(&touched.before) || !is_file(&touched.after) || touched.change == ChangeKind::Rename {
            continue;
        }
        let bytes = |side: &Option<Side>| match side {
            None => Some(Vec::new()),
            Some(side) => match (&side.bytes, &side.hash) {
                (Some(bytes), _) => Some(bytes.as_ref().clone()),
                (None, Some(hash)) => view.kept(hash),
                (None, None) => None,
            },
        };
        let (Some(before), Some(after)) = (bytes(&touched.before), bytes(&touched.after)) else {
            cut = true;
            continue;
        };
        if cut {
            break;
        }
        let name = |sign: &str, side: &Option<Side>| side.as_ref().map(|_| format!("{sign}/{}", touched.path));
        let (a, b) = (name("a", &touched.before), name("b", &touched.after));
        let one = text::unified(&before, &after, a.as_deref(), b.as_deref(), 3, left);
        left -= one.text.chars().count().min(left);
        diff += &one.text;
        cut |= one.truncated;
    }
    (diff, cut)
}

/// The common part, from the log alone.
fn recalled(view: &View, op: OpId) -> Result<MutationResult, ToolError> {
    let operation = match view.operation(op) {
        Ok(operation) => operation,
        Err(ViewError::VersionNotFound(_)) => {
            let text = "the call was carried out, and what it did is not kept any more";
            return Err(ToolError { applied: true, ..ToolError::new(ErrorCode::VersionPruned, text) });
        }
        Err(error) => return Err(errors::of(error)),
    };
    let path = |change: &ViewChange| TouchedPath {
        path: errors::wire(&change.path),
        from: change.from.as_ref().map(errors::wire),
        change: word(change.kind),
        before: change.before.as_ref().map(|state| side_of(state, None)),
        after: change.after.as_ref().map(|state| side_of(state, Some(op))),
    };
    Ok(MutationResult {
        operation: Some(op.0),
        paths: operation.changes.iter().take(PATHS_MAX).map(path).collect(),
        paths_total: wide(operation.changes.len()),
        diff_truncated: true,
        ..MutationResult::default()
    })
}

impl Mutation for MutationResult {
    fn common(&mut self) -> &mut MutationResult {
        self
    }

    fn rendered(&self) -> String {
        let what = self.paths.first().map_or_else(String::new, |touched| match &touched.from {
            Some(from) => format!("{from} -> {}", touched.path),
            None => touched.path.to_string(),
        });
        let verb = self.paths.first().map_or("unchanged", |touched| verb(touched.change));
        line(self, &format!("{verb} {what}"))
    }

    fn recalled(mutation: MutationResult) -> Self {
        mutation
    }
}

fn verb(change: ChangeWord) -> &'static str {
    match change {
        ChangeWord::Create => "created",
        ChangeWord::Write => "wrote",
        ChangeWord::Meta => "changed",
        ChangeWord::Remove => "deleted",
        ChangeWord::Rename => "moved",
        ChangeWord::Exchange => "exchanged",
        ChangeWord::Link => "linked",
    }
}

/// One line on a mutation, and its diff.
pub(super) fn line(mutation: &MutationResult, what: &str) -> String {
    let mut text = what.trim_end().to_owned();
    if mutation.paths_total > 1 {
        text += &format!(" and {} more", render::count(mutation.paths_total - 1, "path", "paths"));
    }
    match mutation.operation {
        Some(op) => text += &format!(" (operation {op})"),
        None if mutation.dry_run => text += " (dry run: nothing was changed)",
        None => text += " (nothing had to change)",
    }
    if mutation.replayed {
        text += " (this was done before under the same operation_id; nothing was done again)";
    }
    if !mutation.diff.is_empty() {
        text += &format!("\n{}", mutation.diff.trim_end_matches('\n'));
    }
    if mutation.diff_truncated {
        text += "\n(the diff is cut)";
    }
    text
}
