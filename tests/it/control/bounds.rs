//! What a socket bears: lines that are no messages, or too long, or too deep; floods; peers that do not read.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde_json::{Value, json};
use wardfs::control::Limits;

use super::room::{LONG, Room, Talk};

#[test]
fn lines_that_are_no_json_are_answered() {
    let room = Room::new();
    for greeting in [None, Some(super::eras::initialize("2025-06-18"))] {
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        let bad: [&[u8]; 6] = [b"{", b"hello", b"{\"a\": 1} {}", b"{\"a\": \"\xff\"}", b"{\"a\": 01}", b"\x00"];
        for line in bad {
            talk.raw([line, b"\n"].concat());
            let said = talk.error(Value::Null, -32700);
            assert!(said.starts_with("not JSON"), "{said}");
        }
        talk.quiet();
    }
}

#[test]
fn a_line_may_come_in_pieces() {
    let room = Room::new();
    let mut talk = room.talk();
    let line =
        json!({"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"ä": "ö"}}}).to_string();
    let mut other = room.talk();
    for byte in line.as_bytes() {
        talk.raw([*byte]);
    }
    // Half a line of one connection keeps no other waiting.
    other.quiet();
    talk.raw("\r\n");
    assert_eq!(talk.result(1)["structuredContent"]["arguments"], json!({"ä": "ö"}));
    // And several lines may come in one piece.
    let pings: String = (0..100).map(|id| format!("{{\"id\":{id},\"method\":\"ping\"}}\n")).collect();
    talk.raw(pings);
    for id in 0..100 {
        talk.result(id);
    }
}

#[test]
fn a_line_has_a_longest_length() {
    let limits = Limits { line: 1_000, ..Limits::default() };
    let room = Room::of(limits);
    for greeting in [None, Some(super::eras::initialize("2025-06-18"))] {
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        let of_length = |id: i64, length: usize| {
            let empty = json!({"id": id, "jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": {"a": ""}}});
            let filled = "x".repeat(length - empty.to_string().len());
            empty.to_string().replace("\"\"", &format!("\"{filled}\""))
        };
        talk.raw(of_length(1, 1_000) + "\n");
        talk.result(1);
        talk.raw(of_length(2, 1_001) + "\n");
        assert!(talk.error(Value::Null, -32600).contains("1000"));
        // It is said before the line's end has come, once, and the connection goes on behind it.
        talk.raw("y".repeat(5_000));
        talk.error(Value::Null, -32600);
        talk.raw("z".repeat(500_000));
        talk.raw("\n");
        talk.quiet();
    }
}

#[test]
fn a_large_message_is_taken_up_to_the_default() {
    let room = Room::new();
    let mut talk = room.talk();
    let text = "x".repeat(15 << 20);
    let line = json!({"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": text}}});
    talk.send(&line);
    let result = talk.result(1);
    assert_eq!(result["structuredContent"]["arguments"]["a"].as_str().map(str::len), Some(15 << 20));
    let mut writer = talk.stream.get_ref().try_clone().unwrap();
    let sent = std::thread::spawn(move || writer.write_all(&[&[b'x'; 17 << 20][..], b"\n"].concat()));
    talk.error(Value::Null, -32600);
    sent.join().unwrap().unwrap();
    talk.quiet();
}

#[test]
fn nesting_has_a_deepest_level() {
    let nested = |levels: usize| {
        // The message, its params and the arguments are three levels.
        let (open, close) = ("[".repeat(levels - 3), "]".repeat(levels - 3));
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"big","arguments":{{"size":1,"a":{open}{close}}}}}}}"#
        )
    };
    let check = |limits: Limits, levels: usize, fine: bool| {
        let room = Room::of(limits);
        for greeting in [None, Some(super::eras::initialize("2025-06-18"))] {
            let mut talk = room.talk();
            if let Some(greeting) = greeting {
                talk.send(&greeting);
                talk.result(0);
            }
            talk.raw(nested(levels) + "\n");
            if fine {
                talk.result(1);
            } else {
                assert!(talk.error(Value::Null, -32600).contains("nested"), "{levels}");
            }
            talk.quiet();
        }
    };
    check(Limits::default(), 127, true);
    check(Limits::default(), 128, false);
    check(Limits::default(), 1_000_000, false);
    check(Limits { depth: 5, ..Limits::default() }, 5, true);
    check(Limits { depth: 5, ..Limits::default() }, 6, false);
}

/// Writes as long as the socket takes it; gives how much that was.
pub fn flood(stream: &UnixStream, piece: &[u8], most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    let mut sent = 0;
    while sent < most {
        match (&*stream).write(piece) {
            Ok(count) => sent += count,
            Err(_) => return sent,
        }
    }
    sent
}

