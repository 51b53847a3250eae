//! Review, for the human alone: what is pending in a view is listed, shown, accepted and rejected. No tool of a view does
//! this; it comes by the daemon's admin socket.

use control_api::{ErrorCode, ToolError, WirePath, tools::OnRevertConflict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    answer, errors, given,
    mutation::{Mutation, side_of},
    revert,
};
use crate::{
    text,
    types::{Actor, Channel, OpId},
    versions::{State, Whose},
    view::{Guard, HunkSelection, Interleaved, Pending, PendingPath, Request, RevertTarget, ReviewSelection, View},
};

/// Characters of one file's difference, and of all in one answer.
const DIFF_MAX: usize = 1 << 20;
const DIFFS_MAX: usize = 16 << 20;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAction {
    /// Tell what is pending.
    List,
    /// The same, with differences.
    Show,
    /// Move the base.
    Accept,
    /// Take back, and move the base.
    Reject,
}

/// A command about what is pending. Without paths, session, shells: about everything.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewCommand {
    /// What is to be done.
    pub action: ReviewAction,
    /// Only these paths, and what is below them.
    #[serde(default)]
    pub paths: Vec<WirePath>,
    /// Only changes of this session.
    #[serde(default)]
    pub session: Option<String>,
    /// Only changes of those without a session.
    #[serde(default)]
    pub shells: bool,
    /// Only these hunks of the one path, from 1.
    #[serde(default)]
    pub hunks: Vec<usize>,
    /// With hunks: the mark that was shown with them.
    #[serde(default)]
    pub mark: Option<String>,
    /// What to do with what was changed later.
    #[serde(default)]
    pub on_conflict: OnRevertConflict,
    /// Only tell what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Only if nothing was recorded after this operation.
    #[serde(default)]
    pub if_head: Option<u64>,
    /// The token of a dry run.
    #[serde(default)]
    pub confirm_token: Option<String>,
}

/// Carries a command out. `owner` is who owns what a rejection makes again.
///
/// # Errors
/// As a tool's: with a code, and what to do.
pub fn review(view: &View, command: &ReviewCommand, owner: (u32, u32)) -> Result<Value, ToolError> {
    if !view.has_review().map_err(errors::of)? {
        let text = format!(
            "view {:?} has no review; set `review = true` in its policy ([view.{}.policy] of the config, or the policy \
             file), then send the daemon SIGHUP, or mount it again",
            view.name(),
            view.name()
        );
        return Err(ToolError::new(ErrorCode::Unsupported, text));
    }
    let whose = match (&command.session, command.shells) {
        (Some(_), true) => return Err(errors::invalid("session and shells exclude each other; give one")),
        (Some(session), false) => Whose::Session(session.clone()),
        (None, true) => Whose::Shells,
        (None, false) => Whose::All,
    };
    let paths = command.paths.iter().map(|path| given::path(view, path)).collect::<Result<Vec<_>, _>>()?;
    let selection = ReviewSelection { whose, paths };
    let chosen = hunks(command, &selection)?;
    match (command.action, chosen) {
        (ReviewAction::List | ReviewAction::Show, None) => {
            let pending = view.pending(&selection).map_err(errors::of)?;
            Ok(told(view, &pending, command.action == ReviewAction::Show))
        }
        (ReviewAction::Accept, None) => accept(view, command, &selection),
        (ReviewAction::Accept, Some(chosen)) => {
            view.accept_hunks(&chosen, command.if_head.map(OpId)).map_err(errors::of)?;
            Ok(json!({"accepted": 1, "hunks": chosen.hunks}))
        }
        (ReviewAction::Reject, chosen) => reject(view, command, &selection, chosen, owner),
        (ReviewAction::List | ReviewAction::Show, Some(_)) => {
            Err(errors::invalid("hunks are accepted or rejected; show tells all of them"))
        }
    }
}

fn hunks(command: &ReviewCommand, selection: &ReviewSelection) -> Result<Option<HunkSelection>, ToolError> {
    match (command.hunks.as_slice(), &command.mark, selection.paths.as_slice()) {
        ([], None, _) => Ok(None),
        ([], Some(_), _) => Err(errors::invalid("mark goes with hunks")),
        (_, Some(mark), [path]) => Ok(Some(HunkSelection {
            path: path.clone(),
            whose: selection.whose.clone(),
            hunks: command.hunks.clone(),
            mark: mark.clone(),
        })),
        (_, None, _) => Err(errors::invalid("hunks want the mark that `wardfs review show` prints with them")),
        (_, Some(_), _) => Err(errors::invalid("hunks are those of one path; name it")),
    }
}

fn accept(view: &View, command: &ReviewCommand, selection: &ReviewSelection) -> Result<Value, ToolError> {
    if command.dry_run {
        return Ok(told(view, &view.pending(selection).map_err(errors::of)?, false));
    }
    let pending = view.accept(selection, command.if_head.map(OpId)).map_err(errors::of)?;
    let mut told = told(view, &pending, false);
    told["accepted"] = pending.paths().count().into();
    Ok(told)
}

