//! `list` and `find`.

use std::{collections::BTreeSet, fs, time::Duration};

use serde_json::{Value, json};

use super::room::{Room, paths};

fn tree() -> Room {
    let room = Room::new();
    for path in ["a/x.rs", "a/y.txt", "a/deep/er/z.rs", "a.txt", "a-b/q.rs", "top.rs", ".hidden/h.rs", "target/t.rs"] {
        room.put(path, path);
    }
    room.put(".gitignore", "target/\n");
    room
}

#[test]
fn entries_are_sorted_counted_and_filtered() {
    let room = tree();
    let list = room.call("list", json!({}));
    let expected =
        ["a", "a-b", "a-b/q.rs", "a.txt", "a/deep", "a/deep/er", "a/deep/er/z.rs", "a/x.rs", "a/y.txt", "top.rs"];
    assert_eq!(paths(&list["entries"]), expected);
    assert_eq!((&list["files"], &list["directories"], &list["ignored"]), (&json!(6), &json!(4), &json!(1)));
    assert_eq!((&list["truncated"], &list["total"]), (&json!(false), &json!(10)));
    let deep = &list["entries"][6];
    assert_eq!((&deep["depth"], &deep["type"], &deep["size"]), (&json!(4), &json!("file"), &json!(14)));
    assert_eq!(paths(&room.call("list", json!({"path": "a", "depth": 1}))["entries"]), ["a/deep", "a/x.rs", "a/y.txt"]);
    let all = room.call("list", json!({"hidden": true, "ignored": true}));
    let all: BTreeSet<String> = paths(&all["entries"]).into_iter().collect();
    assert!(
        [".gitignore", ".hidden", ".hidden/h.rs", "target", "target/t.rs"].iter().all(|path| all.contains(*path)),
        "{all:?}"
    );
    let picked = room.call("list", json!({"pattern": "*.rs"}));
    assert_eq!(paths(&picked["entries"]), ["a-b/q.rs", "a/deep/er/z.rs", "a/x.rs", "top.rs"]);
    assert_eq!(paths(&room.call("list", json!({"pattern": "a/*.rs"}))["entries"]), ["a/x.rs"]);
    assert_eq!(paths(&room.call("list", json!({"pattern": "d*/"}))["entries"]), ["a/deep"]);
}

#[test]
fn depth_cuts_only_where_there_is_more() {
    let room = tree();
    let list = room.call("list", json!({"depth": 3}));
    assert_eq!((&list["truncated"], &list["truncated_by"]), (&json!(true), &json!(["depth"])));
    assert_eq!(list.get("total"), None);
    assert_eq!(room.call("list", json!({"path": "a", "depth": 3}))["truncated"], false);
    // What lies deeper is hidden, so nothing was left out.
    fs::remove_dir_all(room.host("a/deep")).expect("removed");
    room.put("a/deep/.x", "");
    assert_eq!(room.call("list", json!({"path": "a", "depth": 1}))["truncated"], false);
}

#[test]
fn lists_go_in_any_order() {
    let room = Room::new();
    for (n, name) in ["c", "a", "b"].iter().enumerate() {
        room.put(name, "x".repeat(n));
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000 - n as u64);
        fs::File::open(room.host(name)).expect("a file").set_modified(time).expect("a time");
    }
    assert_eq!(paths(&room.call("list", json!({"sort": "size"}))["entries"]), ["b", "a", "c"]);
    assert_eq!(paths(&room.call("list", json!({"sort": "mtime"}))["entries"]), ["c", "a", "b"]);
    assert_eq!(paths(&room.call("list", json!({"sort": "name"}))["entries"]), ["a", "b", "c"]);
}

/// All pages of a query, and how many they were.
fn all(room: &Room, tool: &str, list: &str, mut arguments: Value) -> (Vec<String>, usize) {
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = room.call(tool, arguments.clone());
        found.extend(paths(&page[list]));
        pages += 1;
        assert_eq!(page["truncated"].as_bool(), Some(!page["truncated_by"].as_array().expect("bounds").is_empty()));
        match page.get("next") {
            Some(next) => arguments["cursor"] = next.clone(),
            None => return (found, pages),
        }
        assert!(pages < 10_000, "it does not end");
    }
}

#[test]
fn pages_have_no_gap_and_no_overlap() {
    let room = tree();
    for n in 0..60 {
        room.put(format!("many/{}/{n}.rs", n % 7), "");
    }
    for sort in ["name", "size", "mtime"] {
        let (whole, _) = all(&room, "list", "entries", json!({ "sort": sort }));
        for limit in [1, 2, 7, whole.len() - 1, whole.len()] {
            let (found, pages) = all(&room, "list", "entries", json!({"limit": limit, "sort": sort}));
            assert_eq!(found, whole, "by {limit}, {sort}");
            assert_eq!(pages, whole.len().div_ceil(limit), "an exact fit is the end");
        }
    }
    let (whole, _) = all(&room, "find", "matches", json!({"pattern": "**/*.rs"}));
    assert_eq!(whole.len(), 64);
    for limit in [1, 5, 63, 64] {
        let (found, pages) = all(&room, "find", "matches", json!({"pattern": "**/*.rs", "limit": limit}));
        assert_eq!((found, pages), (whole.clone(), whole.len().div_ceil(limit)));
    }
    for traversal in [1, 3, 10] {
        let arguments = json!({"pattern": "**/*.rs", "traversal_limit": traversal, "ignored": true});
        let (found, _) = all(&room, "find", "matches", arguments);
        assert_eq!(found.len(), 65, "traversal {traversal}");
        let (found, _) = all(&room, "list", "entries", json!({"traversal_limit": traversal}));
        assert_eq!(found, all(&room, "list", "entries", json!({})).0, "traversal {traversal}");
    }
}

