//! Names and totals: what is denied shows in no find, search, list, history, diff or count.

use serde_json::{Value, json};

use super::{SECRET, guarded};
use crate::harness::Setup;

/// Fails if `body` names anything hidden.
#[track_caller]
fn clean(body: &Value) {
    let text = body.to_string();
    for word in [SECRET, ".env", "private", "key.pem", "notes.txt"] {
        assert!(!text.contains(word), "gives away {word}: {text}");
    }
}

#[test]
fn find_list_and_search() {
    let Some(mount) = guarded().mount() else { return };
    let mut client = mount.client();
    clean(&client.call("find", &json!({"pattern": "**", "hidden": true, "ignored": true})));
    clean(&client.call("find", &json!({"pattern": "*.pem", "match": "name", "hidden": true, "ignored": true})));
    clean(&client.call("list", &json!({"path": ".", "depth": 10, "hidden": true})));
    clean(&client.call("search", &json!({"query": "hunter2", "hidden": true, "ignored": true})));
    clean(&client.call(
        "search",
        &json!({"query": "unt.r2", "mode": "regex", "output": "files", "hidden": true, "ignored": true}),
    ));
}

#[test]
fn totals_are_those_of_a_tree_without_it() {
    let Some(with) = guarded().mount() else { return };
    let without = Setup::new()
        .file("free.txt", "free\n")
        .file("dir/free.txt", "free too\n")
        .file("locked/a.txt", "locked\n")
        .policy("deny = [\".env*\", \"/private\"]\nread_only = [\"/locked/**\", \"/locked\"]\n");
    let without = without.mount().unwrap();
    for (tool, arguments) in [
        ("find", json!({"pattern": "**", "hidden": true, "ignored": true})),
        ("search", json!({"query": "free", "hidden": true, "ignored": true})),
        ("search", json!({"query": "e", "output": "counts", "hidden": true, "ignored": true})),
        ("list", json!({"path": ".", "depth": 10, "hidden": true})),
    ] {
        let mut answers = [&with, &without].map(|mount| mount.client().call(tool, &arguments));
        answers.iter_mut().for_each(forget_times);
        assert_eq!(answers[0], answers[1], "{tool} {arguments}");
    }
}

/// Takes out what differs between two trees of the same content.
fn forget_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.contains("time") && !key.ends_with("_ms"));
            map.values_mut().for_each(forget_times);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn history_and_diff() {
    let Some(mut mount) = Setup::new().file("free.txt", "1\n").policy("").mount() else { return };
    // While it is allowed, it makes history.
    for (path, content) in [(".env", SECRET), ("private/key.pem", SECRET), ("free.txt", "2\n")] {
        mount.client().call("write", &json!({"path": path, "content": content}));
    }
    mount.client().call("delete", &json!({"path": "private", "recursive": true}));
    mount.umount().ok();
    std::fs::write(mount.setup().policy_file(), "deny = [\".env*\", \"/private\"]\n").unwrap();
    mount.mount_again();
    let mut client = mount.client();
    let all = client.history(None);
    assert!(all.iter().any(|operation| operation.to_string().contains("free.txt")), "no history at all: {all:?}");
    all.iter().for_each(clean);
    for path in [".env", "private", "private/key.pem"] {
        if let Ok(body) = client.try_call("history", &json!({"path": path})) {
            assert_eq!(body["operations"], json!([]), "{path}");
        }
        let code = client.refused("diff", &json!({"a": path, "b": "free.txt"}));
        assert_eq!(code, "not_found", "diff of {path}");
        let code = client.refused("revert", &json!({"path": path}));
        assert!(["not_found", "version_not_found"].contains(&&*code), "revert of {path}: {code}");
    }
    assert!(!mount.beside("private").exists());
    clean(&client.call("info", &json!({})));
}

#[test]
fn changes() {
    let Some(mount) = guarded().mount() else { return };
    let mut client = mount.client();
    let cursor = client.call("changes", &json!({}))["next"].clone();
    std::fs::write(mount.at("free.txt"), "2\n").unwrap();
    std::fs::write(mount.beside(".env"), "other").unwrap();
    let body = client.call("changes", &json!({"since": cursor}));
    assert!(body.to_string().contains("free.txt"), "{body}");
    clean(&body);
}
