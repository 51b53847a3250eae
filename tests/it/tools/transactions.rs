//! `transaction`: many changes as one operation, or none.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};
use wardfs::policy::PolicySpec;

use super::room::{Plan, Room, hash, patterns};
use crate::harness::{Random, Setup};

fn op(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

/// Paths with contents and modes; directories end with a slash.
fn tree(root: &Path) -> BTreeMap<String, (Vec<u8>, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let (mut tree, mut dirs) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
            if path.is_dir() {
                tree.insert(name + "/", (Vec::new(), mode));
                dirs.push(path);
            } else {
                tree.insert(name, (std::fs::read(path).unwrap(), mode));
            }
        }
    }
    tree
}

fn filled() -> Room {
    let room = Room::new();
    for path in ["a", "b", "c", "d", "dir/x", "dir/y"] {
        room.put(path, format!("{path}\n"));
    }
    room
}

#[test]
fn all_kinds_of_change_are_one_operation() {
    let room = filled();
    let before = tree(&room.host(""));
    let done = room.call(
        "transaction",
        json!({"ops": [
            op("edit", json!({"path": "a", "edits": [{"old_text": "a", "new_text": "edited"}]})),
            op("write", json!({"path": "new/deep/file", "content": "new\n", "executable": true})),
            op("move", json!({"from": "b", "to": "new/b"})),
            op("copy", json!({"from": "dir", "to": "copied"})),
            op("mkdir", json!({"paths": ["made"]})),
            op("write", json!({"path": "made/in", "content": "in\n", "mode": "create"})),
            op("delete", json!({"paths": ["c", "dir/x"]})),
            op("write", json!({"path": "d", "content": "more\n", "mode": "append", "expected_hash": hash("d\n")})),
        ]}),
    );
    let text = |path: &str| String::from_utf8(room.get(path)).unwrap();
    assert_eq!((text("a"), text("new/deep/file"), text("new/b")), ("edited\n".into(), "new\n".into(), "b\n".into()));
    assert_eq!((text("copied/x"), text("made/in"), text("d")), ("dir/x\n".into(), "in\n".into(), "d\nmore\n".into()));
    assert_eq!(room.mode("new/deep/file") & 0o111, 0o111);
    assert!(!room.exists("b") && !room.exists("c") && !room.exists("dir/x") && room.exists("dir/y"));
    assert!(done["diff"].as_str().unwrap().contains("+edited"), "{done}");
    let history = room.call("history", json!({}));
    assert_eq!((&history["total"], &history["operations"][0]["note"]), (&json!(1), &json!("transaction")));
    assert_eq!(history["operations"][0]["operation"], done["operation"]);
    room.call("revert", json!({"operation": done["operation"]}));
    assert_eq!(tree(&room.host("")), before);
}