#[test]
fn totals_are_exact_on_every_page() {
    let room = tree();
    let first = room.call("find", json!({"pattern": "**/*.rs", "limit": 3}));
    assert_eq!((&first["total"], &first["truncated_by"]), (&json!(4), &json!(["limit"])));
    let second = room.call("find", json!({"pattern": "**/*.rs", "limit": 3, "cursor": first["next"]}));
    assert_eq!((&second["total"], &second["truncated"]), (&json!(4), &json!(false)));
    let cut = room.call("find", json!({"pattern": "**/*.rs", "traversal_limit": 3}));
    assert_eq!((&cut["truncated_by"], &cut["incomplete"]), (&json!(["traversal"]), &json!(true)));
    assert_eq!((cut.get("total"), &cut["total_at_least"]), (None, &json!(1)));
    let fits = room.call("list", json!({"traversal_limit": 11}));
    assert_eq!((&fits["truncated"], &fits["total"]), (&json!(false), &json!(10)), "ten shown and one ignored");
    assert_eq!(room.call("list", json!({"traversal_limit": 10}))["truncated"], true);
}

#[test]
fn cursors_belong_to_their_query() {
    let room = tree();
    let next = room.call("find", json!({"pattern": "**/*.rs", "limit": 1}))["next"].clone();
    room.refused("find", json!({"pattern": "**/*", "limit": 1, "cursor": next}), "invalid_argument");
    room.refused("list", json!({"cursor": next}), "invalid_argument");
    room.refused("find", json!({"pattern": "**/*.rs", "limit": 1, "cursor": "nonsense"}), "invalid_argument");
}

#[test]
fn find_matches_paths_names_types_times_and_sizes() {
    let room = tree();
    let find = |arguments: Value| paths(&room.call("find", arguments)["matches"]);
    assert_eq!(find(json!({"pattern": "*"})), ["a", "a-b", "a.txt", "top.rs"]);
    assert_eq!(find(json!({"pattern": "**/z.rs"})), ["a/deep/er/z.rs"]);
    assert_eq!(find(json!({"pattern": "z.rs", "match": "name"})), ["a/deep/er/z.rs"]);
    assert_eq!(find(json!({"pattern": "*.rs", "path": "a"})), ["a/x.rs"]);
    assert_eq!(find(json!({"pattern": "**/*", "type": "directory"})), ["a", "a-b", "a/deep", "a/deep/er"]);
    assert_eq!(find(json!({"pattern": "**/"})), ["a", "a-b", "a/deep", "a/deep/er"]);
    assert_eq!(find(json!({"pattern": "*.{rs,txt}"})), ["a.txt", "top.rs"]);
    assert_eq!(find(json!({"pattern": "TOP.rs"})), Vec::<String>::new());
    assert_eq!(find(json!({"pattern": "TOP.rs", "case": "no"})), ["top.rs"]);
    assert_eq!(find(json!({"pattern": "*.{rs,txt}", "dialect": "plain"})), Vec::<String>::new());
    assert_eq!(find(json!({"pattern": "**/*", "larger_than": 9})), ["a/deep/er/z.rs"]);
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(room.host("top.rs")).expect("a file").set_modified(time).expect("a time");
    assert!(!find(json!({"pattern": "*", "newer_than": "2001-09-09T01:46:40Z"})).contains(&"top.rs".into()));
    assert!(find(json!({"pattern": "*", "newer_than": "2001-09-09T01:46:39Z"})).contains(&"top.rs".into()));
}

#[test]
fn a_pattern_that_found_nothing_at_the_top_gets_a_hint() {
    let room = Room::new();
    room.put("src/a.rs", "");
    let found = room.call("find", json!({"pattern": "*.rs"}));
    let hint = found["hint"].as_str().expect("a hint");
    assert!(hint.contains("**/*.rs") && hint.contains("1 path"), "{hint}");
    assert_eq!(room.call("find", json!({"pattern": "*.py"})).get("hint"), None);
    assert_eq!(room.call("find", json!({"pattern": "**/*.rs"})).get("hint"), None);
}

#[test]
fn bad_queries_are_refused() {
    let room = tree();
    room.refused("list", json!({"path": "none"}), "not_found");
    room.refused("list", json!({"path": "top.rs"}), "not_a_directory");
    room.refused("find", json!({"pattern": "*", "path": "top.rs"}), "not_a_directory");
    room.refused("find", json!({"pattern": "[a"}), "invalid_pattern");
    room.refused("find", json!({"pattern": ""}), "invalid_pattern");
    room.refused("list", json!({"pattern": "{a"}), "invalid_pattern");
    room.refused("find", json!({}), "invalid_argument");
    room.refused("find", json!({"pattern": "*", "newer_than": "yesterday"}), "invalid_argument");
}

#[test]
fn symlinks_are_shown_and_not_entered() {
    let room = tree();
    std::os::unix::fs::symlink("a", room.host("link")).expect("a link");
    std::os::unix::fs::symlink("/etc", room.host("out")).expect("a link");
    let list = room.call("list", json!({}));
    let entry = list["entries"].as_array().and_then(|list| list.iter().find(|entry| entry["path"] == "link"));
    assert_eq!(entry.map(|entry| &entry["type"]), Some(&json!("symlink")));
    assert!(!paths(&list["entries"]).iter().any(|path| path.starts_with("link/") || path.starts_with("out/")));
    assert_eq!(
        paths(&room.call("list", json!({"path": "link", "depth": 1}))["entries"])[0],
        "a/deep",
        "named, it is followed"
    );
    room.refused("list", json!({"path": "out"}), "outside_view");
}
