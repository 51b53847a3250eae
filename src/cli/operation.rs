//! Operations of the history as people read them: who, when, which paths, and the differences.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    content,
    find::{Found, shown},
};
use crate::text;

/// Contents above this size are not compared.
const PATCH_MAX: u64 = 1 << 20;
/// Characters of one difference.
const CHARS_MAX: usize = 1 << 20;

/// An operation, and a line for each path.
pub(super) fn describe(operation: &Value, sizes: bool) -> String {
    let mut out = format!("operation {}  {}\n", operation["operation"], shown(&operation["time"]));
    let actor = &operation["actor"];
    let mut who = vec![shown(&actor["channel"])];
    for (key, label) in [("session", "session "), ("command", ""), ("pid", "pid ")] {
        if !actor[key].is_null() {
            who.push(format!("{label}{}", shown(&actor[key])));
        }
    }
    say(&mut out, format_args!("by        {}\n", who.join(", ")));
    if !operation["undoes"].is_null() {
        say(&mut out, format_args!("undoes    {}\n", operation["undoes"]));
    }
    if !operation["note"].is_null() {
        say(&mut out, format_args!("note      {}\n", shown(&operation["note"])));
    }
    let changes = changes(operation);
    for change in &changes {
        out += &line(change, sizes);
    }
    let all = operation["changes_total"].as_u64().unwrap_or(0);
    let more = all.saturating_sub(u64::try_from(changes.len()).unwrap_or(all));
    if more > 0 {
        say(&mut out, format_args!("    and {more} more\n"));
    }
    out + "\n"
}

fn say(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

fn changes(operation: &Value) -> Vec<&Value> {
    operation["changes"].as_array().into_iter().flatten().collect()
}

fn line(change: &Value, sizes: bool) -> String {
    let mut out = format!("    {:8} {}", shown(&change["change"]), shown(&change["path"]));
    if !change["from"].is_null() {
        say(&mut out, format_args!(" <- {}", shown(&change["from"])));
    }
    if sizes {
        let size = |side: &str| change[side]["size"].as_u64().map_or("-".into(), |size| size.to_string());
        say(&mut out, format_args!("  {} -> {} bytes", size("before"), size("after")));
    }
    if !change["unversioned"].is_null() {
        say(&mut out, format_args!("  (content not kept: {})", shown(&change["unversioned"])));
    }
    out + "\n"
}

/// The differences that an operation made, path by path.
pub(super) fn patch(found: &mut Found, operation: &Value) -> String {
    let mut out = String::new();
    for change in changes(operation) {
        out += &patch_of(found, &operation["operation"], change);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn patch_of(found: &mut Found, operation: &Value, change: &Value) -> String {
    let path = &change["path"];
    let renamed = matches!(change["change"].as_str(), Some("rename")) && !change["from"].is_null();
    let from = if renamed { &change["from"] } else { path };
    let mut out = String::new();
    if renamed {
        say(&mut out, format_args!("rename from {}\nrename to {}\n", shown(from), shown(path)));
    }
    let mode = |side: &str| change[side]["mode"].as_str();
    if let (Some(before), Some(after)) = (mode("before"), mode("after"))
        && before != after
    {
        say(&mut out, format_args!("{}: mode {before} -> {after}\n", shown(path)));
    }
    if change["before"]["hash"] == change["after"]["hash"] && !change["before"]["hash"].is_null() {
        return out;
    }
    let mut side = |side: &str, path: &Value, at: Value| {
        let state = &change[side];
        if state.is_null() {
            return Some(Vec::new());
        }
        if state["type"] != "file" || state["size"].as_u64().is_none_or(|size| size > PATCH_MAX) {
            return None;
        }
        // What is not kept any more cannot be shown.
        content::whole(found, path, &at).ok()
    };
    let before = side("before", from, json!({"before": operation}));
    let after = side("after", path, json!({"operation": operation}));
    let (Some(before), Some(after)) = (before, after) else { return out };
    if before == after {
        return out;
    }
    if before.contains(&0) || after.contains(&0) {
        say(&mut out, format_args!("Binary files a/{} and b/{} differ\n", shown(from), shown(path)));
        return out;
    }
    let name =
        |side: &str, letter: &str, path: &Value| (!change[side].is_null()).then(|| format!("{letter}/{}", shown(path)));
    let (a, b) = (name("before", "a", from), name("after", "b", path));
    out + &text::unified(&before, &after, a.as_deref(), b.as_deref(), 3, CHARS_MAX).text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_says_who_when_and_what() {
        let operation = json!({
            "operation": 7, "time": "2026-01-31T12:00:00Z", "undoes": 5, "note": "revert",
            "actor": {"channel": "fuse", "pid": 12, "command": "sed -i"},
            "changes": [
                {"path": "a", "change": "write", "before": {"size": 3}, "after": {"size": 5}},
                {"path": "b", "change": "rename", "from": "c", "unversioned": "size"},
            ],
            "changes_total": 4,
        });
        let head = "operation 7  2026-01-31T12:00:00Z\nby        fuse, sed -i, pid 12\nundoes    5\nnote      revert\n";
        assert_eq!(
            describe(&operation, false),
            format!("{head}    write    a\n    rename   b <- c  (content not kept: size)\n    and 2 more\n\n")
        );
        assert!(describe(&operation, true).contains("    write    a  3 -> 5 bytes\n"));
    }
}
