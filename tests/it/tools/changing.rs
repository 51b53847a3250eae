//! `write`, `move`, `copy`, `mkdir` and `delete`; operation ids; dry runs.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Barrier},
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use wardfs::tools::ToolCall;

use super::room::{Plan, Room, hash};

#[test]
fn a_file_is_made_with_the_directories_above_it() {
    let room = Room::new();
    let result = room.call("write", json!({"path": "a/b/c.txt", "content": "x\n"}));
    assert_eq!((&result["created"], &result["path"], &result["bytes"]), (&json!(true), &json!("a/b/c.txt"), &json!(2)));
    assert_eq!(result["hash"], hash("x\n"));
    assert_eq!(result["diff"], "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1 @@\n+x\n");
    assert_eq!((room.get("a/b/c.txt"), room.mode("a/b/c.txt")), (b"x\n".to_vec(), 0o644));
    let changes: Vec<&Value> = result["paths"].as_array().expect("paths").iter().map(|path| &path["path"]).collect();
    assert_eq!(changes, ["a", "a/b", "a/b/c.txt"]);
    let file = &result["paths"][2];
    assert_eq!(
        (&file["change"], &file["after"]["hash"], file.get("before")),
        (&json!("create"), &json!(hash("x\n")), None)
    );
    assert_eq!(file["after"]["version"], result["operation"]);
    let text = room.outcome("write", json!({"path": "a/b/c.txt", "content": "y\n"})).content;
    let text = format!("{text:?}");
    assert!(text.contains("wrote a/b/c.txt") && text.contains("+y"), "{text}");
}

#[test]
fn an_overwritten_file_keeps_what_it_is() {
    let room = Room::new();
    room.put("a", "old");
    fs::set_permissions(room.host("a"), fs::Permissions::from_mode(0o751)).expect("a mode");
    fs::hard_link(room.host("a"), room.host("b")).expect("a link");
    std::os::unix::fs::symlink("a", room.host("link")).expect("a link");
    let result = room.call("write", json!({"path": "link", "content": "new"}));
    assert_eq!((&result["created"], &result["path"]), (&json!(false), &json!("a")));
    assert_eq!(
        (&result["paths"][0]["before"]["hash"], &result["paths"][0]["after"]["hash"]),
        (&json!(hash("old")), &json!(hash("new")))
    );
    assert_eq!((room.get("a"), room.get("b"), room.mode("a")), (b"new".to_vec(), b"new".to_vec(), 0o751));
    assert!(room.host("link").is_symlink());
    let again = room.call("write", json!({"path": "a", "content": "new"}));
    assert_eq!((again.get("operation"), &again["hash"]), (None, &json!(hash("new"))), "nothing had to change");
    let more = room.call("write", json!({"path": "a", "content": "er"}));
    assert_eq!(more["paths"][0]["before"]["version"], result["operation"]);
    room.call("write", json!({"path": "a", "content": "", "executable": false}));
    assert_eq!(room.mode("a"), 0o640);
    room.call("write", json!({"path": "run.sh", "content": "", "executable": true}));
    assert_eq!(room.mode("run.sh"), 0o755);
}

#[test]
fn modes_of_writing() {
    let room = Room::new();
    room.call("write", json!({"path": "log", "content": "1\n", "mode": "append"}));
    room.call("write", json!({"path": "log", "content": "2\n", "mode": "append"}));
    assert_eq!(room.get("log"), b"1\n2\n");
    room.refused("write", json!({"path": "log", "content": "", "mode": "create"}), "already_exists");
    let names: Vec<Value> = (0..3)
        .map(|_| {
            room.call(
                    "write",
                    json!({"path": "log.tar.gz", "content": "x", "mode": "create", "on_exists": "rename"}),
                )["path"]
                    .clone()
        })
        .collect();
    assert_eq!(names, ["log.tar.gz", "log.tar-2.gz", "log.tar-3.gz"]);
    let bytes = b"\0\xff\x01";
    room.call("write", json!({"path": "bin", "content": STANDARD.encode(bytes), "encoding": "base64"}));
    assert_eq!(room.get("bin"), bytes);
    room.refused("write", json!({"path": "bin", "content": "?", "encoding": "base64"}), "invalid_argument");
    room.refused("write", json!({"path": "x", "content": "", "on_exists": "rename"}), "invalid_argument");
    room.refused(
        "write",
        json!({"path": "x", "content": "", "mode": "create", "expected_hash": hash("")}),
        "invalid_argument",
    );
    assert!(!room.exists("x"));
}

