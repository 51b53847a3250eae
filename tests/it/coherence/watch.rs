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

#[test]
fn what_was_written_again_in_an_open_file_is_told_again() {
    let Some(mount) = Setup::new().file("a", "x\n").mount() else { return };
    let mut client = mount.client();
    let mut next = client.call("changes", &json!({}))["next"].clone();
    let mut told = |client: &mut crate::harness::Client| {
        let page = client.call("changes", &json!({"since": next, "wait_ms": 10_000}));
        next = page["next"].clone();
        let list = page["operations"].as_array().unwrap().clone();
        let hash = |operation: &serde_json::Value| operation["changes"][0]["after"]["size"].clone();
        let sizes: Vec<_> = list.iter().map(|one| (one["operation"].clone(), hash(one))).collect();
        assert_eq!(sizes.len(), 1, "{page}");
        sizes[0].clone()
    };
    // The file stays open; each flush of a copy of the descriptor is recorded under the same number.
    let file = std::fs::OpenOptions::new().append(true).open(mount.at("a")).unwrap();
    let mut sizes = Vec::new();
    let mut numbers = Vec::new();
    for _ in 0..3 {
        std::io::Write::write_all(&mut &file, b"more\n").unwrap();
        drop(file.try_clone().unwrap());
        let (number, size) = told(&mut client);
        numbers.push(number);
        sizes.push(size);
    }
    assert_eq!(sizes, [json!(7), json!(12), json!(17)]);
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    drop(file);
    // A tool's change is recorded twice, before and after it is made, and told once.
    client.call("write", &json!({"path": "b", "content": "y"}));
    assert_eq!(told(&mut client).1, json!(1));
    let rest = client.call("changes", &json!({"since": next}));
    assert_eq!(rest["operations"], json!([]), "{rest}");
}