fn reject(
    view: &View,
    command: &ReviewCommand,
    selection: &ReviewSelection,
    chosen: Option<HunkSelection>,
    owner: (u32, u32),
) -> Result<Value, ToolError> {
    let request = Request {
        actor: Actor { uid: Some(owner.0), ..Actor::of(Channel::Revert) },
        tool: "review".into(),
        operation: None,
        dry_run: command.dry_run,
        require_hash: false,
        owner,
    };
    let if_head = command.if_head.map(OpId);
    let (target, done) = match chosen {
        Some(chosen) => {
            let done = view.reject_hunks(&request, &chosen, if_head);
            (RevertTarget::Hunks(chosen), done)
        }
        None => {
            let guard = Guard { confirm_token: command.confirm_token.as_deref(), if_head };
            let done = view.reject(&request, selection, revert::choice(command.on_conflict), guard);
            (RevertTarget::Pending(selection.clone()), done)
        }
    };
    let result = revert::answered(view, &request, &target, done)?;
    let mut told = answer::json(&result);
    told["text"] = result.rendered().into();
    Ok(told)
}

fn told(view: &View, pending: &Pending, with_diffs: bool) -> Value {
    let mut left = if with_diffs { DIFFS_MAX } else { 0 };
    let mut sessions = Vec::new();
    for session in &pending.sessions {
        let mut paths = Vec::new();
        for path in &session.paths {
            let mut told = path_told(path);
            if with_diffs {
                show(view, &session.whose, path, &mut told, &mut left);
            }
            paths.push(told);
        }
        let name = match &session.whose {
            Whose::Session(name) => Some(name),
            Whose::All | Whose::Shells => None,
        };
        sessions.push(json!({"session": name, "paths": paths}));
    }
    json!({"view": view.name(), "head": pending.mark.op.0, "pending": pending.paths().count(), "sessions": sessions})
}

fn path_told(path: &PendingPath) -> Value {
    let side = |state: &Option<State>| state.as_ref().map(|state| side_of(state, None));
    let mode = |state: &Option<State>| state.as_ref().map(|state| given::octal(state.mode));
    json!({
        "path": errors::wire(&path.path),
        "from": path.from.as_ref().map(errors::wire),
        "change": path.change.word(),
        "before": side(&path.before),
        "after": side(&path.after),
        "modes": [mode(&path.before), mode(&path.after)],
        "operations": path.operations.iter().map(|op| op.0).collect::<Vec<_>>(),
        "interleaved": path.interleaved.iter().map(interleaved).collect::<Vec<_>>(),
    })
}

fn interleaved(other: &Interleaved) -> Value {
    let actor = &other.actor;
    json!({"operation": other.op.0, "channel": actor.channel.word(), "session": actor.session, "command": actor.command})
}

/// The difference, as far as there is room; with the mark and the number of the hunks that can be chosen.
fn show(view: &View, whose: &Whose, path: &PendingPath, told: &mut Value, left: &mut usize) {
    let patch = match view.patch(whose, path) {
        Ok(Some(patch)) => patch,
        Ok(None) => return,
        Err(error) => {
            told["diff_failed"] = error.to_string().into();
            return;
        }
    };
    let old = path.from.as_ref().unwrap_or(&path.path);
    let a = path.before.is_some().then(|| format!("a/{old}"));
    let b = path.after.is_some().then(|| format!("b/{}", path.path));
    let most = DIFF_MAX.min(*left);
    let mut diff = text::unified(&patch.before, &patch.after, a.as_deref(), b.as_deref(), 3, most);
    if let Some(hunks) = patch.hunks.as_ref().filter(|_| !diff.truncated) {
        diff.text = numbered(&diff.text, hunks);
        told["mark"] = patch.mark.into();
        told["hunks"] = hunks.len().into();
    }
    *left -= diff.text.chars().count().min(*left);
    told["added"] = diff.stats.added.into();
    told["removed"] = diff.stats.removed.into();
    told["diff"] = diff.text.into();
    told["diff_truncated"] = diff.truncated.into();
}

/// A difference with the number of each hunk behind its head, where patches may have a text.
fn numbered(diff: &str, hunks: &[text::Hunk]) -> String {
    let heads: usize = hunks.iter().map(|hunk| hunk.text.len()).sum();
    let mut out = diff.get(..diff.len().saturating_sub(heads)).unwrap_or_default().to_owned();
    for (at, hunk) in hunks.iter().enumerate() {
        let (head, lines) = hunk.text.split_once('\n').unwrap_or((&hunk.text, ""));
        out += &format!("{head} hunk {}\n{lines}", at + 1);
    }
    out
}
