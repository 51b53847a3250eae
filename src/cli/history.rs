//! `log`, `show`, `diff`, `cat`: the past, in git's habits.

use std::path::{Path, PathBuf};

use base64::Engine;
use clap::Args;
use control_api::Client;
use serde_json::{Value, json};

use super::{Failure, Outcome, Which, find, output};

#[derive(Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    which: Which,
    /// Only what touched this path, or anything below it
    path: Option<PathBuf>,
    /// At most so many operations
    #[arg(short = 'n', long = "max-count", default_value_t = 50)]
    count: usize,
    /// Only this actor: fuse, tool, external or revert, a session, or part of a command
    #[arg(long)]
    actor: Option<String>,
    /// Only after this time, operation or checkpoint
    #[arg(long)]
    since: Option<String>,
    /// Show the differences
    #[arg(short = 'p', long)]
    patch: bool,
    /// Show sizes before and after
    #[arg(long)]
    stat: bool,
}

#[derive(Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// The operation
    operation: u64,
}

#[derive(Args)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    which: Which,
    /// A path, or PATH@VERSION
    a: String,
    /// Another; without it the same path as it is now
    b: Option<String>,
    /// Lines of context
    #[arg(short = 'U', long, default_value_t = 3)]
    unified: usize,
}

#[derive(Args)]
pub(super) struct CatArgs {
    #[command(flatten)]
    which: Which,
    /// PATH@VERSION: an operation, a checkpoint or a time
    what: String,
}

/// A moment as a tool takes it: a number is an operation, a date a time, all else a checkpoint.
pub(super) fn moment(text: &str) -> Value {
    if let Ok(operation) = text.parse::<u64>() {
        return json!({"operation": operation});
    }
    if text.parse::<jiff::Timestamp>().is_ok() {
        return json!({"time": text});
    }
    json!({"checkpoint": text})
}

/// `PATH` or `PATH@VERSION`.
fn versioned(text: &str) -> (PathBuf, Option<Value>) {
    match text.rsplit_once('@') {
        Some((path, version)) if !path.is_empty() && !version.is_empty() && !version.contains('/') => {
            (path.into(), Some(moment(version)))
        }
        Some(_) | None => (text.into(), None),
    }
}

pub(super) fn log(args: &LogArgs) -> Outcome {
    let mut client = find::view(&args.which, args.path.as_deref())?;
    let mut asked = json!({"limit": args.count});
    if let Some(path) = &args.path {
        asked["path"] = find::tool_path(path);
    }
    if let Some(actor) = &args.actor {
        asked["actor"] = Value::String(actor.clone());
    }
    if let Some(since) = &args.since {
        asked["since"] = moment(since);
    }
    let answer = find::call(&mut client, "history", &asked)?.structured;
    if args.which.json {
        output::json(&answer);
        return Ok(());
    }
    let mut text = String::new();
    for operation in answer["operations"].as_array().into_iter().flatten() {
        describe(operation, args.stat, &mut text);
        if args.patch {
            patch(&mut client, operation, &mut text);
        }
    }
    output::page(&text);
    Ok(())
}

pub(super) fn show(args: &ShowArgs) -> Outcome {
    let mut client = find::view(&args.which, None)?;
    let answer = find::call(&mut client, "history", &json!({"operation": args.operation}))?.structured;
    if args.which.json {
        output::json(&answer);
        return Ok(());
    }
    let operation =
        answer["operations"].get(0).ok_or_else(|| Failure::new(format!("no operation {}", args.operation)))?;
    let mut text = String::new();
    describe(operation, true, &mut text);
    patch(&mut client, operation, &mut text);
    output::page(&text);
    Ok(())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Object(map) => {
            let raw = map.get("bytes").and_then(Value::as_str).unwrap_or_default();
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => other.to_string(),
    }
}

fn describe(operation: &Value, sizes: bool, out: &mut String) {
    let actor = &operation["actor"];
    out.push_str(&format!("operation {}  {}\n", operation["operation"], text_of(&operation["time"])));
    let mut who = vec![text_of(&actor["channel"])];
    for (key, label) in [("session", "session "), ("command", ""), ("pid", "pid ")] {
        if !actor[key].is_null() {
            who.push(format!("{label}{}", text_of(&actor[key])));
        }
    }
    out.push_str(&format!("by        {}\n", who.join(", ")));
    if !operation["note"].is_null() {
        out.push_str(&format!("note      {}\n", text_of(&operation["note"])));
    }
    for change in operation["changes"].as_array().into_iter().flatten() {
        out.push_str(&format!("    {:8} {}", text_of(&change["change"]), text_of(&change["path"])));
        if !change["from"].is_null() {
            out.push_str(&format!(" <- {}", text_of(&change["from"])));
        }
        if sizes {
            let size = |side: &str| change[side]["size"].as_u64().map_or("-".into(), |size| size.to_string());
            out.push_str(&format!("  {} -> {} bytes", size("before"), size("after")));
        }
        if !change["unversioned"].is_null() {
            out.push_str(&format!("  (content not kept: {})", text_of(&change["unversioned"])));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// The differences that an operation made, path by path; what is no text, or gone, is passed over.
fn patch(client: &mut Client, operation: &Value, out: &mut String) {
    let Some(number) = operation["operation"].as_u64() else { return };
    for change in operation["changes"].as_array().into_iter().flatten() {
        if text_of(&change["change"]) != "write" {
            continue;
        }
        let path = &change["path"];
        let asked = json!({
            "a": {"path": path, "at": {"operation": number.saturating_sub(1)}},
            "b": {"path": path, "at": {"operation": number}},
        });
        if let Ok(answer) = client.call("diff", &asked)
            && !answer.is_error
        {
            out.push_str(&text_of(&answer.structured["diff"]));
            out.push('\n');
        }
    }
}

pub(super) fn diff(args: &DiffArgs) -> Outcome {
    let (path, at) = versioned(&args.a);
    let mut client = find::view(&args.which, Some(Path::new(&path)))?;
    let side = |path: &Path, at: Option<Value>| match at {
        Some(at) => json!({"path": find::tool_path(path), "at": at}),
        None => json!({"path": find::tool_path(path)}),
    };
    let b = match &args.b {
        Some(b) => {
            let (path, at) = versioned(b);
            side(&path, at)
        }
        None => side(&path, None),
    };
    let asked = json!({"a": side(&path, at), "b": b, "context": args.unified});
    let answer = find::call(&mut client, "diff", &asked)?.structured;
    if args.which.json {
        output::json(&answer);
    } else {
        output::page(&text_of(&answer["diff"]));
    }
    Ok(())
}

pub(super) fn cat(args: &CatArgs) -> Outcome {
    let (path, at) = versioned(&args.what);
    let mut client = find::view(&args.which, Some(Path::new(&path)))?;
    let mut offset = 0u64;
    loop {
        let mut asked = json!({"path": find::tool_path(&path), "encoding": "base64", "bytes": [offset, 1 << 20]});
        if let Some(at) = &at {
            asked["at"] = at.clone();
        }
        let answer = find::call(&mut client, "read", &asked)?.structured;
        let file = answer["files"].get(0).unwrap_or(&answer);
        let content = base64::engine::general_purpose::STANDARD.decode(text_of(&file["content"])).unwrap_or_default();
        if content.is_empty() {
            return Ok(());
        }
        output::bytes(&content);
        offset += content.len() as u64;
        if file["size"].as_u64().is_none_or(|size| offset >= size) {
            return Ok(());
        }
    }
}