#[test]
fn expected_hashes_are_compared_with_bytes_not_times() {
    let room = Room::new();
    room.put("a", "one");
    let error =
        room.refused("write", json!({"path": "a", "content": "x", "expected_hash": hash("other")}), "hash_conflict");
    assert_eq!((&error["details"]["current_hash"], &error["path"]), (&json!(hash("one")), &json!("a")));
    room.refused("write", json!({"path": "a", "content": "x", "expected_hash": null}), "hash_conflict");
    room.refused("write", json!({"path": "none", "content": "x", "expected_hash": hash("")}), "hash_conflict");
    room.refused("write", json!({"path": "a", "content": "x", "expected_hash": "short"}), "invalid_argument");
    assert_eq!(room.get("a"), b"one");
    // Written anew with the same bytes: no conflict.
    room.put("a", "one");
    room.call("write", json!({"path": "a", "content": "two", "expected_hash": hash("one")}));
    let bare = hash("two").trim_start_matches("sha256:").to_owned();
    room.call("write", json!({"path": "a", "content": "three", "expected_hash": bare}));
    room.call("write", json!({"path": "a", "content": "four", "expected_hash": &hash("three")[..7 + 16]}));
    room.call("write", json!({"path": "b", "content": "new", "expected_hash": null}));
    assert_eq!((room.get("a"), room.get("b")), (b"four".to_vec(), b"new".to_vec()));
}

#[test]
fn what_cannot_be_written_is_refused() {
    let room = Room::new();
    room.put("dir/a", "x");
    std::os::unix::fs::symlink("/etc/wardfs-none", room.host("out")).expect("a link");
    std::os::unix::fs::symlink("none", room.host("dangling")).expect("a link");
    room.refused("write", json!({"path": "dir", "content": ""}), "is_a_directory");
    room.refused("write", json!({"path": "dir/a/b", "content": ""}), "not_a_directory");
    room.refused("write", json!({"path": "../a", "content": ""}), "outside_view");
    room.refused("write", json!({"path": "out", "content": ""}), "outside_view");
    room.refused("write", json!({"path": "dangling", "content": ""}), "not_found");
    room.refused("write", json!({"path": "x".repeat(256), "content": ""}), "invalid_argument");
    room.refused("write", json!({"path": "a"}), "invalid_argument");
    assert!(!std::path::Path::new("/etc/wardfs-none").exists());
}

#[test]
fn dry_runs_change_nothing() {
    let room = Room::new();
    room.put("a", "one\n");
    room.put("d/b", "x");
    let before = room.core.store().last_op();
    let diff = room.call("write", json!({"path": "a", "content": "two\n", "dry_run": true}));
    assert_eq!((&diff["dry_run"], diff.get("operation"), &diff["created"]), (&json!(true), None, &json!(false)));
    assert_eq!(diff["diff"], "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(diff["hash"], hash("two\n"));
    for (tool, arguments) in [
        ("write", json!({"path": "new/c", "content": "x"})),
        ("edit", json!({"path": "a", "edits": [{"old_text": "one", "new_text": "two"}]})),
        ("move", json!({"from": "a", "to": "z"})),
        ("copy", json!({"from": "d", "to": "e"})),
        ("mkdir", json!({"paths": ["m"]})),
        ("delete", json!({"path": "d", "recursive": true})),
    ] {
        let mut arguments = arguments;
        arguments["dry_run"] = json!(true);
        let result = room.call(tool, arguments);
        assert!(!result["paths"].as_array().expect("paths").is_empty(), "{tool}: {result}");
    }
    assert_eq!(room.core.store().last_op(), before);
    assert_eq!((room.get("a"), room.exists("d/b"), room.exists("new")), (b"one\n".to_vec(), true, false));
    room.refused(
        "write",
        json!({"path": "a", "content": "", "dry_run": true, "expected_hash": hash("no")}),
        "hash_conflict",
    );
}

#[test]
fn policy_can_want_hashes() {
    let mut plan = Plan::default();
    plan.settings.require_hash = true;
    let room = Room::of(plan);
    room.put("a", "x");
    room.refused("write", json!({"path": "a", "content": "y"}), "hash_required");
    room.refused("edit", json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}), "hash_required");
    room.refused("delete", json!({"path": "a"}), "hash_required");
    room.refused("move", json!({"from": "a", "to": "b"}), "hash_required");
    assert_eq!(room.get("a"), b"x");
    room.call("write", json!({"path": "a", "content": "y", "expected_hash": hash("x")}));
    room.call("write", json!({"path": "new", "content": "y"}));
    room.call("move", json!({"from": "a", "to": "b", "expected_hash": hash("y")}));
    room.call("delete", json!({"path": "b", "expected_hash": hash("y")}));
}

