//! What policy hides does not exist, in any tool; what it makes read-only is not changed.

use serde_json::{Value, json};
use wardfs::policy::PolicySpec;

use super::room::{Plan, Room, paths, patterns};

fn room() -> Room {
    let policy = PolicySpec {
        deny: patterns(&["secret*", "/private/", "/held/key"]),
        read_only: patterns(&["/docs/"]),
        ..PolicySpec::default()
    };
    let room = Room::of(Plan { policy, ..Plan::default() });
    room.put("open.txt", "needle\n");
    room.put("secret.txt", "needle\n");
    room.put("private/a.txt", "needle\n");
    room.put("dir/secret", "needle\n");
    room.put("docs/a.md", "needle\n");
    room
}

/// Answers about a hidden path must be those about a missing one of the same shape.
#[track_caller]
fn same(room: &Room, tool: &str, hidden: &str, missing: &str, arguments: impl Fn(&str) -> Value) {
    let answer = |path: &str| {
        let outcome = room.outcome(tool, arguments(path));
        let text = format!("{} {:?} {}", outcome.is_error, outcome.content, outcome.structured);
        // Messages may name the path, or the directory that stops it.
        let first = path.split('/').next().expect("a name");
        text.replace(path, "PATH").replace(first, "FIRST")
    };
    assert_eq!(answer(hidden), answer(missing), "{tool} {hidden}");
}

#[test]
fn a_hidden_path_is_answered_like_a_missing_one() {
    let room = room();
    let pairs = [
        ("secret.txt", "secret.not"),
        ("dir/secret", "dir/secretx"),
        ("private", "privatx"),
        ("private/a.txt", "privatx/a.txt"),
    ];
    for (hidden, missing) in pairs {
        same(&room, "read", hidden, missing, |path| json!({ "path": path }));
        same(&room, "read", hidden, missing, |path| json!({"files": ["open.txt", path]}));
        same(&room, "list", hidden, missing, |path| json!({ "path": path }));
        same(&room, "find", hidden, missing, |path| json!({"pattern": "*", "path": path}));
        same(&room, "search", hidden, missing, |path| json!({"query": "needle", "path": path}));
        same(&room, "diff", hidden, missing, |path| json!({"a": "open.txt", "b": path}));
        same(
            &room,
            "edit",
            hidden,
            missing,
            |path| json!({"path": path, "edits": [{"old_text": "needle", "new_text": "x"}]}),
        );
        same(&room, "delete", hidden, missing, |path| json!({ "path": path }));
        same(&room, "move", hidden, missing, |path| json!({"from": path, "to": "x"}));
        same(&room, "copy", hidden, missing, |path| json!({"from": path, "to": "x"}));
        same(&room, "revert", hidden, missing, |path| json!({ "path": path }));
        same(&room, "history", hidden, missing, |path| json!({ "path": path }));
        same(&room, "read", hidden, missing, |path| json!({"path": path, "at": 0}));
    }
    // Of two names that are both denied, one of them there: nothing tells which.
    for (hidden, missing) in [("secret.txt", "secret.not"), ("private/a.txt", "private/b.txt")] {
        same(&room, "stat", hidden, missing, |path| json!({ "path": path }));
        same(&room, "write", hidden, missing, |path| json!({"path": path, "content": "x"}));
        same(&room, "write", hidden, missing, |path| json!({"path": path, "content": "x", "mode": "create"}));
        same(&room, "copy", hidden, missing, |path| json!({"from": "open.txt", "to": path, "overwrite": true}));
        same(&room, "mkdir", hidden, missing, |path| json!({"paths": [path]}));
        room.refused("write", json!({"path": hidden, "content": "x"}), "create_denied");
        assert_eq!(room.get(hidden), b"needle\n");
    }
}

