//! `edit`.

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc, thread};

use serde_json::{Value, json};

use super::room::{Room, hash};

fn edit(old: &str, new: &str) -> Value {
    json!({"old_text": old, "new_text": new})
}

#[test]
fn edits_are_made_together() {
    let room = Room::new();
    room.put("a", "one\ntwo\nthree\n");
    let edits = json!([edit("three", "3"), edit("one", "1"), {"insert_at_line": 4, "text": "four"}, {"lines": [2, 2], "text": "2\n2b", "expect": "two"}]);
    let result = room.call("edit", json!({"path": "a", "edits": edits, "expected_hash": hash("one\ntwo\nthree\n")}));
    assert_eq!(room.get("a"), b"1\n2\n2b\n3\nfour\n");
    assert_eq!((&result["path"], &result["hash"]), (&json!("a"), &json!(hash("1\n2\n2b\n3\nfour\n"))));
    let spans: Vec<(u64, u64)> = result["spans"]
        .as_array()
        .expect("spans")
        .iter()
        .map(|span| (span["edit"].as_u64().expect("a number"), span["line"].as_u64().expect("a number")))
        .collect();
    assert_eq!(spans, [(1, 1), (3, 2), (0, 3), (2, 4)]);
    assert!(result["diff"].as_str().is_some_and(|diff| diff.contains("-two\n") && diff.contains("+2b\n")), "{result}");
    room.call("edit", json!({"path": "a", "sequential": true, "edits": [edit("2b", "zwei"), edit("zwei", "ii")]}));
    assert_eq!(room.get("a"), b"1\n2\nii\n3\nfour\n");
}

#[test]
fn every_other_byte_stays() {
    let room = Room::new();
    for (before, after) in [
        (&b"\xef\xbb\xbfone\r\ntwo\r\n"[..], &b"\xef\xbb\xbf1\r\ntwo\r\n"[..]),
        (b"one\r\ntwo\nthree", b"1\r\ntwo\nthree"),
        (b"one\rtwo\r", b"1\rtwo\r"),
        (b"caf\xe9 one \xff\xfe", b"caf\xe9 1 \xff\xfe"),
        (b"x $& one $1", b"x $& 1 $1"),
    ] {
        room.put("a", before);
        fs::set_permissions(room.host("a"), fs::Permissions::from_mode(0o755)).expect("a mode");
        room.call("edit", json!({"path": "a", "edits": [edit("one", "1")]}));
        assert_eq!((room.get("a"), room.mode("a")), (after.to_vec(), 0o755), "{:?}", String::from_utf8_lossy(before));
    }
    room.put("a", "a\r\nb\r\n");
    room.call("edit", json!({"path": "a", "edits": [{"insert_at_line": 2, "text": "new\n"}, edit("b", "$& $1 \\1")]}));
    assert_eq!(room.get("a"), b"a\r\nnew\r\n$& $1 \\1\r\n");
}