#[test]
fn things_move() {
    let room = Room::new();
    room.put("a", "x");
    room.put("d/e", "y");
    let moved = room.call("move", json!({"from": "a", "to": "new/b"}));
    let last = moved["paths"].as_array().and_then(|paths| paths.last()).expect("a path");
    assert_eq!((&last["path"], &last["from"], &last["change"]), (&json!("new/b"), &json!("a"), &json!("rename")));
    assert_eq!((&last["before"]["hash"], &last["after"]["hash"]), (&json!(hash("x")), &json!(hash("x"))));
    assert_eq!((room.exists("a"), room.get("new/b")), (false, b"x".to_vec()));
    room.call("move", json!({"from": "d", "to": "f"}));
    assert_eq!(room.get("f/e"), b"y");
    room.refused("move", json!({"from": "f/e", "to": "new/b"}), "already_exists");
    room.call("move", json!({"from": "f/e", "to": "new/b", "overwrite": true}));
    assert_eq!(room.get("new/b"), b"y");
    room.refused("move", json!({"from": "none", "to": "x"}), "not_found");
    room.refused("move", json!({"from": "new", "to": "new/b/c"}), "not_a_directory");
    room.refused("move", json!({"from": "new", "to": "new/c"}), "invalid_argument");
    room.refused("move", json!({"from": "new/b", "to": "x", "expected_hash": hash("no")}), "hash_conflict");
    assert_eq!(room.get("new/b"), b"y");
}

#[test]
fn things_are_copied() {
    let room = Room::new();
    room.put("d/a", "x");
    fs::set_permissions(room.host("d/a"), fs::Permissions::from_mode(0o700)).expect("a mode");
    std::os::unix::fs::symlink("a", room.host("d/link")).expect("a link");
    let copied = room.call("copy", json!({"from": "d", "to": "e"}));
    assert_eq!(copied["paths_total"], 3);
    assert_eq!((room.get("e/a"), room.mode("e/a"), room.host("e/link").is_symlink()), (b"x".to_vec(), 0o700, true));
    assert_eq!(room.get("d/a"), b"x");
    room.refused("copy", json!({"from": "d/a", "to": "e/a"}), "already_exists");
    room.put("d/a", "y");
    room.call("copy", json!({"from": "d/a", "to": "e/a", "overwrite": true, "expected_hash": hash("y")}));
    assert_eq!(room.get("e/a"), b"y");
    room.refused("copy", json!({"from": "d/a", "to": "d/a"}), "invalid_argument");
}

#[test]
fn things_go_from_one_source_to_another() {
    let room = Room::of(Plan { two_sources: true, ..Plan::default() });
    room.put("a", "x");
    room.call("copy", json!({"from": "one/a", "to": "two/a"}));
    room.call("move", json!({"from": "one/a", "to": "two/b/c"}));
    assert!(!room.exists("a"));
    assert_eq!(fs::read(room.host_two("a")).expect("a"), b"x");
    assert_eq!(fs::read(room.host_two("b/c")).expect("b/c"), b"x");
    let list = room.call("list", json!({}));
    assert_eq!(super::room::paths(&list["entries"]), ["one", "two", "two/a", "two/b", "two/b/c"]);
    assert_eq!(room.call("search", json!({"query": "x"}))["matches"][0]["path"], "two/a");
    room.refused("write", json!({"path": "three", "content": ""}), "read_only");
}

#[test]
fn directories_are_made() {
    let room = Room::new();
    room.put("file", "");
    let error = room.refused("mkdir", json!({"paths": ["a/b"]}), "not_found");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("parents")), "{error}");
    let made = room.call("mkdir", json!({"paths": ["a/b", "c", "c"], "parents": true}));
    assert_eq!(made["paths_total"], 3);
    assert!(room.host("a/b").is_dir() && room.host("c").is_dir());
    let again = room.call("mkdir", json!({"paths": ["a/b"]}));
    assert_eq!((again.get("operation"), &again["paths_total"]), (None, &json!(0)));
    room.refused("mkdir", json!({"paths": ["new", "file"]}), "already_exists");
    assert!(!room.exists("new"), "all or nothing");
    room.refused("mkdir", json!({"paths": []}), "invalid_argument");
}

