//! `status`: daemons, views, stores.

use std::time::Duration;

use clap::Args;
use control_api::Client;
use serde_json::{Value, json};

use super::{Outcome, find::shown, output};
use crate::run::Known;

/// A daemon that does not answer in this time is told of as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(super) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn status(args: &StatusArgs) -> Outcome {
    let daemons: Vec<Value> = crate::run::known()?.iter().map(asked).collect();
    if args.json {
        output::json(&json!({"daemons": daemons}));
        return Ok(());
    }
    if daemons.is_empty() {
        output::line("no view is served");
    }
    for daemon in &daemons {
        output::line(&told(daemon));
    }
    Ok(())
}

fn asked(daemon: &Known) -> Value {
    let ask = || -> Result<Value, String> {
        let mut client = Client::connect(&daemon.admin_socket).map_err(|error| error.to_string())?;
        client.set_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        client.request("status", &json!({})).map_err(|error| error.to_string())
    };
    ask().unwrap_or_else(|error| {
        json!({"pid": daemon.pid, "admin_socket": daemon.admin_socket, "store": {"path": daemon.store}, "error": error})
    })
}

fn told(daemon: &Value) -> String {
    let store = &daemon["store"];
    let mut lines = vec![format!("daemon {}, store {}", daemon["pid"], shown(&store["path"]))];
    if let Some(error) = daemon["error"].as_str() {
        lines.push(format!("  DOES NOT ANSWER: {error}"));
        return lines.join("\n");
    }
    lines.push(format!(
        "  {}: {} operations, {} contents, {} of log, {} aside",
        shown(&store["durability"]),
        store["operations"],
        store["contents"],
        size(&store["log_bytes"]),
        size(&store["aside_bytes"])
    ));
    let full = &store["fullness"];
    lines.push(format!(
        "  {} of {} used, {} when full",
        size(&full["used"]),
        size(&full["quota"]),
        shown(&full["on_full"])
    ));
    lines.extend(super::store::dropped(full).into_iter().map(|line| format!("  {line}")));
    if let Some(reason) = store["stopped"].as_str() {
        lines.push(format!("  CHANGES ARE REFUSED: {reason}"));
    }
    for view in daemon["views"].as_array().into_iter().flatten() {
        let at = view["mountpoint"].as_str().map_or_else(|| "without a mount".into(), |at| format!("at {at}"));
        lines.push(format!("  view {} {at}, socket {}", shown(&view["view"]), shown(&view["socket"])));
        for source in view["sources"].as_array().into_iter().flatten() {
            let read_only = if source["read_only"] == true || view["read_only"] == true { ", read-only" } else { "" };
            lines.push(format!("    shows {}{read_only}", shown(&source["path"])));
        }
        lines.extend(pending(&view["review"]).map(|line| format!("    {line}")));
        if let Some(reason) = view["policy_refused"].as_str() {
            lines.push(format!("    THE NEW POLICY IS NOT IN FORCE: {reason}"));
        }
    }
    lines.join("\n")
}

/// What waits for review.
fn pending(review: &Value) -> Option<String> {
    match (review["pending"].as_u64(), &review["error"]) {
        (Some(0), _) => Some("under review: nothing is pending".into()),
        (Some(paths), _) => {
            let paths = output::count(paths, "path is", "paths are");
            Some(format!("under review: {paths} pending; `wardfs review` tells which"))
        }
        (None, _) if review.get("pending").is_some() => {
            Some("under review: much was changed; `wardfs review` tells what is pending".into())
        }
        (None, Value::String(error)) => Some(format!("WHAT IS PENDING IS NOT KNOWN: {error}")),
        (None, _) => None,
    }
}

/// Bytes for people.
fn size(bytes: &Value) -> String {
    output::size(bytes.as_u64().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_loud() {
        let view = json!({"view": "v", "mountpoint": "/m", "socket": "/s", "sources": [{"path": "/a", "read_only": true}],
            "policy_refused": "p.toml:1:1: no", "review": {"pending": 2, "sessions": 1}});
        let store = json!({"path": "/st", "durability": "strict", "operations": 2, "contents": 3, "log_bytes": 2048,
            "aside_bytes": 1_610_612_736u64, "stopped": "EIO", "fullness": {"used": 1024, "quota": 4096,
            "on_full": "refuse", "dropped": [{"rule": "age", "contents": 3, "last": "2026"}], "failure": "no"}});
        assert_eq!(
            told(&json!({"pid": 7, "store": store, "views": [view]})),
            "daemon 7, store /st\n  strict: 2 operations, 3 contents, 2 KiB of log, 1.5 GiB aside\n  \
             1 KiB of 4 KiB used, refuse when full\n  dropped by rule `age`: 3 contents, last 2026\n  \
             COLLECTING FAILED: no\n  CHANGES ARE REFUSED: EIO\n  view v at /m, socket /s\n    shows /a, read-only\n    \
             under review: 2 paths are pending; `wardfs review` tells which\n    \
             THE NEW POLICY IS NOT IN FORCE: p.toml:1:1: no"
        );
        let dead = told(&json!({"pid": 7, "store": {"path": "/st"}, "error": "no answer"}));
        assert_eq!(dead, "daemon 7, store /st\n  DOES NOT ANSWER: no answer");
    }
}
