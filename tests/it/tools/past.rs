//! `history`, `changes`, `revert`, `checkpoint`, and reading the past.

use serde_json::{Value, json};
use wardfs::{policy::PolicySpec, types::Timestamp};

use super::room::{Plan, Room, hash, patterns};

fn write(room: &Room, path: &str, content: &str) -> Value {
    room.call("write", json!({"path": path, "content": content}))["operation"].clone()
}

fn operations(result: &Value) -> Vec<u64> {
    let list = result["operations"].as_array().expect("operations");
    list.iter().map(|operation| operation["operation"].as_u64().expect("a number")).collect()
}

#[test]
fn history_tells_who_did_what() {
    let room = Room::new();
    let first = write(&room, "a", "1\n");
    let second = write(&room, "a", "2\n");
    write(&room, "b", "x");
    let history = room.call("history", json!({"path": "a"}));
    assert_eq!(json!(operations(&history)), json!([second, first]));
    let newest = &history["operations"][0];
    assert_eq!(
        (&newest["kind"], &newest["note"], &newest["actor"]["channel"]),
        (&json!("edit"), &json!("write"), &json!("tool"))
    );
    assert_eq!((&newest["actor"]["session"], &newest["actor"]["view"]), (&json!("s1"), &json!("test")));
    let change = &newest["changes"][0];
    assert_eq!((&change["path"], &change["change"]), (&json!("a"), &json!("write")));
    assert_eq!((&change["before"]["hash"], &change["after"]["hash"]), (&json!(hash("1\n")), &json!(hash("2\n"))));
    assert_eq!(room.call("history", json!({}))["total"], 3);
    assert_eq!(room.call("history", json!({"actor": "s1"}))["total"], 3);
    assert_eq!(room.call("history", json!({"actor": {"session": "other"}}))["total"], 0);
    assert_eq!(room.call("history", json!({"since": first}))["total"], 2);
    assert_eq!(json!(operations(&room.call("history", json!({"until": first})))), json!([first]));
    assert_eq!(json!(operations(&room.call("history", json!({"operation": second})))), json!([second]));
    room.refused("history", json!({"operation": 999}), "version_not_found");
    room.refused("history", json!({"actor": {}}), "invalid_argument");
    room.refused("history", json!({"actor": {"channel": "mail"}}), "invalid_argument");
    room.refused("history", json!({"actor": {"sesion": "s1"}}), "invalid_argument");
    let text = format!("{:?}", room.outcome("history", json!({"path": "a"})).content);
    assert!(text.contains("[write] by tool s1") && text.contains("write a"), "{text}");
}

#[test]
fn pages_of_history_have_no_gap() {
    let room = Room::new();
    let mut all: Vec<u64> = (0..10).map(|n| write(&room, "a", &n.to_string()).as_u64().expect("a number")).collect();
    all.reverse();
    for limit in [1, 3, 9, 10] {
        let (mut found, mut cursor) = (Vec::new(), json!(null));
        loop {
            let page = room.call("history", json!({"limit": limit, "cursor": cursor}));
            found.extend(operations(&page));
            let Some(next) = page.get("next") else {
                assert_eq!((&page["total"], &page["truncated"]), (&json!(10), &json!(false)));
                break;
            };
            cursor = next.clone();
        }
        assert_eq!(found, all, "by {limit}");
    }
}

