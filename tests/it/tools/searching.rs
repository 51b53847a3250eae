//! `search`.

use serde_json::{Value, json};

use super::room::{Room, hash, paths};

fn lines(result: &Value) -> Vec<(String, u64)> {
    let matches = result["matches"].as_array().expect("matches");
    matches
        .iter()
        .map(|found| (found["path"].as_str().expect("a path").to_owned(), found["line"].as_u64().expect("a line")))
        .collect()
}

fn at(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(path, line)| ((*path).to_owned(), *line)).collect()
}

#[test]
fn a_text_is_found_with_path_line_and_column() {
    let room = Room::new();
    room.put("src/a.rs", "fn one() {}\n\nfn two() { one() }\n");
    room.put("src.rs", "one\n");
    room.put("none", "nothing here\n");
    let result = room.call("search", json!({"query": "one()"}));
    assert_eq!(lines(&result), at(&[("src/a.rs", 1), ("src/a.rs", 3)]));
    let second = &result["matches"][1];
    assert_eq!((&second["column"], &second["excerpt"]), (&json!(12), &json!("fn two() { one() }")));
    assert_eq!(second["hash"], hash("fn one() {}\n\nfn two() { one() }\n"));
    assert_eq!(
        (&result["total"], &result["files_searched"], &result["files_matched"]),
        (&json!(2), &json!(3), &json!(1))
    );
    assert_eq!((&result["truncated"], &result["incomplete"]), (&json!(false), &json!(false)));
    let text = room.outcome("search", json!({"query": "one()"})).content;
    assert!(format!("{text:?}").contains("src/a.rs:3: fn two() { one() }"), "{text:?}");
    assert_eq!(lines(&room.call("search", json!({"query": "one", "path": "src/a.rs"}))).len(), 2, "one file");
    assert_eq!(
        lines(&room.call("search", json!({"query": "one"}))),
        at(&[("src.rs", 1), ("src/a.rs", 1), ("src/a.rs", 3)])
    );
}

#[test]
fn options_do_what_they_say() {
    let room = Room::new();
    room.put("a", "Alpha\nbeta alphabet\ngamma\nALPHA\n");
    let found = |arguments: Value| -> Vec<u64> {
        lines(&room.call("search", arguments)).into_iter().map(|(_, line)| line).collect()
    };
    assert_eq!(found(json!({"query": "alpha"})), [1, 2, 4]);
    assert_eq!(found(json!({"query": "Alpha"})), [1]);
    assert_eq!(found(json!({"query": "alpha", "case": "yes"})), [2]);
    assert_eq!(found(json!({"query": "Alpha", "case": "no"})), [1, 2, 4]);
    assert_eq!(found(json!({"query": "alpha", "word": true})), [1, 4]);
    assert_eq!(found(json!({"query": "^.a", "mode": "regex"})), [3]);
    assert_eq!(found(json!({"query": "a.*\nb", "mode": "regex", "multiline": true, "case": "no"})), [1]);
    let result = room.call("search", json!({"query": "gamma", "context": 1}));
    assert_eq!(result["matches"][0]["before"], json!([{"line": 2, "text": "beta alphabet"}]));
    assert_eq!(result["matches"][0]["after"], json!([{"line": 4, "text": "ALPHA"}]));
}

#[test]
fn globs_choose_files() {
    let room = Room::new();
    for path in ["a.rs", "src/b.rs", "src/c.txt", "vendor/d.rs", "vendor/e/f.rs", ".h/g.rs", "out/h.rs"] {
        room.put(path, "needle\n");
    }
    room.put(".gitignore", "out\n");
    let files = |arguments: Value| {
        let mut arguments = arguments;
        (arguments["query"], arguments["output"]) = (json!("needle"), json!("files"));
        paths(&room.call("search", arguments)["files"])
    };
    assert_eq!(files(json!({})), ["a.rs", "src/b.rs", "src/c.txt", "vendor/d.rs", "vendor/e/f.rs"]);
    assert_eq!(files(json!({"include": ["*.txt", "a.*"]})), ["a.rs", "src/c.txt"]);
    assert_eq!(files(json!({"include": "*.txt"})), ["src/c.txt"], "one may stand alone");
    assert_eq!(files(json!({"include": ["src/*.rs"]})), ["src/b.rs"]);
    assert_eq!(files(json!({"exclude": ["vendor"]})), ["a.rs", "src/b.rs", "src/c.txt"]);
    assert_eq!(files(json!({"exclude": ["vendor/*/**", "*.txt"]})), ["a.rs", "src/b.rs", "vendor/d.rs"]);
    assert_eq!(files(json!({"path": "vendor", "depth": 1})), ["vendor/d.rs"]);
    assert_eq!(files(json!({"ignored": true, "hidden": true})).len(), 7);
}

