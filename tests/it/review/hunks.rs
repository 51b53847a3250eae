//! Parts of a file's change, accepted and rejected one by one.

use serde_json::Value;

use super::{entry, numbered, pending, review, reviewed, run, whole, write};
use crate::harness::Mounted;

fn shown(mount: &Mounted, path: &str) -> (String, u64, Value) {
    let answer = review(mount, &["show", path]);
    let entry = entry(&answer, path);
    let mark = entry["mark"].as_str().unwrap_or_else(|| panic!("no mark: {entry:#}")).to_owned();
    (mark, entry["hunks"].as_u64().unwrap(), entry["diff"].clone())
}

fn host(mount: &Mounted, path: &str) -> String {
    std::fs::read_to_string(mount.beside(path)).unwrap()
}

#[test]
fn each_hunk_goes_its_own_way() {
    let Some(mount) = reviewed().file("a", numbered(&[])).mount() else { return };
    let mut one = mount.client().session("one");
    let all = [(3, "first"), (20, "second"), (37, "third")];
    write(&mut one, "a", &numbered(&all));
    let (mark, count, _) = shown(&mount, "a");
    assert_eq!(count, 3);
    review(&mount, &["accept", "a", "--hunk", "2", "--mark", &mark]);
    assert_eq!(host(&mount, "a"), numbered(&all), "accepting touches nothing");
    let (mark, count, diff) = shown(&mount, "a");
    assert!(count == 2 && !diff.to_string().contains("+second"), "{diff}");
    let done = review(&mount, &["reject", "a", "--hunk", "1", "--mark", &mark]);
    assert_eq!(host(&mount, "a"), numbered(&all[1..]));
    assert_eq!(mount.client().history(None)[0]["operation"], done["operation"]);
    let (mark, count, diff) = shown(&mount, "a");
    assert!(count == 1 && diff.to_string().contains("+third"), "{diff}");
    // The rest of the file goes back to what was accepted of it.
    let _ = mark;
    review(&mount, &["reject", "a"]);
    assert_eq!(host(&mount, "a"), numbered(&all[1..2]));
    assert!(pending(&mount).is_empty(), "{:?}", pending(&mount));
    whole(&mount);
}

#[test]
fn a_rejected_hunk_is_taken_out_from_under_what_came_later() {
    let Some(mount) = reviewed().file("a", numbered(&[])).mount() else { return };
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", &numbered(&[(3, "first"), (30, "second")]));
    write(&mut two, "a", &numbered(&[(3, "first"), (16, "two"), (30, "second")]));
    let answer = review(&mount, &["show", "a", "--session", "one"]);
    let mark = entry(&answer, "a")["mark"].as_str().unwrap().to_owned();
    let several = run(&mount, &["reject", "a", "--hunk", "1", "--mark", &mark]);
    assert!(several.status == 3 && several.err.contains("name one with --session"), "{several:?}");
    review(&mount, &["reject", "a", "--session", "one", "--hunk", "1", "--mark", &mark]);
    assert_eq!(host(&mount, "a"), numbered(&[(16, "two"), (30, "second")]));
    // What does not come out cleanly stays, all of it.
    write(&mut two, "a", &numbered(&[(16, "two"), (30, "SECOND")]));
    write(&mut one, "b", &numbered(&[]));
    review(&mount, &["accept", "b"]);
    write(&mut one, "b", &numbered(&[(5, "one")]));
    write(&mut two, "b", &numbered(&[(5, "two")]));
    let answer = review(&mount, &["show", "b", "--session", "one"]);
    let mark = entry(&answer, "b")["mark"].as_str().unwrap().to_owned();
    let conflict = run(&mount, &["reject", "b", "--session", "one", "--hunk", "1", "--mark", &mark]);
    assert!(conflict.status == 3 && conflict.err.contains("revert_conflict"), "{conflict:?}");
    assert_eq!(host(&mount, "b"), numbered(&[(5, "two")]));
}

#[test]
fn a_mark_is_for_what_was_shown_alone() {
    let Some(mount) = reviewed().file("a", numbered(&[])).file("bin", b"\0a").mount() else { return };
    let mut one = mount.client().session("one");
    write(&mut one, "a", &numbered(&[(3, "first"), (30, "second")]));
    let (mark, _, _) = shown(&mount, "a");
    write(&mut one, "a", &numbered(&[(3, "first"), (15, "more"), (30, "second")]));
    for what in ["accept", "reject"] {
        let refused = run(&mount, &[what, "a", "--hunk", "1", "--mark", &mark]);
        assert!(refused.status == 3 && refused.err.contains("the file moved on"), "{refused:?}");
        assert_eq!(run(&mount, &[what, "a", "--hunk", "1"]).status, 2, "a mark is wanted");
        assert_eq!(run(&mount, &[what]).status, 2, "nothing is meant by saying nothing");
    }
    let (mark, _, _) = shown(&mount, "a");
    let none = run(&mount, &["accept", "a", "--hunk", "4", "--mark", &mark]);
    assert!(none.status == 3 && none.err.contains("there is no hunk 4"), "{none:?}");
    let mut two = mount.client().session("two");
    write(&mut two, "a", &numbered(&[(3, "first"), (22, "two")]));
    write(&mut one, "a", &numbered(&[(3, "first"), (22, "two"), (39, "last")]));
    let answer = review(&mount, &["show", "a", "--session", "one"]);
    assert!(entry(&answer, "a")["mark"].is_null(), "others changed it in between: {answer:#}");
    std::fs::write(mount.at("bin"), b"\0b").unwrap();
    let answer = review(&mount, &["show", "bin"]);
    assert!(entry(&answer, "bin")["mark"].is_null(), "{answer:#}");
    assert_eq!(host(&mount, "a"), numbered(&[(3, "first"), (22, "two"), (39, "last")]));
}
