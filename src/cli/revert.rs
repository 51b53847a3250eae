//! `revert`, `undo`, `checkpoint`: changes taken back, and moments named for it.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{Failure, Outcome, Which, find, history::moment, output};

#[derive(Args)]
pub(super) struct RevertArgs {
    #[command(flatten)]
    which: Which,
    /// A path: to the state before its last change, or to --to
    path: Option<PathBuf>,
    /// The moment to go back to: an operation, a checkpoint or a time
    #[arg(long)]
    to: Option<String>,
    /// Take one operation back
    #[arg(long, visible_alias = "op", value_name = "N")]
    operation: Option<u64>,
    /// Go back to a checkpoint
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
    /// Go back to a time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Take back what this actor did
    #[arg(long)]
    actor: Option<String>,
    /// … after this moment
    #[arg(long)]
    since: Option<String>,
    /// Show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Where somebody changed a path later: fail, skip, merge, force or aside
    #[arg(long, value_name = "HOW", default_value = "fail")]
    on_conflict: String,
    /// The same as --on-conflict force
    #[arg(long)]
    force: bool,
    /// Do not ask before much is removed
    #[arg(short = 'y', long)]
    yes: bool,
}

#[derive(Args)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    which: Which,
    /// How many operations
    #[arg(default_value_t = 1)]
    count: usize,
}

#[derive(Args)]
pub(super) struct CheckpointArgs {
    #[command(flatten)]
    which: Which,
    /// Its name
    name: String,
    /// A note
    #[arg(short = 'm', long)]
    message: Option<String>,
}

pub(super) fn revert(args: &RevertArgs) -> Outcome {
    let mut client = find::view(&args.which, args.path.as_deref())?;
    let how = if args.force { "force" } else { &args.on_conflict };
    let mut asked = json!({"on_conflict": how, "dry_run": args.dry_run});
    let moments = [&args.to, &args.checkpoint, &args.time].into_iter().flatten().count();
    if moments > 1 {
        return Err(Failure::usage("--to, --checkpoint and --time exclude each other"));
    }
    let point = match (&args.to, &args.checkpoint, &args.time) {
        (Some(to), _, _) => Some(moment(to)),
        (_, Some(name), _) => Some(json!({"checkpoint": name})),
        (_, _, Some(time)) => Some(json!({"time": time})),
        (None, None, None) => None,
    };
    match (&args.path, args.operation, &args.actor, point) {
        (Some(path), None, None, point) => {
            asked["path"] = find::tool_path(path);
            if let Some(point) = point {
                asked["to"] = point;
            }
        }
        (None, Some(operation), None, None) => asked["operation"] = operation.into(),
        (None, None, Some(actor), None) => {
            asked["actor"] = Value::String(actor.clone());
            if let Some(since) = &args.since {
                asked["since"] = moment(since);
            }
        }
        (None, None, None, Some(point)) => match (point.get("checkpoint"), point.get("time")) {
            (Some(name), _) => asked["checkpoint"] = name.clone(),
            (_, Some(time)) => asked["time"] = time.clone(),
            // All changes after an operation.
            _ => {
                asked["path"] = Value::String(".".into());
                asked["to"] = point;
            }
        },
        _ => return Err(Failure::usage("name one of PATH, --operation, --checkpoint, --time, --actor")),
    }
    finish(&mut client, &args.which, asked, args.yes)
}

/// Reverts; a large removal is asked again with the token of its dry run, if the human says so.
fn finish(client: &mut control_api::Client, which: &Which, mut asked: Value, yes: bool) -> Outcome {
    let mut result = client.call("revert", &asked)?;
    let token = result.structured["details"]["confirm_token"].as_str().map(str::to_owned);
    if result.is_error
        && let Some(token) = token
    {
        if !yes {
            let message = result.structured["message"].as_str().unwrap_or_default();
            return Err(Failure { message: format!("{message}; or say --yes"), status: 3 });
        }
        asked["confirm_token"] = Value::String(token);
        result = client.call("revert", &asked)?;
    }
    if which.json {
        output::json(&result.structured);
    } else if result.is_error {
        output::complain(&result.text);
    } else {
        output::line(&result.text);
    }
    if result.is_error { Err(Failure { message: String::new(), status: 3 }) } else { Ok(()) }
}

pub(super) fn undo(args: &UndoArgs) -> Outcome {
    let mut client = find::view(&args.which, None)?;
    for _ in 0..args.count {
        let answer = find::call(&mut client, "history", &json!({"limit": 1000}))?.structured;
        let operations: Vec<&Value> = answer["operations"].as_array().into_iter().flatten().collect();
        let undone: Vec<u64> = operations.iter().filter_map(|operation| operation["undoes"].as_u64()).collect();
        let next = operations.iter().find_map(|operation| {
            let number = operation["operation"].as_u64()?;
            let is_undo = operation["kind"] == "revert";
            (!is_undo && !undone.contains(&number)).then_some(number)
        });
        let next = next.ok_or_else(|| Failure::new("there is nothing to undo"))?;
        finish(&mut client, &args.which, json!({"operation": next}), true)?;
    }
    Ok(())
}

pub(super) fn checkpoint(args: &CheckpointArgs) -> Outcome {
    let mut client = find::view(&args.which, None)?;
    let mut asked = json!({"name": args.name});
    if let Some(note) = &args.message {
        asked["note"] = Value::String(note.clone());
    }
    let result = find::call(&mut client, "checkpoint", &asked)?;
    if args.which.json {
        output::json(&result.structured);
    } else {
        output::line(&result.text);
    }
    Ok(())
}
