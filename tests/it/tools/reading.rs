//! `read`, `stat` and `diff`.

use std::{fmt::Write, fs, os::unix::fs::PermissionsExt};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use wardfs::tools::Block;

use super::room::{Room, hash};

fn one(room: &Room, arguments: Value) -> Value {
    let mut result = room.call("read", arguments);
    result["files"][0].take()
}

#[test]
fn a_file_is_read_with_its_hash() {
    let room = Room::new();
    room.put("a.txt", "one\ntwo\n");
    let read = one(&room, json!({"path": "a.txt"}));
    assert_eq!(read["content"], "one\ntwo\n");
    assert_eq!(read["hash"], hash("one\ntwo\n"));
    assert_eq!((&read["size"], &read["lines"], &read["window"]), (&json!(8), &json!(2), &json!([1, 2])));
    assert_eq!(
        (&read["encoding"], &read["line_end"], &read["truncated"]),
        (&json!("utf-8"), &json!("lf"), &json!(false))
    );
    assert!(read["mtime"].as_str().is_some_and(|time| time.ends_with('Z')), "{read}");
    for path in ["./a.txt", "/workspace/a.txt", "x/../a.txt"] {
        assert_eq!(one(&room, json!({ "path": path }))["path"], "a.txt", "{path}");
    }
    let text = room.outcome("read", json!({"path": "a.txt"})).content;
    let Some(Block::Text(text)) = text.first() else { panic!("no text") };
    assert!(text.contains("one\ntwo\n") && text.contains(&hash("one\ntwo\n")), "{text}");
    assert!(!text.contains('{'), "it is no copy of the JSON: {text}");
}

#[test]
fn windows_have_the_hash_of_the_whole() {
    let room = Room::new();
    let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    room.put("a", &text);
    let read = one(&room, json!({"path": "a", "lines": [3, 4]}));
    assert_eq!((&read["content"], &read["hash"]), (&json!("line 3\nline 4\n"), &json!(hash(&text))));
    assert_eq!((&read["lines"], &read["window"], &read["truncated"]), (&json!(100), &json!([3, 4]), &json!(false)));
    let read = one(&room, json!({"path": "a", "lines": [99, 500], "numbered": true}));
    assert_eq!(read["content"], "    99\tline 99\n   100\tline 100\n");
    let read = one(&room, json!({"path": "a", "lines": [101, 500]}));
    assert_eq!((&read["content"], read.get("window")), (&json!(""), None));
    let read = one(&room, json!({"path": "a", "bytes": [5, 3]}));
    assert_eq!(
        (&read["content"], &read["bytes"], &read["hash"]),
        (&json!("1\nl"), &json!([5, 3]), &json!(hash(&text)))
    );
    let read = one(&room, json!({"path": "a", "bytes": [10_000, 3]}));
    assert_eq!(read["content"], "");
}

#[test]
fn what_is_cut_goes_on_where_it_ended() {
    let room = Room::new();
    let mut text = String::new();
    for n in 0..400 {
        writeln!(text, "{n} {}", "ä".repeat(n % 97)).expect("a String");
    }
    text += &"ö".repeat(3_000);
    room.put("a", &text);
    for max in [200, 333, 4_096, 1_000_000] {
        let (mut whole, mut next) = (String::new(), json!({}));
        loop {
            let mut arguments = json!({"path": "a", "max_bytes": max});
            for (name, value) in next.as_object().expect("a window") {
                arguments[name] = value.clone();
            }
            let read = one(&room, arguments);
            let content = read["content"].as_str().expect("text");
            assert!(content.len() <= max, "{} bytes, {max} allowed", content.len());
            whole += content;
            assert_eq!(read["truncated"].as_bool(), Some(read.get("next").is_some()));
            match read.get("next") {
                Some(window) => next = window.clone(),
                None => break,
            }
        }
        assert!(whole == text, "no gap and no overlap by {max}");
    }
    assert_eq!(one(&room, json!({"path": "a", "max_bytes": text.len()}))["truncated"], false, "an exact fit");
    assert_eq!(one(&room, json!({"path": "a", "max_bytes": text.len() - 1}))["truncated"], true);
}

