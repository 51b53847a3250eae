//! What the host, the store or somebody else stands in the way of.

use serde_json::json;
use wardfs::{
    policy::PolicySpec,
    types::{Caller, EntryName, Ino},
    view::Access,
};

use super::room::{Plan, Room, hash, patterns};

#[test]
fn a_writer_in_the_mount_is_waited_for_and_named() {
    let room = Room::new();
    room.put("a", "x");
    let caller = Caller { uid: 0, gid: 0, pid: std::process::id() };
    let entry = room.view.lookup(Ino::ROOT, &EntryName::new(b"a").expect("a name")).expect("a");
    let access = Access { read: true, write: true, append: false, truncate: false };
    let open = room.view.open(&caller, entry.node.ino, access).expect("open for writing");
    let error = room.refused("write", json!({"path": "a", "content": "y"}), "writer_open");
    assert_eq!((&error["retryable"], &error["details"]["pid"]), (&json!(true), &json!(std::process::id())));
    assert!(error["details"]["command"].as_str().is_some_and(|command| !command.is_empty()), "{error}");
    room.refused("delete", json!({"path": "a"}), "writer_open");
    assert_eq!(room.call("read", json!({"path": "a"}))["files"][0]["content"], "x", "readers don't wait");
    // One that lets go while the tool waits.
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| room.call("write", json!({"path": "a", "content": "y"})));
        room.view.release(open.fh).expect("released");
        writing.join().expect("no panic");
    });
    assert_eq!(room.get("a"), b"y");
}

#[test]
fn large_files_are_hashed_and_changed_up_to_a_bound() {
    let room = Room::new();
    room.put_sparse("fits", 64 << 20);
    room.put_sparse("over", (64 << 20) + 1);
    let read = |path: &str, more: serde_json::Value| {
        let mut arguments = json!({"path": path, "encoding": "base64", "bytes": [(64 << 20) - 2, 100]});
        arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        room.call("read", arguments)["files"][0].take()
    };
    let fits = read("fits", json!({}));
    assert!(fits["hash"].is_string());
    assert_eq!(fits["bytes"], json!([(64 << 20) - 2, 2]));
    let over = read("over", json!({}));
    assert_eq!(
        (&over["hash"], &over["bytes"], &over["lines"]),
        (&json!(null), &json!([(64 << 20) - 2, 3]), &json!(null))
    );
    assert!(read("over", json!({"hash": true}))["hash"].is_string());
    let edit = json!({"path": "over", "edits": [{"old_text": "x", "new_text": "y"}]});
    let error = room.refused("edit", edit, "too_large");
    assert_eq!(error["details"], json!({"size": (64 << 20) + 1, "limit": 64 << 20}));
    room.refused("write", json!({"path": "over", "content": "x", "mode": "append"}), "too_large");
    room.refused("diff", json!({"a": "over", "b": "fits"}), "too_large");
}

#[test]
fn what_could_not_be_brought_back_is_not_removed() {
    let room = Room::of(Plan { far: true, ..Plan::default() });
    room.put("dir/a", "x");
    room.put_sparse("dir/large", (64 << 20) + 1);
    for arguments in [json!({"path": "dir/large"}), json!({"path": "dir", "recursive": true})] {
        let error = room.refused("delete", arguments, "unversionable");
        assert_eq!((&error["path"], &error["details"]["reason"]), (&json!("dir/large"), &json!("size")));
    }
    assert!(room.exists("dir/a") && room.exists("dir/large"));
}

#[test]
fn what_was_not_kept_cannot_be_read() {
    let policy = PolicySpec { unversioned: patterns(&["/target/"]), ..PolicySpec::default() };
    let room = Room::of(Plan { policy, ..Plan::default() });
    let first = room.call("write", json!({"path": "target/a", "content": "1"}))["operation"].clone();
    room.call("write", json!({"path": "target/a", "content": "2"}));
    let error = room.refused("read", json!({"path": "target/a", "at": first}), "version_pruned");
    assert_eq!(error["details"]["reason"], "policy");
}

#[test]
fn a_file_on_another_file_system_is_changed_and_brought_back() {
    let room = Room::of(Plan { far: true, ..Plan::default() });
    room.put("a", "one\n");
    let edited = room.call("edit", json!({"path": "a", "edits": [{"old_text": "one", "new_text": "two"}]}));
    assert_eq!(edited["hash"], hash("two\n"));
    room.call("revert", json!({"operation": edited["operation"]}));
    assert_eq!(room.get("a"), b"one\n");
}

#[test]
fn what_the_host_is_using_is_told_by_its_error() {
    let room = Room::new();
    std::fs::copy("/bin/sleep", room.host("program")).expect("a program");
    // With two names it is changed in place.
    std::fs::hard_link(room.host("program"), room.host("other")).expect("a link");
    let mut running = std::process::Command::new(room.host("program")).arg("600").spawn().expect("it runs");
    let error = room.refused("write", json!({"path": "program", "content": "x"}), "host_error");
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert_eq!((&error["details"]["errno"], &error["retryable"]), (&json!("ETXTBSY"), &json!(true)), "{error}");
    room.call("write", json!({"path": "program", "content": "x"}));
    assert_eq!(room.get("other"), b"x");
}