#[test]
fn one_refusal_refuses_all_and_names_it() {
    let policy = PolicySpec { deny: patterns(&["hidden*"]), read_only: patterns(&["/fixed"]), ..PolicySpec::default() };
    let room = Room::of(Plan { policy, ..Plan::default() });
    for path in ["a", "b", "fixed", "full/x"] {
        room.put(path, format!("{path}\n"));
    }
    let before = tree(&room.host(""));
    for (bad, code) in [
        (op("edit", json!({"path": "a", "edits": [{"old_text": "none", "new_text": ""}]})), "old_text_not_found"),
        (op("write", json!({"path": "a", "content": "", "expected_hash": hash("other")})), "hash_conflict"),
        (op("write", json!({"path": "a", "content": "", "mode": "create"})), "already_exists"),
        (op("edit", json!({"path": "missing", "edits": [{"old_text": "x", "new_text": ""}]})), "not_found"),
        (op("write", json!({"path": "fixed", "content": ""})), "read_only"),
        (op("write", json!({"path": "hidden", "content": ""})), "create_denied"),
        (op("delete", json!({"path": "hidden"})), "not_found"),
        (op("delete", json!({"path": "full"})), "not_empty"),
        (op("move", json!({"from": "a", "to": "b"})), "already_exists"),
        (op("move", json!({"from": "a", "to": "b", "surplus": 1})), "invalid_argument"),
        (op("write", json!({"path": "a", "content": "", "operation_id": "x"})), "invalid_argument"),
        (op("write", json!({"path": "a", "content": "", "dry_run": true})), "invalid_argument"),
        (op("write", json!({"path": "a", "content": "", "mode": "create", "on_exists": "rename"})), "invalid_argument"),
        (
            op("edit", json!({"path": "a", "partial": true, "edits": [{"old_text": "a", "new_text": ""}]})),
            "invalid_argument",
        ),
    ] {
        let fine = op("write", json!({"path": "new", "content": "x"}));
        let error = room.refused("transaction", json!({"ops": [fine, bad]}), code);
        assert_eq!(error["details"]["op"], 1, "{error}");
        assert!(error["message"].as_str().unwrap().starts_with("op 1 ("), "{error}");
        assert_eq!(tree(&room.host("")), before, "{bad}");
    }
    room.refused("transaction", json!({"ops": []}), "invalid_argument");
    let many = vec![op("mkdir", json!({"paths": ["m"]})); 257];
    room.refused("transaction", json!({ "ops": many }), "invalid_argument");
    room.refused("transaction", json!({"ops": [op("read", json!({"path": "a"}))]}), "invalid_argument");
    room.call("transaction", json!({ "ops": many[..256] }));
}

#[test]
fn a_file_may_be_written_again_and_again() {
    let room = filled();
    let edit = |old: &str, new: &str| op("edit", json!({"path": "a", "edits": [{"old_text": old, "new_text": new}]}));
    let ops = json!([
        edit("a", "one"),
        edit("one", "two"),
        op("write", json!({"path": "a", "content": "three\n", "mode": "append", "expected_hash": hash("two\n")})),
        op("write", json!({"path": "n", "content": "1\n"})),
        op("write", json!({"path": "n", "content": "2\n", "mode": "append", "executable": true})),
    ]);
    let dry = room.call("transaction", json!({"ops": ops, "dry_run": true}));
    assert_eq!((room.get("a"), room.exists("n"), &dry["paths_total"]), (b"a\n".to_vec(), false, &json!(2)));
    let done = room.call("transaction", json!({"ops": ops, "operation_id": "t"}));
    assert_eq!((room.get("a"), room.get("n")), (b"two\nthree\n".to_vec(), b"1\n2\n".to_vec()));
    assert_eq!(room.mode("n") & 0o100, 0o100);
    assert_eq!(done["paths"][0]["after"]["hash"], json!(hash("two\nthree\n")), "{done}");
    let again = room.call("transaction", json!({"ops": ops, "operation_id": "t"}));
    assert_eq!((&again["replayed"], &again["operation"]), (&json!(true), &done["operation"]));
    assert_eq!(room.get("n"), b"1\n2\n");
    room.call("revert", json!({"operation": done["operation"]}));
    assert_eq!((room.get("a"), room.exists("n")), (b"a\n".to_vec(), false));
    let stale = op("write", json!({"path": "a", "content": "", "expected_hash": hash("a\n")}));
    room.refused("transaction", json!({"ops": [edit("a", "b"), stale]}), "hash_conflict");
}