#[test]
fn the_past_is_read_and_compared() {
    let room = Room::new();
    let first = write(&room, "a", "1\n");
    room.call("checkpoint", json!({"name": "then", "note": "first"}));
    let time = Timestamp::now().rfc3339();
    write(&room, "a", "2\n");
    let deleted = room.call("delete", json!({"path": "a"}))["operation"].clone();
    for at in [
        json!(first),
        json!({"operation": first}),
        json!({"version": first}),
        json!("then"),
        json!({"checkpoint": "then"}),
        json!(time),
        json!({"time": time}),
        json!(first.to_string()),
    ] {
        let read = room.call("read", json!({"path": "a", "at": at}));
        assert_eq!(
            (&read["files"][0]["content"], &read["files"][0]["hash"]),
            (&json!("1\n"), &json!(hash("1\n"))),
            "{at}"
        );
    }
    assert_eq!(room.call("read", json!({"path": "a", "at": {"before": deleted}}))["files"][0]["content"], "2\n");
    let diff =
        room.call("diff", json!({"a": {"path": "a", "at": "then"}, "b": {"path": "a", "at": {"before": deleted}}}));
    assert_eq!(diff["diff"], "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n");
    assert_eq!(room.call("search", json!({"query": "1", "path": "a", "at": "then"}))["matches"][0]["line"], 1);
    room.refused("read", json!({"path": "a"}), "not_found");
    room.refused("read", json!({"path": "a", "at": deleted}), "not_found");
    room.refused("read", json!({"path": "a", "at": "no such"}), "version_not_found");
    room.refused("read", json!({"path": "a", "at": 999}), "version_not_found");
    assert_eq!(room.call("search", json!({"query": "1", "at": "then"}))["matches"][0]["path"], "a");
    for name in ["", "7", &"x".repeat(129)] {
        room.refused("checkpoint", json!({ "name": name }), "invalid_argument");
    }
}

#[test]
fn a_name_is_given_once_for_one_operation_id() {
    let room = Room::new();
    write(&room, "a", "1\n");
    let asked = json!({"name": "n", "operation_id": "c1"});
    let first = room.call("checkpoint", asked.clone());
    assert_eq!((&first["operation"], &first["replayed"]), (&json!(1), &json!(false)));
    write(&room, "a", "2\n");
    let again = room.call("checkpoint", asked);
    assert_eq!((&again["operation"], &again["time"], &again["replayed"]), (&json!(1), &first["time"], &json!(true)));
    assert_eq!(room.call("read", json!({"path": "a", "at": "n"}))["files"][0]["content"], "1\n");
    room.refused("checkpoint", json!({"name": "m", "operation_id": "c1"}), "operation_id_reused");
    assert_eq!(room.call("checkpoint", json!({"name": "n"}))["operation"], 2);
}

#[test]
fn an_answer_holds_so_many_changes_and_no_more() {
    let room = Room::new();
    let names = |n: usize| (0..100).map(|k| format!("d{n}/{k}")).collect::<Vec<_>>();
    for n in 0..102 {
        room.call("mkdir", json!({"paths": names(n), "parents": true}));
    }
    let history = room.call("history", json!({"limit": 1000}));
    let told: Vec<usize> =
        history["operations"].as_array().unwrap().iter().map(|one| one["changes"].as_array().unwrap().len()).collect();
    assert_eq!((told.len(), told[0], told[99], told[101]), (102, 100, 100, 1));
    assert_eq!(history["operations"][101]["changes_total"], 101);
    assert_eq!(history["total"], 102);
}

#[test]
fn changes_are_taken_back() {
    let room = Room::new();
    write(&room, "a", "1\n");
    let second = write(&room, "a", "2\n");
    let created = write(&room, "b", "x");
    let dry = room.call("revert", json!({"path": "a", "dry_run": true}));
    assert_eq!((&dry["reverted"], dry.get("operation")), (&json!([second]), None));
    assert_eq!(dry["diff"], "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+1\n");
    assert_eq!(room.get("a"), b"2\n");
    let reverted = room.call("revert", json!({"path": "a"}));
    assert_eq!((room.get("a"), &reverted["reverted"]), (b"1\n".to_vec(), &json!([second])));
    room.call("revert", json!({"operation": reverted["operation"]}));
    assert_eq!(room.get("a"), b"2\n", "a revert can be reverted");
    room.call("revert", json!({"operation": created}));
    assert!(!room.exists("b"));
    room.call("revert", json!({"session": "s1"}));
    assert!(!room.exists("a"));
    for arguments in [
        json!({}),
        json!({"path": "a", "operation": 1}),
        json!({"operation": 1, "to": 1}),
        json!({"path": "a", "since": 1}),
        json!({"actor": {}}),
        json!({"session": "a", "actor": "b"}),
        json!({"time": "never"}),
    ] {
        room.refused("revert", arguments, "invalid_argument");
    }
    room.refused("revert", json!({"operation": 999}), "version_not_found");
    room.refused("revert", json!({"path": "nothing"}), "version_not_found");
    room.refused("revert", json!({"checkpoint": "none"}), "version_not_found");
}