#[test]
fn totals_do_not_count_what_is_hidden() {
    let room = room();
    let list = room.call("list", json!({}));
    assert_eq!(paths(&list["entries"]), ["dir", "docs", "docs/a.md", "open.txt"]);
    assert_eq!((&list["total"], &list["files"], &list["ignored"]), (&json!(4), &json!(2), &json!(0)));
    assert_eq!(room.call("find", json!({"pattern": "**/*"}))["total"], 4);
    let search = room.call("search", json!({"query": "needle"}));
    assert_eq!((&search["total"], &search["files_searched"]), (&json!(2), &json!(2)));
    assert_eq!(search["skipped"], json!({"binary": 0, "too_large": 0, "unreadable": 0}));
    assert_eq!(room.call("search", json!({"query": "needle", "mode": "keyword"}))["files_searched"], 2);
    let info = room.call("info", json!({})).to_string();
    assert!(!info.contains("secret") && !info.contains("private"), "{info}");
    // The directory seems empty, and is not.
    room.refused("delete", json!({"path": "dir"}), "not_empty");
    room.refused("delete", json!({"path": "dir", "recursive": true}), "not_empty");
    assert_eq!(room.get("dir/secret"), b"needle\n");
}

#[test]
fn links_give_no_way_round() {
    let room = room();
    std::os::unix::fs::symlink("secret.txt", room.host("link")).expect("a link");
    room.refused("read", json!({"path": "link"}), "not_found");
    room.refused("read", json!({"path": "dir/../secret.txt"}), "not_found");
    assert_eq!(room.call("search", json!({"query": "needle", "output": "files"}))["total"], 2);
    room.put("held/key", "needle\n");
    room.refused("move", json!({"from": "held", "to": "elsewhere"}), "create_denied");
    assert_eq!(room.get("held/key"), b"needle\n");
}

#[test]
fn history_hides_what_policy_hides() {
    let room = room();
    room.call("write", json!({"path": "open.txt", "content": "x"}));
    let wide = Room::new();
    wide.call("write", json!({"path": "secret.txt", "content": "x"}));
    assert_eq!(wide.call("history", json!({}))["total"], 1, "without the policy it is seen");
    assert_eq!(room.call("history", json!({}))["total"], 1);
    assert!(!room.call("history", json!({})).to_string().contains("secret"));
}

#[test]
fn what_is_read_only_is_read_and_not_changed() {
    let room = room();
    assert_eq!(room.call("read", json!({"path": "docs/a.md"}))["files"][0]["content"], "needle\n");
    let stat = room.call("stat", json!({"path": "docs/a.md"}));
    assert_eq!((&stat["access"]["read"], &stat["access"]["write"]), (&json!(true), &json!(false)));
    assert!(stat["access"]["why"].as_str().is_some_and(|why| why.contains("/docs/")), "{stat}");
    for (tool, arguments) in [
        ("write", json!({"path": "docs/a.md", "content": "x"})),
        ("write", json!({"path": "docs/new.md", "content": "x"})),
        ("edit", json!({"path": "docs/a.md", "edits": [{"old_text": "needle", "new_text": "x"}]})),
        ("delete", json!({"path": "docs/a.md"})),
        ("delete", json!({"path": "docs", "recursive": true})),
        ("move", json!({"from": "docs/a.md", "to": "a.md"})),
        ("move", json!({"from": "open.txt", "to": "docs/b"})),
        ("copy", json!({"from": "open.txt", "to": "docs/b"})),
        ("mkdir", json!({"paths": ["docs/d"]})),
    ] {
        room.refused(tool, arguments, "read_only");
    }
    assert_eq!(room.get("docs/a.md"), b"needle\n");
    let room = Room::of(Plan { read_only: true, ..Plan::default() });
    room.put("a", "x");
    room.refused("write", json!({"path": "a", "content": "y"}), "read_only");
    room.refused("mkdir", json!({"paths": ["d"]}), "read_only");
}

#[test]
fn what_is_not_versioned_says_so() {
    let policy = PolicySpec { unversioned: patterns(&["/target/"]), ..PolicySpec::default() };
    let room = Room::of(Plan { policy, ..Plan::default() });
    room.put("target/a", "1");
    assert_eq!(room.call("stat", json!({"path": "target/a"}))["access"]["versioned"], false);
    let written = room.call("write", json!({"path": "target/a", "content": "2"}));
    let history = room.call("history", json!({"path": "target/a", "limit": 1}));
    assert_eq!(history["operations"][0]["operation"], written["operation"]);
    assert_eq!(history["operations"][0]["changes"][0]["unversioned"], "policy");
}
