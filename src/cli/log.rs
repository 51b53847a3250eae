//! `log`: the history, newest first.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{
    Failure, Outcome,
    find::{Found, Which},
    moment::moment,
    operation::{describe, patch},
    output,
    pager::Pager,
};

/// Operations asked for at once.
const PAGE: usize = 200;
/// The words of `actor.channel`.
const CHANNELS: &[&str] = &["fuse", "tool", "external", "revert", "recovery"];

#[derive(Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    which: Which,
    /// Only what touched this path, or anything below it
    path: Option<PathBuf>,
    /// At most so many operations
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    count: Option<usize>,
    /// Only by this actor: fuse, tool, external or revert; a process by its number; a session; part of a command
    #[arg(long)]
    actor: Option<String>,
    /// Only after this: an operation, a checkpoint, a time ("2026-01-31", "12:30"), or how long ago ("2h")
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only up to this
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Show the differences
    #[arg(short = 'p', long)]
    patch: bool,
    /// Show sizes before and after
    #[arg(long)]
    stat: bool,
}

/// An actor as the tools take it.
pub(super) fn actor(found: &mut Found, text: &str) -> Result<Value, Failure> {
    if CHANNELS.contains(&text) {
        return Ok(json!({"channel": text}));
    }
    if let Ok(pid) = text.parse::<u32>() {
        return Ok(json!({"pid": pid}));
    }
    let session = json!({"session": text});
    let known = found.call("history", &json!({"actor": session, "limit": 1}))?.structured;
    let none = known["operations"].as_array().is_none_or(Vec::is_empty);
    Ok(if none { json!({"command": text}) } else { session })
}

/// Asks page after page, until `take` has enough.
fn each(
    found: &mut Found,
    asked: &mut Value,
    mut count: usize,
    mut take: impl FnMut(&mut Found, Value) -> bool,
) -> Outcome {
    while count > 0 {
        asked["limit"] = count.min(PAGE).into();
        let mut answer = found.call("history", asked)?.structured;
        let Value::Array(operations) = answer["operations"].take() else { return Ok(()) };
        count = count.saturating_sub(operations.len());
        for operation in operations {
            if !take(found, operation) {
                return Ok(());
            }
        }
        let next = answer["next"].take();
        if next.is_null() {
            return Ok(());
        }
        asked["cursor"] = next;
    }
    Ok(())
}

pub(super) fn log(args: &LogArgs) -> Outcome {
    let mut found = args.which.find(args.path.as_deref())?;
    let mut asked = json!({});
    if let Some(path) = &args.path {
        asked["path"] = found.path(path);
    }
    if let Some(text) = &args.actor {
        asked["actor"] = actor(&mut found, text)?;
    }
    for (key, text) in [("since", &args.since), ("until", &args.until)] {
        if let Some(text) = text {
            asked[key] = moment(text);
        }
    }
    let count = args.count.unwrap_or(usize::MAX);
    if args.which.json {
        let mut all = Vec::new();
        each(&mut found, &mut asked, count, |_, operation| {
            all.push(operation);
            true
        })?;
        output::json(&json!({"operations": all}));
        return Ok(());
    }
    let mut pager = Pager::start();
    each(&mut found, &mut asked, count, |found, operation| {
        let differences = if args.patch { patch(found, &operation) } else { String::new() };
        pager.text(&(describe(&operation, args.stat) + &differences))
    })
}
