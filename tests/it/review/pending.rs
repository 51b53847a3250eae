//! What is pending, and for whom: the net effect of what was done since it was accepted.

use serde_json::json;

use super::{entry, pending, review, reviewed, run, whole, write};
use crate::harness::{Client, Mounted, sh};

#[test]
fn each_agent_and_the_shells_have_their_own() {
    let Some(mount) = reviewed().file("a", "a\n").file("b", "b\n").file("c", "c\n").file("d/e", "e\n").mount() else {
        return;
    };
    assert!(pending(&mount).is_empty());
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", "A\n");
    write(&mut one, "new", "new\n");
    two.call("move", &json!({"from": "b", "to": "moved"}));
    two.call("delete", &json!({"path": "c"}));
    sh(mount.path(), "echo E > d/e; chmod 600 moved; mkdir made; printf '\\0\\1' > made/binary").ok();
    let all = [
        "- changed d/e",
        "- created made",
        "- created made/binary",
        "- metadata moved",
        "one changed a",
        "one created new",
        "two removed c",
        "two renamed moved <- b",
    ];
    let mut found = pending(&mount);
    found.sort();
    assert_eq!(found, all);
    assert_eq!(mount.status()["views"][0]["review"], json!({"pending": 8, "sessions": 3}));
    let only = review(&mount, &["list", "--session", "two"]);
    assert_eq!(super::lines(&only), ["two removed c", "two renamed moved <- b"]);
    assert_eq!(review(&mount, &["show", "--shells"])["pending"], 4);
    let shown = review(&mount, &["show", "a"]);
    let diff = entry(&shown, "a")["diff"].as_str().unwrap();
    assert_eq!(diff, "--- a/a\n+++ b/a\n@@ -1 +1 @@ hunk 1\n-a\n+A\n");
    let binary = review(&mount, &["show", "made/binary"]);
    assert!(entry(&binary, "made/binary")["diff"].as_str().unwrap().starts_with("Binary files"), "{binary}");
    // Accepting touches nothing, and is about what was named alone.
    review(&mount, &["accept", "--session", "two"]);
    review(&mount, &["accept", "made"]);
    let mut found = pending(&mount);
    found.sort();
    assert_eq!(found, ["- changed d/e", "- metadata moved", "one changed a", "one created new"]);
    assert_eq!(std::fs::read_to_string(mount.beside("moved")).unwrap(), "b\n");
    review(&mount, &["accept", "--all"]);
    assert!(pending(&mount).is_empty());
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), "A\n");
    // From here on it begins anew, by the file and not by its name.
    write(&mut one, "moved", "again\n");
    assert_eq!(pending(&mount), ["one changed moved"]);
    whole(&mount);
}

#[test]
fn what_was_changed_back_or_taken_back_is_not_pending() {
    let Some(mount) = reviewed().file("a", "a\n").file("b", "b\n").file("c", "c\n").mount() else { return };
    let mut one = mount.client().session("one");
    write(&mut one, "a", "A\n");
    write(&mut one, "a", "a\n");
    sh(mount.path(), "echo x > t; rm t; mv b bb; mv bb b").ok();
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    // By its own undo, by another's, and by the human's, who has no session.
    write(&mut one, "c", "C\n");
    assert_eq!(pending(&mount), ["one changed c"]);
    one.call("revert", &json!({"last": "change"}));
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    one.call("revert", &json!({"last": "undo"}));
    assert_eq!(pending(&mount), ["one changed c"]);
    crate::harness::Shell::of(mount.wardfs().arg("undo").current_dir(mount.path())).ok();
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    let op = write(&mut one, "made", "made\n");
    mount.client().session("two").call("revert", &json!({"operation": op}));
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    // Who takes a part of it back has no change of his own.
    write(&mut one, "b", "B\n");
    write(&mut one, "b", "BB\n");
    crate::harness::Shell::of(mount.wardfs().arg("undo").current_dir(mount.path())).ok();
    assert_eq!(std::fs::read_to_string(mount.beside("b")).unwrap(), "B\n");
    assert_eq!(pending(&mount), ["one changed b"]);
    // What is accepted, and then changed, is pending of who changes it, also by a revert.
    write(&mut one, "c", "C\n");
    review(&mount, &["accept", "--all"]);
    let mut two = mount.client().session("two");
    two.call("revert", &json!({"path": "c"}));
    assert_eq!(pending(&mount), ["two changed c"]);
}