#[test]
fn edits_that_do_not_fit_change_nothing() {
    let room = Room::new();
    let text = "fn one() {\n    two();\n}\nfn two() {\n    two();\n}\n";
    room.put("a", text);
    let refused = |edits: Value, code: &str| {
        let error = room.refused("edit", json!({"path": "a", "edits": edits}), code);
        assert_eq!(room.get("a"), text.as_bytes());
        error
    };
    let error = refused(json!([edit("", "x")]), "empty_old_text");
    assert_eq!(error["details"]["edit"], 0);
    let error = refused(json!([edit("fn one", "fn 1"), edit("    two();", "x")]), "old_text_not_unique");
    assert_eq!(error["details"], json!({"edit": 1, "count": 2, "lines": [2, 5]}));
    let error = refused(json!([edit("fn one() {\n  two();\n}", "x")]), "old_text_not_found");
    let near = &error["details"]["nearest"];
    assert_eq!((&near["line"], &near["differs"]), (&json!(1), &json!("whitespace")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nothing was written")), "{error}");
    refused(json!([edit("one() {", "x"), edit("{\n    two();\n}\nfn", "y")]), "edits_overlap");
    refused(json!([edit("one", "one")]), "no_change");
    refused(json!([{"lines": [9, 9], "text": "x"}]), "invalid_argument");
    refused(json!([{"lines": [1, 1], "text": "x", "expect": "other"}]), "invalid_argument");
    refused(json!([{"insert_at_line": 99, "text": "x"}]), "invalid_argument");
    refused(json!([]), "invalid_argument");
    for bad in [
        json!({}),
        json!({"old_text": "x"}),
        json!({"new_text": "x"}),
        json!({"old_text": "fn", "new_text": "x", "replace_all": true, "occurrence": 1}),
        json!({"old_text": "fn", "new_text": "x", "occurrence": 0}),
        json!({"old_text": "fn", "new_text": "x", "text": "y"}),
        json!({"insert_at_line": 1}),
        json!({"lines": [1, 1]}),
        json!({"lines": [1, 1], "text": "x", "replace_all": true}),
        json!({"insert_at_line": 1, "lines": [1, 1], "text": "x"}),
        json!({"old_text": "fn", "new_text": "x", "fuzzy": true}),
    ] {
        refused(json!([bad]), "invalid_argument");
    }
    room.refused("edit", json!({"path": "none", "edits": [edit("a", "b")]}), "not_found");
    room.refused("edit", json!({"path": "none", "expected_hash": hash(""), "edits": [edit("a", "b")]}), "not_found");
    room.put("bin", b"a\0b");
    room.put("utf16", b"\xff\xfea\0");
    for path in ["bin", "utf16"] {
        room.refused("edit", json!({"path": path, "edits": [edit("a", "b")]}), "not_text");
    }
}

#[test]
fn one_of_several_is_chosen() {
    let room = Room::new();
    let check = |more: Value, expected: &str| {
        room.put("a", "x\nx\nx\n");
        let mut one = edit("x", "y");
        one.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        room.call("edit", json!({"path": "a", "edits": [one]}));
        assert_eq!(String::from_utf8_lossy(&room.get("a")), expected);
    };
    check(json!({"replace_all": true}), "y\ny\ny\n");
    check(json!({"occurrence": 2}), "x\ny\nx\n");
    check(json!({"near_line": 3}), "x\nx\ny\n");
}

#[test]
fn partial_edits_report_what_was_not_made() {
    let room = Room::new();
    room.put("a", "one\ntwo\n");
    let edits = json!([edit("none", "x"), edit("one", "1"), edit("one\ntwo", "y"), edit("two", "2")]);
    let result = room.call("edit", json!({"path": "a", "partial": true, "edits": edits}));
    assert_eq!(room.get("a"), b"1\n2\n");
    let failed = result["failed"].as_array().expect("failures");
    let failed: Vec<_> = failed.iter().map(|failure| (&failure["edit"], &failure["error"]["code"])).collect();
    assert_eq!(failed, [(&json!(0), &json!("old_text_not_found")), (&json!(2), &json!("edits_overlap"))]);
    assert_eq!(result["spans"], json!([{"edit": 1, "line": 1}, {"edit": 3, "line": 2}]));
    room.refused(
        "edit",
        json!({"path": "a", "partial": true, "edits": [edit("no", "x"), edit("nix", "y")]}),
        "old_text_not_found",
    );
}

#[test]
fn a_stale_hash_tells_what_changed() {
    let room = Room::new();
    let numbers: String = (1..=20).map(|n| format!("{n}\n")).collect();
    let written = room.call("write", json!({"path": "a", "content": numbers}));
    let old = written["hash"].clone();
    room.call("edit", json!({"path": "a", "edits": [edit("2\n3\n", "2\ndrei\n")]}));
    let now = room.get("a");
    let stale = |edits: Value, more: Value| {
        let mut arguments = json!({"path": "a", "edits": edits, "expected_hash": old});
        arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        arguments
    };
    let error = room.refused("edit", stale(json!([edit("15", "x")]), json!({})), "hash_conflict");
    assert_eq!(error["details"]["current_hash"], hash(&now));
    let diff = error["details"]["diff"].as_str().expect("a diff");
    assert!(diff.contains("-3\n+drei\n"), "{diff}");
    assert_eq!(room.get("a"), now);
    let error =
        room.refused("edit", stale(json!([edit("3\n4\n", "x")]), json!({"on_conflict": "merge"})), "hash_conflict");
    assert!(error["details"]["disputed_lines"].is_array(), "{error}");
    assert_eq!(room.get("a"), now);
    let merged = room.call("edit", stale(json!([edit("15\n", "fünfzehn\n")]), json!({"on_conflict": "merge"})));
    assert_eq!(merged["merged"], true);
    let text = String::from_utf8(room.get("a")).expect("text");
    assert!(text.contains("drei\n") && text.contains("fünfzehn\n"), "{text}");
    // The edits are looked for in what they were made for.
    let error =
        room.refused("edit", stale(json!([edit("drei", "x")]), json!({"on_conflict": "merge"})), "old_text_not_found");
    assert_eq!(error["path"], "a");
    // What nobody recorded cannot be merged from.
    let unknown =
        json!({"path": "a", "edits": [edit("1", "x")], "expected_hash": hash("unknown"), "on_conflict": "merge"});
    let error = room.refused("edit", unknown, "hash_conflict");
    assert_eq!((error["details"].get("diff"), &error["details"]["current_hash"]), (None, &json!(hash(text))));
    room.refused("edit", json!({"path": "a", "edits": [edit("1", "x")], "on_conflict": "merge"}), "invalid_argument");
}

#[test]
fn edits_of_many_callers_all_land() {
    const CALLERS: usize = 64;
    let room = Arc::new(Room::new());
    let text: String = (0..CALLERS).map(|n| format!("slot {n} empty\n")).collect();
    room.put("a", &text);
    fs::hard_link(room.host("a"), room.host("b")).expect("a link");
    let threads: Vec<_> = (0..CALLERS)
        .map(|n| {
            let room = Arc::clone(&room);
            thread::spawn(move || {
                let path = if n % 2 == 0 { "a" } else { "b" };
                let change = edit(&format!("slot {n} empty"), &format!("slot {n} taken"));
                room.call("edit", json!({"path": path, "edits": [change]}))
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(String::from_utf8(room.get("a")).expect("text"), text.replace("empty", "taken"));
    assert_eq!(room.get("b"), room.get("a"));
    assert_eq!(room.call("history", json!({"limit": 1_000}))["total"], CALLERS, "each is recorded");
}