#[test]
fn a_batch_answers_for_each_file() {
    let room = Room::new();
    room.put("a", "1\n2\n3\n");
    room.put("b", "x\ny\n");
    let result = room.call(
        "read",
        json!({"files": ["a", {"path": "missing"}, {"path": "b", "lines": [2, 2]}, {"path": "a", "bytes": [0, 1]}], "lines": [1, 1]}),
    );
    let files = result["files"].as_array().expect("files");
    assert_eq!(files.len(), 4);
    assert_eq!(
        (&files[0]["content"], &files[2]["content"], &files[3]["content"]),
        (&json!("1\n"), &json!("y\n"), &json!("1"))
    );
    assert_eq!((&files[1]["error"]["code"], &files[1]["path"]), (&json!("not_found"), &json!("missing")));
    let many = |n: usize| json!({"files": vec!["a"; n]});
    assert_eq!(room.call("read", many(64))["files"].as_array().map(Vec::len), Some(64));
    room.refused("read", many(65), "invalid_argument");
    room.refused("read", many(0), "invalid_argument");
    room.refused("read", json!({}), "invalid_argument");
    room.refused("read", json!({"path": "a", "files": ["a"]}), "invalid_argument");
}

#[test]
fn the_answer_of_a_batch_is_bounded() {
    let room = Room::new();
    let text = "0123456789abcde\n".repeat(1 << 16);
    let files: Vec<String> = (0..6).map(|n| format!("f{n}")).collect();
    files.iter().for_each(|file| room.put(file, &text));
    let result = room.call("read", json!({"files": files, "max_bytes": 4 << 20}));
    let files = result["files"].as_array().expect("files");
    let sent: usize = files.iter().map(|file| file["content"].as_str().map_or(0, str::len)).sum();
    assert!(sent <= (4 << 20) + 64, "{sent}");
    assert_eq!(
        (&files[3]["truncated"], &files[4]["truncated"], &files[5]["truncated"]),
        (&json!(false), &json!(true), &json!(true))
    );
    assert!(files.iter().all(|file| file["hash"] == hash(&text)));
    room.refused("read", json!({"path": "f0", "max_bytes": 0}), "invalid_argument");
    room.refused("read", json!({"path": "f0", "max_bytes": (8 << 20) + 1}), "invalid_argument");
}

#[test]
fn every_kind_of_content_has_its_form() {
    let room = Room::new();
    let utf16: Vec<u8> = "\u{feff}zwei\nzeilen\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    room.put("utf16", &utf16);
    let read = one(&room, json!({"path": "utf16", "lines": [2, 2]}));
    assert_eq!(
        (&read["content"], &read["encoding"], &read["hash"]),
        (&json!("zeilen\n"), &json!("utf-16le"), &json!(hash(&utf16)))
    );
    room.put("latin1", b"caf\xe9\n");
    let read = one(&room, json!({"path": "latin1"}));
    assert_eq!((&read["content"], &read["encoding"]), (&json!("caf\u{fffd}\n"), &json!("unknown-8bit")));
    room.put("bom", b"\xef\xbb\xbfa\r\nb\r\n");
    let read = one(&room, json!({"path": "bom"}));
    assert_eq!((&read["content"], &read["line_end"]), (&json!("\u{feff}a\r\nb\r\n"), &json!("crlf")));
    room.put("cr", b"a\rb\rc");
    let read = one(&room, json!({"path": "cr", "lines": [2, 2]}));
    assert_eq!((&read["content"], &read["lines"], &read["line_end"]), (&json!("b\r"), &json!(3), &json!("cr")));
    room.put("binary", b"\x7fELF\0\0\0");
    let read = one(&room, json!({"path": "binary"}));
    assert_eq!((read.get("content"), &read["encoding"], &read["size"]), (None, &json!("binary"), &json!(7)));
    for path in ["utf16", "latin1", "binary"] {
        room.refused("read", json!({"path": path, "encoding": "utf-8"}), "not_text");
    }
    let read = one(&room, json!({"path": "binary", "encoding": "base64", "bytes": [1, 3]}));
    assert_eq!((&read["content"], &read["hash"]), (&json!(STANDARD.encode("ELF")), &json!(hash(b"\x7fELF\0\0\0"))));
    room.put("empty", b"");
    let read = one(&room, json!({"path": "empty"}));
    assert_eq!((&read["content"], &read["lines"], &read["hash"]), (&json!(""), &json!(0), &json!(hash(""))));
}