/// A peer that asks and asks and reads nothing is not read from any more, and holds up nobody else.
#[test]
fn a_peer_that_does_not_read_is_held_back() {
    let room = Room::new();
    let asks: [(&str, String, usize); 3] = [
        ("pings", json!({"id": 1, "method": "ping"}).to_string(), 64 << 20),
        ("listings", json!({"id": 1, "method": "tools/list"}).to_string(), 16 << 20),
        ("errors", "no JSON".to_owned(), 16 << 20),
    ];
    for (what, line, most) in asks {
        let talk = room.talk();
        let piece = format!("{line}\n").repeat(1_000);
        let sent = flood(talk.stream.get_ref(), piece.as_bytes(), most);
        assert!(sent < most, "{what}: {sent} bytes were taken");
        room.talk().quiet();
    }
}

/// Answers that nobody reads are as many as calls may run, however many were let in before.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    for greeting in [None, Some(super::eras::initialize("2025-06-18"))] {
        let room = Room::new();
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        for id in 1..=64 {
            talk.ask(id, "wait", json!({}));
        }
        room.tools.until(|seen| seen.inside == 64);
        for id in 65..=500 {
            talk.ask(id, "big", json!({"size": 1 << 20}));
        }
        talk.send(&json!({"jsonrpc": "2.0", "id": "read", "method": "ping"}));
        talk.result("read");
        room.tools.open();
        room.tools.until(|seen| seen.calls > 64);
        let before = room.tools.seen.lock().calls;
        for _ in 0..50 {
            room.talk().quiet();
        }
        let ran = room.tools.seen.lock().calls - 50;
        assert!(ran <= 64 + 64 + 4, "{before}, then {ran} calls ran for a peer that read nothing");
        // Once it reads, it gets all of them, whole and in lines.
        let mut ids: Vec<i64> = (1..=500).map(|_| talk.next()["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (1..=500).collect::<Vec<_>>());
    }
}

/// Requests that wait for their turn are bounded in number and in bytes.
#[test]
fn what_waits_is_bounded() {
    let room = Room::of(Limits { calls: 2, line: 64 << 10, ..Limits::default() });
    for (filling, most) in [(1, 40), (32 << 10, 12)] {
        let talk = room.talk();
        let filling = "x".repeat(filling);
        let calls: String = (0..2_000)
            .map(|id| {
                let params = json!({"name": "wait", "arguments": {"a": filling}});
                format!("{}\n", json!({"id": id, "method": "tools/call", "params": params}))
            })
            .collect();
        let line = calls.len() / 2_000;
        let sent = flood(talk.stream.get_ref(), calls.as_bytes(), calls.len());
        // What the kernel holds for the two sides is not ours.
        let held = sent.saturating_sub(512 << 10) / line;
        assert!(held <= most, "{held} calls of {line} bytes wait");
        room.talk().quiet();
    }
    room.tools.open();
}

#[test]
fn connections_are_bounded() {
    let room = Room::of(Limits { connections: 3, ..Limits::default() });
    let mut talks: Vec<Talk> = (0..3).map(|_| room.talk()).collect();
    talks.iter_mut().for_each(Talk::quiet);
    let mut refused = room.talk();
    assert!(refused.error(Value::Null, 1).contains("3 connections"));
    refused.ended();
    drop(talks.pop());
    // The end of the one that left is seen a moment later.
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let mut talk = room.talk();
        let mut byte = [0];
        let asked = talk.stream.get_mut().write_all(b"{\"id\":1,\"method\":\"ping\"}\n");
        if asked.is_ok() && talk.stream.read(&mut byte).is_ok_and(|count| count == 1) {
            let mut line = String::from("{");
            std::io::BufRead::read_line(&mut talk.stream, &mut line).unwrap();
            if !line.contains("error") {
                break;
            }
        }
        assert!(std::time::Instant::now() < deadline, "there is room again");
    }
    talks.iter_mut().for_each(Talk::quiet);
}

#[test]
fn a_thousand_connections_are_served() {
    let room = Room::new();
    let mut talks: Vec<Talk> = (0..1_000).map(|_| room.talk()).collect();
    for talk in &mut talks {
        talk.ask(1, "wait", json!({}));
    }
    // Each has a thread for its first call, whatever the others do.
    room.tools.until(|seen| seen.inside == 1_000);
    for talk in &mut talks[..50] {
        talk.quiet();
    }
    room.tools.open();
    for talk in &mut talks {
        talk.result(1);
    }
}