#[test]
fn counts_and_files_are_totals_too() {
    let room = Room::new();
    room.put("a", "x\nx\n");
    room.put("b", "x\n");
    room.put("c", "y\n");
    let counts = room.call("search", json!({"query": "x", "output": "counts"}));
    assert_eq!(counts["files"], json!([{"path": "a", "count": 2}, {"path": "b", "count": 1}]));
    assert_eq!((&counts["total"], &counts["files_searched"], &counts["matches"]), (&json!(2), &json!(3), &json!([])));
    let files = room.call("search", json!({"query": "x", "output": "files", "limit": 1}));
    assert_eq!(
        (&files["files"], &files["total"], &files["truncated"]),
        (&json!([{"path": "a"}]), &json!(2), &json!(true))
    );
}

#[test]
fn pages_have_no_gap_and_no_overlap() {
    let room = Room::new();
    for n in 0..150 {
        room.put(format!("d{}/f{n}", n % 7), "no\nx\n".repeat(n % 5));
    }
    let whole = lines(&room.call("search", json!({"query": "x", "limit": 10_000})));
    assert_eq!(whole.len(), 300);
    for limit in [1, 7, 299, 300] {
        let (mut found, mut pages, mut cursor) = (Vec::new(), 0, json!(null));
        loop {
            let page = room.call("search", json!({"query": "x", "limit": limit, "cursor": cursor}));
            found.extend(lines(&page));
            pages += 1;
            assert_eq!(page["total"], 300, "on every page");
            let Some(next) = page.get("next") else { break };
            cursor = next.clone();
        }
        assert_eq!((found == whole, pages), (true, 300_usize.div_ceil(limit)), "by {limit}");
    }
    for output in ["files", "counts"] {
        let (mut found, mut cursor) = (Vec::new(), json!(null));
        loop {
            let page = room.call("search", json!({"query": "x", "limit": 7, "cursor": cursor, "output": output}));
            found.extend(paths(&page["files"]));
            assert_eq!(page["total"], 120);
            let Some(next) = page.get("next") else { break };
            cursor = next.clone();
        }
        let all = paths(&room.call("search", json!({"query": "x", "limit": 10_000, "output": output}))["files"]);
        assert_eq!(found, all);
    }
    for traversal in [1, 4, 50] {
        let (mut found, mut cursor) = (Vec::new(), json!(null));
        loop {
            let page = room
                .call("search", json!({"query": "x", "limit": 10_000, "cursor": cursor, "traversal_limit": traversal}));
            found.extend(lines(&page));
            let Some(next) = page.get("next") else { break };
            assert_eq!(page["truncated_by"], json!(["traversal"]));
            cursor = next.clone();
        }
        assert!(found == whole, "traversal {traversal}");
    }
}

#[test]
fn one_file_may_be_held_short() {
    let room = Room::new();
    room.put("a", "x\n".repeat(10));
    room.put("b", "x\n");
    let result = room.call("search", json!({"query": "x", "limit_per_file": 2}));
    assert_eq!(lines(&result), at(&[("a", 1), ("a", 2), ("b", 1)]));
    assert_eq!((&result["files"][0]["count"], &result["total"]), (&json!(10), &json!(11)));
    assert_eq!((&result["truncated"], result.get("next")), (&json!(true), None));
    assert_eq!(room.call("search", json!({"query": "x", "limit_per_file": 10}))["truncated"], false);
    let exact = room.call("search", json!({"query": "x", "limit": 11}));
    assert_eq!((&exact["truncated"], lines(&exact).len()), (&json!(false), 11));
}

