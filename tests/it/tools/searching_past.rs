//! `search` with `at`: what stood in files then, also where they have gone, come or moved since.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::room::{Plan, Room, hash, patterns};
use crate::harness::{Client, Random, Setup, sh};

/// Each file's path and its one line.
type Tree = BTreeMap<String, String>;

fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                tree.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    tree
}

/// What a search tells, page by page.
fn told(mut call: impl FnMut(&Value) -> Value, at: &Value, path: &str, limit: u64) -> Tree {
    let mut tree = Tree::new();
    let mut asked = json!({"query": "line", "at": at, "path": path, "hidden": true, "limit": limit});
    let mut before = None;
    loop {
        let page = call(&asked);
        for found in page["matches"].as_array().unwrap() {
            let (path, text) = (found["path"].as_str().unwrap(), found["excerpt"].as_str().unwrap());
            let order = (path.to_owned(), found["line"].as_u64());
            assert!(before.as_ref().is_none_or(|before| *before < order), "{before:?} before {order:?}");
            before = Some(order);
            assert_eq!(found["hash"], json!(hash(format!("{text}\n"))), "{path}");
            assert_eq!(tree.insert(path.into(), format!("{text}\n")), None);
        }
        match page.get("next") {
            Some(next) => asked["cursor"] = next.clone(),
            None => return tree,
        }
    }
}

#[test]
fn every_moment_is_searched_as_it_was() {
    for seed in 0..12 {
        let (room, mut random) = (Room::new(), Random::new(seed));
        let names = ["a", "b", "a/x", "a/y", "b/x", "a/x/z", "a.b", "b/y/z"];
        let mut moments = Vec::new();
        for n in 0..40 {
            let (one, other) = (names[random.below(names.len())], names[random.below(names.len())]);
            let asked = match random.below(6) {
                0 | 1 => ("write", json!({"path": one, "content": format!("line {n}\n")})),
                2 => ("move", json!({"from": one, "to": other, "overwrite": true})),
                3 => ("copy", json!({"from": one, "to": other, "overwrite": true})),
                4 => ("delete", json!({"path": one, "recursive": true})),
                _ => ("mkdir", json!({"paths": [one], "parents": true})),
            };
            let done = room.outcome(asked.0, asked.1);
            if let Some(operation) = done.structured.get("operation").filter(|_| !done.is_error) {
                moments.push((operation.clone(), tree(&room.host(""))));
            }
        }
        assert!(moments.len() > 5);
        for (at, expected) in &moments {
            for limit in [1, 3, 100] {
                assert_eq!(told(|asked| room.call("search", asked.clone()), at, ".", limit), *expected, "{seed} {at}");
            }
            for dir in ["a", "b/y"] {
                let below: Tree = expected
                    .iter()
                    .filter(|(path, _)| {
                        path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    })
                    .map(|(path, text)| (path.clone(), text.clone()))
                    .collect();
                let outcome = room.outcome("search", json!({"query": "line", "at": at, "path": dir}));
                if outcome.is_error {
                    assert!(
                        below.is_empty() && outcome.structured["code"] == "not_found",
                        "{seed} {at} {dir}: {outcome:?}"
                    );
                } else {
                    assert_eq!(
                        told(|asked| room.call("search", asked.clone()), at, dir, 100),
                        below,
                        "{seed} {at} {dir}"
                    );
                }
            }
        }
    }
}

#[test]
fn globs_modes_rules_and_policy_hold_in_the_past() {
    let policy = wardfs::policy::PolicySpec { deny: patterns(&["secret*"]), ..Default::default() };
    let room = Room::of(Plan { policy, ..Plan::default() });
    room.put("secret", "line s\n");
    room.put(".gitignore", "*.log\n");
    for path in ["src/a.rs", "src/b.txt", "old/c.rs", "out.log", ".hidden", "still.rs"] {
        room.call("write", json!({"path": path, "content": format!("line {path}\n")}));
    }
    let at = room.call("checkpoint", json!({"name": "then"}))["operation"].clone();
    room.call("delete", json!({"paths": ["src", "out.log", ".hidden"], "recursive": true}));
    room.call("move", json!({"from": "old", "to": "new"}));
    room.call("write", json!({"path": "new/d.rs", "content": "line d\n"}));
    std::fs::remove_file(room.host("secret")).unwrap();
    let paths = |more: Value| {
        let mut asked = json!({"query": "line", "at": {"checkpoint": "then"}});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let found = room.call("search", asked);
        let mut paths: Vec<_> =
            found["matches"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(json!({})), ["old/c.rs", "src/a.rs", "src/b.txt", "still.rs"]);
    assert_eq!(paths(json!({"include": ["*.rs"]})), ["old/c.rs", "src/a.rs", "still.rs"]);
    assert_eq!(paths(json!({"exclude": ["src/"]})), ["old/c.rs", "still.rs"]);
    assert_eq!(paths(json!({"depth": 1})), ["still.rs"]);
    assert_eq!(paths(json!({"path": "old"})), ["old/c.rs"]);
    assert_eq!(
        paths(json!({"hidden": true, "ignored": true})),
        [".hidden", "old/c.rs", "out.log", "src/a.rs", "src/b.txt", "still.rs"]
    );
    assert_eq!(paths(json!({"mode": "keyword", "query": "src a"}))[0], "src/a.rs");
    let now = room.call("search", json!({"query": "line", "mode": "keyword", "at": at, "path": "old"}));
    assert_eq!(now["matches"][0]["hash"], json!(hash("line old/c.rs\n")));
    room.refused("search", json!({"query": "x", "at": at, "path": "new"}), "not_found");
    room.refused("search", json!({"query": "x", "at": at, "path": "secret"}), "not_found");
    room.refused("search", json!({"query": "x", "at": 999}), "version_not_found");
}

#[test]
fn what_a_shell_did_is_searched_as_it_was_through_the_socket() {
    let Some(mount) =
        Setup::new().file("kept/a", "line kept\n").file("d/x", "line x\n").file("d/y", "line y\n").mount()
    else {
        return;
    };
    let mut client = mount.client();
    let mut moments = Vec::new();
    let mut note = |client: &mut Client, n: usize| {
        let at = client.call("checkpoint", &json!({"name": format!("m{n}")}))["operation"].clone();
        moments.push((at, tree(mount.source())));
    };
    for (n, script) in [
        "true",
        "echo line 2 > d/x; mkdir -p e/f; echo line z > e/f/z",
        "mv d e/f/; mv e g",
        "sed -i s/y/Y/ g/f/d/y; rm g/f/z; mkdir d; echo line new > d/x",
        "rm -rf g; ln d/x d/l",
    ]
    .iter()
    .enumerate()
    {
        sh(mount.path(), script).ok();
        note(&mut client, n);
    }
    for (at, expected) in &moments {
        assert_eq!(told(|asked| client.call("search", asked), at, ".", 2), *expected, "{at}");
    }
    // What was destroyed beside the mount is not there any more, and that is said.
    sh(mount.source(), "echo gone > kept/a").ok();
    let lost = client.call("search", &json!({"query": "line kept", "at": moments[0].0}));
    assert_eq!((&lost["skipped"]["unreadable"], &lost["incomplete"]), (&json!(1), &json!(true)), "{lost}");
    assert!(lost["warnings"][0].as_str().unwrap().starts_with("kept/a: "), "{lost}");
}
