//! `revert`: changes taken back.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use control_api::CallResult;
use serde_json::{Value, json};

use super::{
    Failure, Outcome,
    find::{Found, Which},
    log,
    moment::moment,
    output,
};

#[derive(Args)]
pub(super) struct RevertArgs {
    #[command(flatten)]
    which: Which,
    /// A path: to the state before its last change, or to --to
    path: Option<PathBuf>,
    /// With PATH: back to this (an operation, a checkpoint, a time, how long ago)
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// Take one operation back
    #[arg(long, visible_alias = "op", value_name = "N")]
    operation: Option<u64>,
    /// Take back all that was done after a checkpoint
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
    /// Take back all that was done after a time
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Take back all that was done after this; with --actor, by that actor
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Take back what this actor did: fuse, tool, external, a process's number, a session, part of a command
    #[arg(long)]
    actor: Option<String>,
    /// Show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// What to do where somebody changed a path later
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OnConflict::Fail)]
    on_conflict: OnConflict,
    /// The same as --on-conflict force
    #[arg(long)]
    force: bool,
    /// Only if nothing was recorded after this operation
    #[arg(long, value_name = "N")]
    if_head: Option<u64>,
    /// Do not ask before much is removed
    #[arg(short = 'y', long)]
    yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum OnConflict {
    /// Change nothing at all
    Fail,
    /// Leave such paths alone
    Skip,
    /// Merge texts
    Merge,
    /// Put the old state back all the same
    Force,
    /// Put the old content beside it
    Aside,
}

impl OnConflict {
    /// The word that the tool takes.
    pub fn word(self) -> &'static str {
        match self {
            OnConflict::Fail => "fail",
            OnConflict::Skip => "skip",
            OnConflict::Merge => "merge",
            OnConflict::Force => "force",
            OnConflict::Aside => "aside",
        }
    }
}

pub(super) fn revert(args: &RevertArgs) -> Outcome {
    let mut found = args.which.find(args.path.as_deref())?;
    let how = if args.force { OnConflict::Force } else { args.on_conflict };
    let mut asked = target(args, &mut found)?;
    asked["on_conflict"] = how.word().into();
    asked["dry_run"] = args.dry_run.into();
    if let Some(head) = args.if_head {
        asked["if_head"] = head.into();
    }
    finish(&mut found, args.which.json, asked, args.yes)
}

/// What is taken back, as the tool takes it: exactly one thing.
fn target(args: &RevertArgs, found: &mut Found) -> Result<Value, Failure> {
    let time = |text: &String| match moment(text).get("time") {
        Some(time) => Ok(time.clone()),
        None => {
            Err(Failure::usage(format!("--time {text:?} is no time; write it as 2026-01-31T12:00:00Z, 12:30 or 2h")))
        }
    };
    let asked = match (&args.path, args.operation, &args.checkpoint, &args.time, &args.actor, &args.since) {
        (Some(path), None, None, None, None, None) => {
            let mut asked = json!({"path": found.path(path)});
            if let Some(to) = &args.to {
                asked["to"] = moment(to);
            }
            return Ok(asked);
        }
        (None, Some(operation), None, None, None, None) => json!({"operation": operation}),
        (None, None, Some(name), None, None, None) => json!({"checkpoint": name}),
        (None, None, None, Some(text), None, None) => json!({"time": time(text)?}),
        (None, None, None, None, Some(actor), since) => {
            let mut asked = json!({"actor": log::actor(found, actor)?});
            if let Some(since) = since {
                asked["since"] = moment(since);
            }
            asked
        }
        (None, None, None, None, None, Some(since)) => match moment(since) {
            // All that was done after an operation: everything goes back to it.
            at if at.get("operation").is_some() => json!({"path": ".", "to": at}),
            at => at,
        },
        _ => {
            let say =
                "name one thing to take back: PATH [--to WHEN], --operation, --checkpoint, --time, --since, --actor";
            return Err(Failure::usage(say));
        }
    };
    match args.to {
        None => Ok(asked),
        Some(_) => Err(Failure::usage("--to goes with a PATH; `.` is the whole view")),
    }
}

/// Reverts. What removes much is shown first, and done if the human says so.
pub(super) fn finish(found: &mut Found, as_json: bool, asked: Value, yes: bool) -> Outcome {
    let last = asked.get("last").is_some();
    let result = approved(asked, yes, |asked| Ok(found.client.call("revert", asked)?))?;
    if !as_json && last && result.is_error && result.structured["code"] == "version_not_found" {
        return Err(Failure::new(result.structured["message"].as_str().unwrap_or_default()));
    }
    done(&result, as_json)
}

/// Asks, and asks again once a person has said yes to what removes much.
pub(super) fn approved(
    mut asked: Value,
    yes: bool,
    mut ask: impl FnMut(&Value) -> Result<CallResult, Failure>,
) -> Result<CallResult, Failure> {
    let result = ask(&asked)?;
    if !result.is_error || result.structured["code"] != "approval_required" {
        return Ok(result);
    }
    asked["dry_run"] = true.into();
    let dry = ask(&asked)?;
    if dry.is_error {
        return Ok(dry);
    }
    if !yes && !output::confirmed(&dry.text, "Take this back?") {
        let removes = &result.structured["details"]["removes"];
        let message = format!("this would remove {removes} path(s); to have it done, say --yes");
        return Err(Failure { message, status: 3 });
    }
    asked["dry_run"] = false.into();
    asked["confirm_token"] = dry.structured["confirm_token"].clone();
    ask(&asked)
}

/// Prints an answer, or fails with why it was refused and what to do about a conflict.
pub(super) fn done(result: &CallResult, as_json: bool) -> Outcome {
    match (as_json, result.is_error) {
        (true, _) => output::json(&result.structured),
        (false, false) => output::line(&result.text),
        (false, true) => {
            let text = |key: &str| result.structured[key].as_str().unwrap_or_default();
            let message = format!("{} ({}){}", text("message"), text("code"), hint(&result.structured));
            return Err(Failure { message, status: 3 });
        }
    }
    if result.is_error { Err(Failure::told()) } else { Ok(()) }
}

/// What to do about a conflict.
fn hint(error: &Value) -> &'static str {
    if error["code"] == "revert_conflict" {
        "; --dry-run --json shows both sides, --on-conflict skip, merge, force or aside decides"
    } else {
        ""
    }
}