#[test]
fn files_that_are_not_searched_are_counted() {
    let room = Room::new();
    room.put("binary", b"x\0x");
    room.put("utf16", "\u{feff}x needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    room.put("latin1", b"caf\xe9 needle\n");
    room.put("late", [&b"needle\n"[..], &[b'a'; 9_000], b"\0needle\n"].concat());
    let fifo = room.host("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    let large = std::fs::File::create(room.host("large")).expect("a file");
    large.set_len((256 << 20) + 1).expect("a sparse file");
    let result = room.call("search", json!({"query": "needle"}));
    assert_eq!(lines(&result), at(&[("late", 1), ("late", 2), ("latin1", 1), ("utf16", 1)]));
    assert_eq!(result["skipped"], json!({"binary": 1, "too_large": 1, "unreadable": 0}));
    assert_eq!(result["files_searched"], 3);
    room.refused("search", json!({"query": "needle", "path": "fifo"}), "unsupported");
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let room = Room::new();
    room.put("a", format!("{}needle{}\n", "a".repeat(5_000), "b".repeat(5_000)));
    let result = room.call("search", json!({"query": "needle"}));
    let found = &result["matches"][0];
    let excerpt = found["excerpt"].as_str().expect("text");
    assert_eq!((excerpt.chars().count(), excerpt.contains("needle"), &found["cut"]), (1_000, true, &json!(true)));
    assert_eq!(found["column"], 5_001);
}

#[test]
fn an_answer_is_bounded_in_bytes() {
    let room = Room::new();
    room.put("a", format!("{}\n", "x".repeat(1_000)).repeat(2_000));
    let (mut seen, mut cursor) = (0, json!(null));
    loop {
        let page = room.call("search", json!({"query": "x", "limit": 10_000, "cursor": cursor}));
        let got = lines(&page);
        assert!(got.len() <= 525, "{}", got.len());
        assert_eq!(got.first().map(|(_, line)| *line), Some(seen + 1));
        seen = got.last().expect("lines").1;
        let Some(next) = page.get("next") else { break };
        assert_eq!(page["truncated_by"], json!(["bytes"]));
        cursor = next.clone();
    }
    assert_eq!(seen, 2_000);
}

#[test]
fn an_answer_ranked_by_words_is_bounded_in_bytes() {
    let room = Room::new();
    for n in 0..600 {
        room.put(format!("f{n}"), format!("word {}\n", "x".repeat(2_000)));
    }
    let (mut found, mut pages, mut asked) =
        (Vec::new(), 0, json!({"query": "word", "mode": "keyword", "limit": 10_000}));
    loop {
        let page = room.call("search", asked.clone());
        found.extend(super::room::paths(&page["matches"]));
        pages += 1;
        let Some(next) = page.get("next") else { break };
        assert_eq!(page["truncated_by"], json!(["bytes"]));
        asked["cursor"] = next.clone();
    }
    found.sort();
    found.dedup();
    assert_eq!((found.len(), pages), (600, 2));
    let files = room.call("search", json!({"query": "word", "mode": "keyword", "limit": 10_000, "output": "files"}));
    assert_eq!((files["files"].as_array().unwrap().len(), &files["truncated"]), (600, &json!(false)));
}

#[test]
fn words_are_ranked() {
    let room = Room::new();
    room.put("src/lock.rs", "// takes the file lock\nfn lock_file() {}\nfn unlock() {}\n");
    room.put("src/other.rs", "// something about a file\n".repeat(50));
    room.put("notes.md", "nothing of that kind\n");
    let result = room.call("search", json!({"query": "locking files", "mode": "keyword"}));
    assert_eq!(lines(&result), at(&[("src/lock.rs", 1), ("src/other.rs", 1)]));
    assert!(result["matches"][0]["score"].as_f64() > result["matches"][1]["score"].as_f64());
    assert_eq!((&result["total"], &result["files_searched"]), (&json!(2), &json!(3)));
    let page = room.call("search", json!({"query": "locking files", "mode": "keyword", "limit": 1}));
    let next =
        room.call("search", json!({"query": "locking files", "mode": "keyword", "limit": 1, "cursor": page["next"]}));
    assert_eq!((&page["total"], lines(&next), next.get("next")), (&json!(2), at(&[("src/other.rs", 1)]), None));
    let semantic = room.call("search", json!({"query": "locking files", "mode": "semantic"}));
    assert_eq!(lines(&semantic), lines(&result));
    assert!(semantic["warnings"][0].as_str().is_some_and(|text| text.contains("keyword")), "{semantic}");
    room.refused("search", json!({"query": "...", "mode": "keyword"}), "invalid_argument");
}

#[test]
fn words_on_one_long_line_cost_no_more_than_its_length() {
    let room = Room::new();
    room.put("min.js", "lock(".repeat(400_000));
    let result = room.call("search", json!({"query": "lock", "mode": "keyword"}));
    assert_eq!((&result["truncated"], &result["total"]), (&json!(false), &json!(1)));
    let found = &result["matches"][0];
    assert_eq!((&found["line"], &found["column"], &found["cut"]), (&json!(1), &json!(1), &json!(true)));
}

#[test]
fn bad_queries_are_refused() {
    let room = Room::new();
    room.put("a", "x");
    room.refused("search", json!({"query": ""}), "invalid_argument");
    room.refused("search", json!({"query": "a(", "mode": "regex"}), "invalid_pattern");
    room.refused("search", json!({"query": "x".repeat(1_001)}), "pattern_too_complex");
    room.refused("search", json!({"query": "(\\w{500}){10}", "mode": "regex"}), "pattern_too_complex");
    room.refused("search", json!({"query": "x", "include": ["[a"]}), "invalid_pattern");
    room.refused("search", json!({"query": "x", "path": "none"}), "not_found");
    room.refused("search", json!({"query": "x", "mode": "telepathy"}), "invalid_argument");
}
