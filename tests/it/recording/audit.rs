//! Count what a script does, and count the rows.

use std::collections::BTreeMap;

use super::changes;
use crate::harness::{Mounted, Setup, sh};

fn kinds(mount: &Mounted) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for operation in mount.client().history(None) {
        for (kind, _) in changes(&operation) {
            *counts.entry(kind).or_default() += 1;
        }
    }
    counts
}

/// A script of one operation makes one operation, of this kind, at this path.
fn one(setup: Setup, script: &str, kind: &str, path: &str) {
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), script).ok();
    let rows = mount.client().history(None);
    assert_eq!(rows.len(), 1, "{script}: {rows:#?}");
    assert_eq!(changes(&rows[0]), [(kind.to_owned(), path.to_owned())], "{script}");
    assert_eq!(mount.client().history(Some(path)).len(), 1, "{script}: asked by path");
}

#[test]
fn each_call_is_one_row() {
    let file = || Setup::new().file("a", "content\n");
    one(file(), "echo more >> a", "write", "a");
    one(file(), "mkdir d", "create", "d");
    one(file(), "ln -s a l", "create", "l");
    one(file(), "mkfifo p", "create", "p");
    one(file(), "rm a", "remove", "a");
    one(file(), "mv a b", "rename", "b");
    one(file(), "ln a b", "link", "b");
    one(file(), "chmod 600 a", "meta", "a");
    one(file(), "chown 1000:1000 a", "meta", "a");
    one(file(), "setfattr -n user.k -v v a", "meta", "a");
    one(file(), "truncate -s 3 a", "write", "a");
}

#[test]
fn reading_makes_no_row() {
    let Some(mount) = Setup::new().file("a", "content\n").mount() else { return };
    sh(
        mount.path(),
        "cat a; ls -la; find .; stat a; getfattr -d a; grep -r content .; exec 3<>a; exec 3>&-; test -w a",
    )
    .ok();
    assert_eq!(mount.client().history(None), Vec::<serde_json::Value>::new());
}

#[test]
fn a_script_of_many_operations_makes_as_many_rows() {
    let Some(mount) = Mounted::new() else { return };
    let script = "for i in $(seq 20); do mkdir d$i; done
        for i in $(seq 20); do ln -s x l$i; done
        for i in $(seq 20); do mv l$i m$i; done
        for i in $(seq 20); do chmod 700 d$i; done
        for i in $(seq 20); do rmdir d$i; done
        for i in $(seq 20); do rm m$i; done";
    sh(mount.path(), script).ok();
    let wanted = [("create", 40), ("meta", 20), ("remove", 40), ("rename", 20)].map(|(kind, n)| (kind.to_owned(), n));
    assert_eq!(kinds(&mount), BTreeMap::from(wanted));
}

#[test]
fn a_new_file_and_its_content_are_both_there() {
    let Some(mount) = Mounted::new() else { return };
    sh(mount.path(), "echo content > a").ok();
    let rows = mount.client().history(Some("a"));
    assert!((1..=2).contains(&rows.len()), "{rows:#?}");
    let mut client = mount.client();
    let diff = client.call("diff", &serde_json::json!({"a": {"path": "a", "at": rows[0]["operation"]}, "b": "a"}));
    assert_eq!(diff["identical"], serde_json::json!(true), "{diff}");
}

#[test]
fn what_is_not_versioned_says_so() {
    let setup = Setup::new().file("target/x", "before").policy("unversioned = [\"target/**\"]\n");
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), "echo after > target/x; echo new > target/y").ok();
    let mut client = mount.client();
    for path in ["target/x", "target/y"] {
        let rows = client.history(Some(path));
        assert!(rows.iter().any(|row| row.to_string().contains("\"policy\"")), "{path}: {rows:#?}");
    }
    let error = client.try_call("revert", &serde_json::json!({"path": "target/x"})).unwrap_err();
    assert!(["unversionable", "version_not_found", "revert_conflict"].contains(&&*error.code), "{}", error.body);
    assert_eq!(std::fs::read_to_string(mount.at("target/x")).unwrap(), "after\n");
}