#[test]
fn all_since_a_checkpoint_is_taken_back() {
    let room = Room::new();
    write(&room, "a", "1\n");
    room.call("checkpoint", json!({"name": "start"}));
    write(&room, "a", "2\n");
    write(&room, "d/b", "x");
    room.call("move", json!({"from": "a", "to": "d/c"}));
    let back = json!({"checkpoint": "start"});
    room.call("revert", with(&back, &token(&room, &back)));
    assert_eq!((room.get("a"), room.exists("d")), (b"1\n".to_vec(), false));
}

#[test]
fn later_changes_stand_in_the_way() {
    let room = Room::new();
    write(&room, "a", "1\n");
    let second = write(&room, "a", "2\n");
    room.put("a", "3\n");
    let error = room.refused("revert", json!({"operation": second}), "revert_conflict");
    let conflict = &error["details"]["conflicts"][0];
    assert_eq!((&conflict["path"], &conflict["conflict"]), (&json!("a"), &json!("content")));
    assert!(conflict["reverted_diff"].as_str().is_some_and(|diff| diff.contains("-1\n+2\n")), "{conflict}");
    assert!(conflict["later_diff"].as_str().is_some_and(|diff| diff.contains("-2\n+3\n")), "{conflict}");
    assert_eq!(room.get("a"), b"3\n");
    let dry = room.call("revert", json!({"operation": second, "dry_run": true}));
    assert_eq!((&dry["conflicts"][0]["path"], &dry["paths_total"]), (&json!("a"), &json!(0)));
    let skipped = room.call("revert", json!({"operation": second, "on_conflict": "skip"}));
    assert_eq!((&skipped["conflicts"][0]["path"], room.get("a")), (&json!("a"), b"3\n".to_vec()));
    room.call("revert", json!({"operation": second, "on_conflict": "aside"}));
    assert_eq!((room.get("a"), room.get(&format!("a.{second}.reverted"))), (b"3\n".to_vec(), b"1\n".to_vec()));
    room.call("revert", json!({"operation": second, "on_conflict": "force"}));
    assert_eq!(room.get("a"), b"1\n");
}

#[test]
fn a_token_stands_for_the_plan_of_its_dry_run() {
    let room = Room::new();
    for n in 0..101 {
        write(&room, &format!("d{n}"), "");
    }
    let dry = room.call("revert", json!({"session": "s1", "dry_run": true}));
    room.refused("revert", json!({"session": "s1", "confirm_token": "0123456789abcdef"}), "approval_required");
    assert!(room.exists("d0"));
    room.call("revert", json!({"session": "s1", "confirm_token": dry["confirm_token"]}));
    assert!(!room.exists("d0") && !room.exists("d100"));
}

/// A token that a dry run of `arguments` gives.
fn token(room: &Room, arguments: &Value) -> Value {
    let mut asked = arguments.clone();
    asked["dry_run"] = json!(true);
    room.call("revert", asked)["confirm_token"].clone()
}

fn with(arguments: &Value, token: &Value) -> Value {
    let mut asked = arguments.clone();
    asked["confirm_token"] = token.clone();
    asked
}

/// Forty files that stay, then a checkpoint, then as many as are asked for.
fn grown(count: usize) -> Room {
    let room = Room::new();
    for n in 0..40 {
        room.put(format!("kept{n}"), "");
    }
    room.call("checkpoint", json!({"name": "start"}));
    for n in 0..count {
        write(&room, &format!("new{n}"), "");
    }
    room
}

#[test]
fn going_back_to_a_moment_needs_a_token_if_that_removes_more_than_a_tenth_of_the_tree() {
    let room = grown(4);
    let back = json!({"checkpoint": "start"});
    assert_eq!(token(&room, &back), Value::Null);
    write(&room, "new4", "");
    let error = room.refused("revert", back.clone(), "approval_required");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("dry_run")), "{error}");
    assert_eq!(error["details"], json!({"removes": 5}));
    assert!(room.exists("new0"));
    // What an operation or a session did is no moment.
    room.call("revert", json!({"session": "s1"}));
    assert!(!room.exists("new0") && room.exists("kept0"));
}