#[test]
fn media_travel_as_blocks() {
    let room = Room::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    room.put("dir/a b.bin", png);
    let outcome = room.outcome("read", json!({"path": "dir/a b.bin"}));
    let Some(Block::Image { data, media_type }) = outcome.content.get(1) else { panic!("{outcome:?}") };
    assert_eq!((data.as_str(), media_type.as_str()), (STANDARD.encode(png).as_str(), "image/png"));
    let read = &outcome.structured["files"][0];
    assert_eq!(
        (&read["encoding"], &read["media_type"], &read["hash"]),
        (&json!("media"), &json!("image/png"), &json!(hash(png)))
    );
    room.put("dir/a b.pdf", b"%PDF-1.7\n");
    let outcome = room.outcome("read", json!({"path": "dir/a b.pdf"}));
    let Some(Block::Resource { uri, media_type, .. }) = outcome.content.get(1) else { panic!("{outcome:?}") };
    assert_eq!((uri.as_str(), media_type.as_str()), ("wardfs:dir/a%20b.pdf", "application/pdf"));
    let read = one(&room, json!({"path": "dir/a b.bin", "max_bytes": png.len() - 1}));
    assert_eq!((&read["truncated"], read.get("content")), (&json!(true), None), "too large to send");
}

#[test]
fn windows_that_make_no_sense_are_refused() {
    let room = Room::new();
    room.put("a", "x\n");
    for arguments in [
        json!({"path": "a", "lines": [0, 1]}),
        json!({"path": "a", "lines": [3, 2]}),
        json!({"path": "a", "lines": [1, 1], "bytes": [0, 1]}),
        json!({"path": "a", "lines": [1, 1], "encoding": "base64"}),
        json!({"path": "a", "bytes": [0, 1], "numbered": true}),
        json!({"path": "a", "what": 1}),
        json!({"path": {"bytes": "?"}}),
        json!({"path": "a\u{0}b"}),
        json!([1]),
    ] {
        room.refused("read", arguments, "invalid_argument");
    }
}

#[test]
fn what_is_no_file_is_not_read() {
    let room = Room::new();
    room.put("dir/a", "x");
    let fifo = room.host("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    room.refused("read", json!({"path": "dir"}), "is_a_directory");
    room.refused("read", json!({"path": ""}), "is_a_directory");
    room.refused("read", json!({"path": "dir/a/b"}), "not_a_directory");
    room.refused("read", json!({"path": "nothing"}), "not_found");
    room.refused("read", json!({"path": "../up"}), "outside_view");
    room.refused("read", json!({"path": "/etc/passwd"}), "outside_view");
    // Had it been opened, this would hang.
    room.refused("read", json!({"path": "fifo"}), "unsupported");
    assert_eq!(room.call("stat", json!({"path": "fifo"}))["type"], "other");
}

#[test]
fn symlinks_are_followed_inside_alone() {
    let room = Room::new();
    room.put("dir/a", "inside");
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, room.host(name)).expect("a link");
    link("dir/a", "good");
    link("../dir", "dir/up");
    link("/etc/passwd", "out");
    link("../../etc/passwd", "out2");
    link("/workspace/dir/a", "absolute");
    link("nowhere", "dangling");
    link("loop2", "loop1");
    link("loop1", "loop2");
    for path in ["good", "dir/up/a", "absolute"] {
        let read = one(&room, json!({ "path": path }));
        assert_eq!((&read["content"], &read["path"]), (&json!("inside"), &json!("dir/a")), "{path}");
    }
    for (path, code) in
        [("out", "outside_view"), ("out2", "outside_view"), ("dangling", "not_found"), ("loop1", "symlink_loop")]
    {
        room.refused("read", json!({ "path": path }), code);
        let stat = room.call("stat", json!({ "path": path }));
        assert_eq!((&stat["exists"], &stat["type"]), (&json!(true), &json!("symlink")), "{path}");
    }
    assert_eq!(room.call("stat", json!({"path": "out"}))["target"], "/etc/passwd");
}