#[test]
fn an_editors_save_is_a_change_of_the_one_file() {
    let Some(mount) = reviewed().file("a.txt", "one\n").file("b.txt", "b\n").mount() else { return };
    sh(mount.path(), "sed -i s/one/two/ a.txt").ok();
    sh(mount.path(), "cp b.txt b~; mv b.txt b.old; echo B > b.txt; rm b.old b~").ok();
    assert_eq!(pending(&mount), ["- changed a.txt", "- changed b.txt"]);
    review(&mount, &["accept", "a.txt"]);
    assert_eq!(pending(&mount), ["- changed b.txt"]);
}

#[test]
fn others_in_between_are_named_by_their_operations() {
    let Some(mount) = reviewed().file("a", "1\n").mount() else { return };
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    let first = write(&mut one, "a", "2\n");
    let second = write(&mut two, "a", "3\n");
    std::fs::write(mount.beside("a"), "beside\n").unwrap();
    let last = write(&mut one, "a", "4\n");
    let list = review(&mount, &["list"]);
    let mine = &list["sessions"][0];
    assert_eq!((&mine["session"], &mine["paths"][0]["operations"]), (&json!("one"), &json!([first, last])));
    let between = mine["paths"][0]["interleaved"].as_array().unwrap();
    assert_eq!((between[0]["operation"].as_u64(), &between[0]["session"]), (Some(second), &json!("two")), "{list:#}");
    assert_eq!((between.len(), &between[1]["channel"]), (2, &json!("external")), "{list:#}");
    let shell = run(&mount, &[]).ok();
    assert!(shell.contains(&format!("interleaved: operation {second} by two")), "{shell}");
}

#[test]
fn a_file_that_stays_open_is_pending_again_when_more_is_written() {
    use std::io::Write;
    let Some(mount) = reviewed().mount() else { return };
    let mut file = std::fs::File::create(mount.at("log")).unwrap();
    file.write_all(b"seen\n").unwrap();
    drop(rustix::io::dup(&file).unwrap());
    assert_eq!(pending(&mount), ["- created log"]);
    review(&mount, &["accept", "--all"]);
    assert!(pending(&mount).is_empty());
    file.write_all(b"unseen\n").unwrap();
    drop(file);
    assert!(!pending(&mount).is_empty(), "what was written after it was accepted is pending");
}

#[test]
fn what_policy_hides_is_never_told() {
    let Some(mount) = reviewed().file("secret", "s\n").file("free", "f\n").mount() else { return };
    sh(mount.path(), "echo x > secret; echo x > free").ok();
    std::fs::write(mount.setup().policy_file(), "review = true\ndeny = [\"secret\"]\n").unwrap();
    Client::connect(&mount.admin_socket()).request("reload", &json!({}));
    let said = review(&mount, &["show"]).to_string();
    assert!(!said.contains("secret") && said.contains("free"), "{said}");
    assert_eq!(mount.status()["views"][0]["review"]["pending"], 1);
}

#[test]
fn only_a_view_with_review_has_one_and_only_the_human_has_the_word() {
    let Some(mount) = Mounted::new() else { return };
    let refused = run(&mount, &["list"]);
    assert_eq!(refused.status, 3, "{refused:?}");
    assert!(refused.err.contains("set `review = true`"), "{refused:?}");
    assert_eq!(mount.status()["views"][0]["review"], json!(null));
    let Some(mount) = reviewed().file("a", "a\n").mount() else { return };
    let mut agent = mount.client().session("agent");
    write(&mut agent, "a", "A\n");
    let socket = mount.socket();
    let command = json!({"socket": socket, "review": {"action": "accept"}});
    for method in ["review", "review.accept", "accept"] {
        let answer = agent.request(method, &command);
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    let tools = agent.request("tools/list", &json!({}));
    assert!(!tools.to_string().contains("\"review"), "{tools}");
    for name in ["review", "accept", "reject"] {
        assert!(agent.request("tools/call", &json!({"name": name, "arguments": {}})).get("error").is_some());
    }
    assert_eq!(pending(&mount), ["agent changed a"]);
}

#[test]
fn turned_off_what_was_pending_stays_and_what_comes_is_not() {
    let Some(mount) = reviewed().file("a", "a\n").file("b", "b\n").mount() else { return };
    let mut one = mount.client().session("one");
    write(&mut one, "a", "A\n");
    let told = |text: &str| {
        std::fs::write(mount.setup().policy_file(), text).unwrap();
        let answer = Client::connect(&mount.admin_socket()).request("reload", &json!({}));
        assert_eq!(answer["result"], json!({}), "{answer}");
    };
    told("review = false\n");
    write(&mut one, "b", "B\n");
    assert_eq!(pending(&mount), ["one changed a"]);
    told("review = true\n");
    write(&mut one, "c", "C\n");
    assert_eq!(pending(&mount), ["one changed a", "one created c"]);
}
