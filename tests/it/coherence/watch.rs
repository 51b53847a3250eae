//! Watchers in the mount wake for what tools do.

use std::io::{BufRead, BufReader};

use serde_json::json;

use crate::harness::{Mounted, Setup, program, watcher};

/// Acts, and waits until a watcher of the mount's root says one of `wanted` of `name`.
fn wakes(mount: &Mounted, act: impl FnOnce(&Mounted), name: &str, wanted: &[&str]) {
    program("python3");
    let mut child = watcher(mount.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    act(mount);
    let mut seen = Vec::new();
    let found = lines.map_while(Result::ok).any(|line| {
        seen.push(line.clone());
        line.split_once(' ').is_some_and(|(event, of)| of == name && wanted.contains(&event))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "no {wanted:?} of {name}: {seen:?}");
}

#[test]
fn a_tools_write_wakes_a_watcher() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let act = |mount: &Mounted| drop(mount.client().call("write", &json!({"path": "a", "content": "y"})));
    wakes(&mount, act, "a", &["modify", "attrib", "moved_to", "close_write", "create"]);
}

#[test]
fn a_tools_new_file_wakes_a_watcher() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let act = |mount: &Mounted| drop(mount.client().call("write", &json!({"path": "new", "content": "y"})));
    wakes(&mount, act, "new", &["create", "moved_to", "modify", "attrib", "close_write"]);
}

#[test]
fn a_shells_write_wakes_a_watcher() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    wakes(&mount, |mount| std::fs::write(mount.at("a"), "y").unwrap(), "a", &["modify"]);
}

#[test]
fn waking_makes_no_history() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let act = |mount: &Mounted| drop(mount.client().call("write", &json!({"path": "a", "content": "y"})));
    wakes(&mount, act, "a", &["modify", "attrib", "moved_to", "close_write", "create"]);
    assert_eq!(mount.client().history(None).len(), 1, "{:#?}", mount.client().history(None));
}