#[test]
fn what_depends_on_each_other_is_refused() {
    let room = filled();
    std::fs::hard_link(room.host("c"), room.host("same")).unwrap();
    let before = tree(&room.host(""));
    for ops in [
        json!([op("delete", json!({"path": "a"})), op("write", json!({"path": "a", "content": "x"}))]),
        json!([op("move", json!({"from": "a", "to": "z"})), op("write", json!({"path": "z", "content": "x"}))]),
        json!([op("move", json!({"from": "dir", "to": "z"})), op("write", json!({"path": "dir/x", "content": "x"}))]),
        json!([
            op("write", json!({"path": "dir/x", "content": "x"})),
            op("delete", json!({"path": "dir", "recursive": true}))
        ]),
        json!([
            op("write", json!({"path": "c", "content": "x"})),
            op("write", json!({"path": "same", "content": "y"}))
        ]),
        json!([op("write", json!({"path": "dir/x", "content": "x"})), op("copy", json!({"from": "dir", "to": "z"}))]),
        json!([op("move", json!({"from": "a", "to": "y"})), op("copy", json!({"from": "a", "to": "z"}))]),
        json!([op("move", json!({"from": "a", "to": "y"})), op("move", json!({"from": "b", "to": "y"}))]),
    ] {
        let error = room.refused("transaction", json!({ "ops": ops }), "invalid_argument");
        assert_eq!(error["details"]["op"], 1, "{error}");
        assert_eq!(tree(&room.host("")), before, "{ops}");
    }
}

#[test]
fn a_transaction_is_what_its_operations_are_one_by_one() {
    let names = ["a", "b", "c", "d", "dir", "dir/x", "dir/y", "new", "new/z", "e"];
    let (mut whole, mut refused) = (0, 0);
    for seed in 0..150 {
        let (one, other, mut random) = (filled(), filled(), Random::new(seed));
        let ops: Vec<Value> = (0..3)
            .map(|n| {
                let (path, to) = (names[random.below(names.len())], names[random.below(names.len())]);
                match random.below(6) {
                    0 | 1 => op("write", json!({"path": path, "content": format!("{n}\n")})),
                    2 => op("move", json!({"from": path, "to": to, "overwrite": true})),
                    3 => op("copy", json!({"from": path, "to": to})),
                    4 => op("delete", json!({"path": path, "recursive": true})),
                    _ => op("mkdir", json!({"paths": [path]})),
                }
            })
            .collect();
        let before = tree(&one.host(""));
        let outcome = one.outcome("transaction", json!({ "ops": ops }));
        if outcome.is_error {
            refused += 1;
            assert_eq!(tree(&one.host("")), before, "{seed} {ops:?}");
            continue;
        }
        whole += 1;
        for op in &ops {
            other.call(op["tool"].as_str().unwrap(), op["arguments"].clone());
        }
        assert_eq!(tree(&one.host("")), tree(&other.host("")), "{seed} {ops:?}");
        if let Some(operation) = outcome.structured.get("operation") {
            one.call("revert", json!({ "operation": operation }));
            assert_eq!(tree(&one.host("")), before, "{seed} {ops:?}");
        }
    }
    assert!(whole > 15 && refused > 15, "{whole} were made, {refused} refused");
}

#[test]
fn through_the_socket_the_mount_shows_all_at_once_and_an_open_file_holds_it_up() {
    let Some(mount) = Setup::new().file("a", "a\n").file("b", "b\n").mount() else { return };
    let mut client = mount.client();
    assert_eq!(std::fs::read(mount.at("a")).unwrap(), b"a\n");
    let ops =
        json!([op("write", json!({"path": "a", "content": "1\n"})), op("move", json!({"from": "b", "to": "c/b"})),]);
    let open = std::fs::OpenOptions::new().append(true).open(mount.at("a")).unwrap();
    let error = client.try_call("transaction", &json!({ "ops": ops })).unwrap_err();
    assert_eq!((error.code.as_str(), &error.body["retryable"]), ("writer_open", &json!(true)), "{}", error.body);
    assert!(mount.at("b").exists());
    drop(open);
    client.call("transaction", &json!({ "ops": ops }));
    assert_eq!(std::fs::read(mount.at("a")).unwrap(), b"1\n");
    assert!(!mount.at("b").exists() && mount.at("c/b").exists());
    client.call("revert", &json!({"last": "change"}));
    assert_eq!((std::fs::read(mount.at("a")).unwrap(), mount.at("c").exists()), (b"a\n".to_vec(), false));
}