#[test]
fn things_are_deleted_all_or_nothing() {
    let room = Room::new();
    room.put("a", "x\n");
    room.put("d/e/f", "y");
    room.refused("delete", json!({"path": "d"}), "not_empty");
    room.refused("delete", json!({"paths": ["a", "none"]}), "not_found");
    room.refused(
        "delete",
        json!({"paths": ["a", "d"], "recursive": true, "expected_hash": hash("x\n")}),
        "invalid_argument",
    );
    room.refused("delete", json!({"path": "a", "expected_hash": hash("y")}), "hash_conflict");
    room.refused("delete", json!({"path": ""}), "invalid_argument");
    room.refused("delete", json!({}), "invalid_argument");
    assert!(room.exists("a") && room.exists("d/e/f"));
    let deleted = room.call("delete", json!({"paths": ["a", "d"], "recursive": true}));
    assert_eq!(deleted["paths_total"], 4);
    assert!(
        deleted["diff"].as_str().is_some_and(|diff| diff.contains("--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")),
        "{deleted}"
    );
    assert!(!room.exists("a") && !room.exists("d"));
    room.call("revert", json!({"operation": deleted["operation"]}));
    assert_eq!((room.get("a"), room.get("d/e/f")), (b"x\n".to_vec(), b"y".to_vec()));
}

#[test]
fn the_same_operation_id_is_carried_out_once() {
    let room = Room::new();
    let arguments = json!({"path": "log", "content": "x\n", "mode": "append", "operation_id": "op-1"});
    let first = room.call("write", arguments.clone());
    let mut again = room.call("write", arguments);
    assert_eq!((first["replayed"] == true, again["replayed"] == true), (false, true));
    again["replayed"] = json!(false);
    assert_eq!(again, first);
    assert_eq!(room.get("log"), b"x\n");
    // The same request, written otherwise.
    let same = json!({"operation_id": "op-1", "mode": "append", "content": "x\n", "path": "log", "dry_run": false});
    assert_eq!(room.call("write", same)["replayed"], true);
    room.refused(
        "write",
        json!({"path": "log", "content": "y\n", "mode": "append", "operation_id": "op-1"}),
        "operation_id_reused",
    );
    room.refused("delete", json!({"path": "log", "operation_id": "op-1"}), "operation_id_reused");
    room.refused("write", json!({"path": "log", "content": "", "operation_id": "x".repeat(129)}), "invalid_argument");
    room.refused("write", json!({"path": "log", "content": "", "operation_id": ""}), "invalid_argument");
    room.call("write", json!({"path": "log", "content": "z", "operation_id": "ä".repeat(128)}));
    // What failed was not carried out, so it can be tried again.
    room.refused("write", json!({"path": "log/x", "content": "", "operation_id": "op-2"}), "not_a_directory");
    room.call("delete", json!({"path": "log"}));
    assert_eq!(room.call("write", json!({"path": "log/x", "content": "", "operation_id": "op-2"}))["replayed"], false);
    // Beside the arguments.
    let call = ToolCall { name: "mkdir".into(), arguments: json!({"paths": ["m"]}), operation_id: Some("op-3".into()) };
    for replayed in [false, true] {
        assert_eq!(room.tools.call(&call, &room.context).expect("mkdir").structured["replayed"], replayed);
    }
    // A dry run is no use of the id.
    room.call("mkdir", json!({"paths": ["n"], "operation_id": "op-4", "dry_run": true}));
    assert_eq!(room.call("mkdir", json!({"paths": ["o"], "operation_id": "op-4"}))["replayed"], false);
}

#[test]
fn calls_with_one_id_at_once_are_carried_out_once() {
    const CALLERS: usize = 16;
    let room = Arc::new(Room::new());
    let start = Arc::new(Barrier::new(CALLERS));
    let threads: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (room, start) = (Arc::clone(&room), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                room.call("write", json!({"path": "log", "content": "x\n", "mode": "append", "operation_id": "once"}))
            })
        })
        .collect();
    let done: Vec<Value> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert_eq!(room.get("log"), b"x\n");
    assert_eq!(done.iter().filter(|result| result["replayed"] == false).count(), 1);
}
