//! Rejecting: what is pending is taken back, as one operation; after that it is pending no longer.

use serde_json::json;

use super::{pending, review, reviewed, run, whole, write};
use crate::harness::{Shell, Times, Tree, sh};

#[test]
fn everything_goes_back_and_can_be_had_again() {
    let Some(mount) = reviewed().file("a", "a\n").file("b", "b\n").file("c", "c\n").file("d/e", b"\0\x01\x02").mount()
    else {
        return;
    };
    let first = Tree::of(mount.source(), Times::Ignore);
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", "A\n");
    two.call("move", &json!({"from": "b", "to": "d/moved"}));
    two.call("delete", &json!({"path": "c"}));
    sh(mount.path(), "mkdir x; echo new > x/new; printf '\\0\\7' > d/e; chmod 600 a").ok();
    let changed = Tree::of(mount.source(), Times::Ignore);
    let dry = review(&mount, &["reject", "--all", "-n"]);
    assert!(dry["dry_run"] == true && pending(&mount).len() == 7, "{dry}");
    let done = review(&mount, &["reject", "--all", "--yes"]);
    Tree::of(mount.source(), Times::Ignore).same(&first, "rejected");
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    // It is in the history, as one operation, and can be taken back.
    let history = mount.client().history(None);
    assert_eq!((&history[0]["operation"], &history[0]["kind"]), (&done["operation"], &json!("revert")));
    Shell::of(mount.wardfs().args(["revert", "--operation", &done["operation"].to_string()])).ok();
    Tree::of(mount.source(), Times::Ignore).same(&changed, "had again");
    // It is his who had it again: what the others did is settled.
    let again = pending(&mount);
    assert!(again.len() >= 6 && again.iter().all(|line| line.starts_with("- ")), "{again:?}");
    whole(&mount);
}

#[test]
fn one_agent_goes_back_and_the_other_stays() {
    let Some(mount) = reviewed().file("a", "a\n").file("b", "b\n").mount() else { return };
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", "A\n");
    write(&mut two, "b", "B\n");
    write(&mut one, "c", "C\n");
    review(&mount, &["reject", "--session", "one", "--yes"]);
    assert_eq!(sh(mount.source(), "cat a b; ls").ok(), "a\nB\na\nb\n");
    assert_eq!(pending(&mount), ["two changed b"]);
    review(&mount, &["reject", "b"]);
    assert_eq!(sh(mount.source(), "cat a b").ok(), "a\nb\n");
    assert!(pending(&mount).is_empty());
    // What it does next is pending from there.
    write(&mut one, "a", "AA\n");
    assert_eq!(pending(&mount), ["one changed a"]);
    let nothing = run(&mount, &["reject", "b"]);
    assert!(nothing.status == 3 && nothing.err.contains("nothing of this is pending"), "{nothing:?}");
}

#[test]
fn a_path_is_followed_to_where_it_is_now() {
    let Some(mount) = reviewed().file("a", "a\n").file("d/b", "b\n").mount() else { return };
    let mut one = mount.client().session("one");
    write(&mut one, "a", "A\n");
    one.call("move", &json!({"from": "a", "to": "x"}));
    write(&mut one, "d/b", "B\n");
    sh(mount.path(), "sed -i s/B/BB/ d/b").ok();
    let shown = review(&mount, &["show", "x"]);
    assert!(super::entry(&shown, "x")["diff"].as_str().unwrap().starts_with("--- a/a\n+++ b/x\n"), "{shown:#}");
    review(&mount, &["reject", "x"]);
    assert_eq!(sh(mount.source(), "cat a; ls").ok(), "a\na\nd\n");
    review(&mount, &["reject", "d"]);
    assert_eq!(sh(mount.source(), "cat d/b").ok(), "b\n");
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
}

#[test]
fn what_changed_later_stands_in_the_way_unless_it_is_said_what_to_do() {
    let text = |changed| super::numbered(changed);
    let Some(mount) = reviewed().file("a", text(&[])).file("b", "b\n").mount() else { return };
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", &text(&[(3, "one")]));
    write(&mut one, "b", "B\n");
    write(&mut two, "a", &text(&[(3, "one"), (30, "two")]));
    let refused = run(&mount, &["reject", "--session", "one"]);
    assert!(refused.status == 3 && refused.err.contains("revert_conflict"), "{refused:?}");
    assert_eq!(sh(mount.source(), "cat b").ok(), "B\n", "nothing was changed");
    // Left alone, it stays pending.
    review(&mount, &["reject", "--session", "one", "--on-conflict", "skip"]);
    assert_eq!(sh(mount.source(), "cat b").ok(), "b\n");
    assert_eq!(pending(&mount), ["one changed a", "two changed a"]);
    review(&mount, &["reject", "--session", "one", "--on-conflict", "merge"]);
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), text(&[(30, "two")]));
    assert_eq!(pending(&mount), ["two changed a"]);
    let head = review(&mount, &["list"])["head"].as_u64().unwrap();
    write(&mut two, "c", "c\n");
    for what in ["accept", "reject"] {
        let moved = run(&mount, &[what, "--session", "two", "--if-head", &head.to_string()]);
        assert!(moved.status == 3 && moved.err.contains("head_moved"), "{moved:?}");
    }
    review(&mount, &["reject", "--session", "two", "--on-conflict", "force", "--yes"]);
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
}

#[test]
fn what_removes_much_is_asked_about() {
    let Some(mount) = reviewed().file("a", "a\n").mount() else { return };
    sh(mount.path(), "for i in $(seq 120); do echo $i > f$i; done").ok();
    let refused = run(&mount, &["reject", "--all"]);
    assert!(refused.status == 3 && refused.err.contains("say --yes"), "{refused:?}");
    assert!(mount.beside("f7").exists());
    run(&mount, &["reject", "--all", "--yes"]).ok();
    assert_eq!(sh(mount.source(), "ls").ok(), "a\n");
}