#[test]
fn names_that_are_not_utf8_travel() {
    let room = Room::new();
    room.put(b"d\xff/\xfe.txt", "x\n");
    let bytes = json!({"bytes": STANDARD.encode(b"d\xff/\xfe.txt")});
    assert_eq!(one(&room, json!({ "path": bytes }))["path"], bytes);
    let listed = room.call("list", json!({}));
    assert_eq!(listed["entries"][1]["path"], bytes, "{listed}");
    let found = room.call("find", json!({"pattern": "**/*.txt"}));
    assert_eq!(found["matches"][0]["path"], bytes);
    assert_eq!(room.call("search", json!({"query": "x"}))["matches"][0]["path"], bytes);
    let edited = room.call("edit", json!({"path": bytes, "edits": [{"old_text": "x", "new_text": "y"}]}));
    assert_eq!(edited["path"], bytes);
    assert_eq!(room.call("delete", json!({ "path": bytes }))["paths"][0]["path"], bytes);
}

#[test]
fn stat_tells_what_is_there_and_what_is_allowed() {
    let room = Room::new();
    room.put("a", "text");
    fs::set_permissions(room.host("a"), fs::Permissions::from_mode(0o750)).expect("a mode");
    fs::hard_link(room.host("a"), room.host("b")).expect("a link");
    let stat = room.call("stat", json!({"path": "a", "hash": true}));
    assert_eq!(
        (&stat["exists"], &stat["type"], &stat["size"], &stat["mode"]),
        (&json!(true), &json!("file"), &json!(4), &json!("0750"))
    );
    assert_eq!((&stat["links"], &stat["hash"]), (&json!(2), &json!(hash("text"))));
    assert_eq!((&stat["access"]["read"], &stat["access"]["write"]), (&json!(true), &json!(true)));
    assert_eq!(stat.get("version"), None, "nothing is recorded of it");
    let written = room.call("write", json!({"path": "c", "content": "x"}));
    assert_eq!(room.call("stat", json!({"path": "c", "hash": true}))["version"], written["operation"]);
    for path in ["none", "a/b", "no/where"] {
        let stat = room.call("stat", json!({ "path": path }));
        assert_eq!((&stat["exists"], &stat["access"]["write"]), (&json!(false), &json!(true)), "{path}");
    }
    assert_eq!(room.call("stat", json!({"path": "/workspace"}))["type"], "directory");
    room.refused("stat", json!({"path": "/elsewhere"}), "outside_view");
}

#[test]
fn two_contents_are_compared() {
    let room = Room::new();
    room.put("a", "1\n2\n3\n");
    room.put("b", "1\nzwei\n3\n4\n");
    let diff = room.call("diff", json!({"a": "a", "b": {"path": "b"}}));
    assert_eq!(diff["diff"], "--- a/a\n+++ b/b\n@@ -1,3 +1,4 @@\n 1\n-2\n+zwei\n 3\n+4\n");
    assert_eq!((&diff["identical"], &diff["added"], &diff["removed"]), (&json!(false), &json!(2), &json!(1)));
    assert_eq!(diff["b"]["hash"], hash("1\nzwei\n3\n4\n"));
    assert_eq!(room.call("diff", json!({"a": "a", "b": "b", "a_lines": [1, 1], "b_lines": [1, 1]}))["identical"], true);
    assert_eq!(room.call("diff", json!({"a": "a", "b": "a"}))["identical"], true);
    let long = |sign: &str| (0..4_000).map(|n| format!("{sign}{n}\n")).collect::<String>();
    room.put("long-a", long("a"));
    room.put("long-b", long("b"));
    let diff = room.call("diff", json!({"a": "long-a", "b": "long-b"}));
    assert_eq!((&diff["diff_truncated"], &diff["added"]), (&json!(true), &json!(4_000)));
    assert!(diff["diff"].as_str().is_some_and(|text| text.chars().count() <= 16_000));
    room.refused("diff", json!({"a": "a", "b": "none"}), "not_found");
    room.refused("diff", json!({"a": "a", "b": "b", "a_lines": [0, 1]}), "invalid_argument");
    room.refused("diff", json!({"a": "a", "b": "b", "context": 101}), "invalid_argument");
}