#[test]
fn a_token_is_good_once_and_for_the_plan_that_was_shown() {
    let room = grown(101);
    let back = json!({"checkpoint": "start"});
    let first = token(&room, &back);
    room.refused("revert", with(&json!({"path": ".", "to": {"checkpoint": "start"}}), &first), "approval_required");
    room.put("kept0", "changed");
    write(&room, "one more", "");
    let error = room.refused("revert", with(&back, &first), "approval_required");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("another plan")), "{error}");
    assert!(room.exists("new0"));
    let second = token(&room, &back);
    let done = room.call("revert", with(&back, &second));
    assert!(!room.exists("new0"));
    room.call("revert", json!({"operation": done["operation"]}));
    assert!(room.exists("new0"));
    room.refused("revert", with(&back, &second), "approval_required");
    assert!(room.exists("new0"));
}

#[test]
fn a_revert_on_the_condition_that_nothing_came_since() {
    let policy = PolicySpec { deny: patterns(&["hidden"]), ..PolicySpec::default() };
    let room = Room::of(Plan { policy, ..Plan::default() });
    write(&room, "a", "1\n");
    let head = write(&room, "a", "2\n");
    let newer = write(&room, "b", "1\n");
    let error = room.refused("revert", json!({"path": "a", "if_head": head}), "head_moved");
    assert_eq!((&error["details"]["operation"], room.get("a")), (&newer, b"2\n".to_vec()));
    assert_eq!(
        room.refused("revert", json!({"path": "a", "if_head": head, "dry_run": true}), "head_moved")["applied"],
        false
    );
    room.refused("revert", json!({"path": "a", "if_head": 1_000_000}), "version_not_found");
    room.put("hidden", "x");
    room.call("revert", json!({"path": "a", "if_head": newer}));
    assert_eq!(room.get("a"), b"1\n");
}

#[test]
fn changes_go_on_where_the_last_answer_ended() {
    let room = Room::new();
    write(&room, "a", "0");
    let start = room.call("changes", json!({}));
    assert_eq!(start["operations"], json!([]));
    let mut next = start["next"].clone();
    let mut seen = Vec::new();
    let mut expected = Vec::new();
    for n in 0..3 {
        for k in 0..=n {
            expected.push(write(&room, "a", &format!("{n} {k}")).as_u64().expect("a number"));
        }
        let page = room.call("changes", json!({"since": next}));
        seen.extend(operations(&page));
        assert_eq!(page["more"], false);
        next = page["next"].clone();
    }
    assert_eq!(seen, expected);
    let only = room.call("changes", json!({"since": start["next"], "actor": {"channel": "fuse"}}));
    assert_eq!(only["operations"], json!([]));
    room.refused("changes", json!({"since": "nonsense"}), "invalid_argument");
    // A wait ends with the next change.
    let (tools, context) = (std::sync::Arc::clone(&room.tools), room.context.clone());
    let arguments = json!({"since": next, "wait_ms": 60_000});
    let call = wardfs::tools::ToolCall { name: "changes".into(), arguments, operation_id: None };
    let waiting = std::thread::spawn(move || tools.call(&call, &context).expect("changes").structured);
    let last = write(&room, "a", "end");
    assert_eq!(json!(operations(&waiting.join().expect("no panic"))), json!([last]));
}

#[test]
fn more_changes_than_one_answer_holds() {
    let room = Room::new();
    let start = room.call("changes", json!({}));
    let expected: Vec<u64> = (0..450).map(|n| write(&room, "a", &n.to_string()).as_u64().expect("a number")).collect();
    let (mut seen, mut next) = (Vec::new(), start["next"].clone());
    loop {
        let page = room.call("changes", json!({"since": next}));
        seen.extend(operations(&page));
        next = page["next"].clone();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(seen, expected);
}
