//! How connections and servers end.

use std::time::{Duration, Instant};

use serde_json::json;
use wardfs::control::Limits;

use super::{
    bounds::flood,
    room::{LONG, Room},
};

/// Both eras, and plain: the greeting that there is, if any.
fn greetings() -> [Option<serde_json::Value>; 2] {
    [None, Some(super::eras::initialize("2025-06-18"))]
}

#[test]
fn calls_of_a_peer_that_left_are_given_up() {
    for greeting in greetings() {
        let room = Room::of(Limits { calls: 2, ..Limits::default() });
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        for id in 1..=10 {
            talk.ask(id, "wait", json!({}));
        }
        room.tools.until(|seen| seen.inside == 2);
        let mut other = room.talk();
        other.ask(1, "wait", json!({}));
        room.tools.until(|seen| seen.inside == 3);
        let began = Instant::now();
        drop(talk);
        room.tools.until(|seen| seen.given_up == 2 && seen.inside == 1);
        assert!(began.elapsed() < Duration::from_secs(4), "it has no use for a time of grace");
        other.quiet();
        assert_eq!(room.tools.seen.lock().calls, 4, "what had not begun never does");
    }
}

/// Also if nothing can be read from it, because too much waits already.
#[test]
fn the_end_of_a_peer_that_was_held_back_is_seen() {
    for greeting in greetings() {
        let room = Room::of(Limits { calls: 1, line: 4 << 10, ..Limits::default() });
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        let calls: String = (1..20_000)
            .map(|id| {
                format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait"}}))
            })
            .collect();
        let sent = flood(talk.stream.get_ref(), calls.as_bytes(), calls.len());
        assert!(sent < calls.len(), "it is held back");
        room.tools.until(|seen| seen.inside == 1);
        drop(talk);
        room.tools.until(|seen| seen.given_up == 1 && seen.inside == 0);
        room.talk().quiet();
    }
}

/// A client that says all that it has to say, and then waits for the answers.
#[test]
fn a_peer_that_only_stops_asking_is_answered() {
    for greeting in greetings() {
        let room = Room::new();
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        talk.ask(1, "wait", json!({}));
        talk.ask(2, "big", json!({"size": 3 << 20}));
        talk.raw("{\"id\": 3, \"half a line\"");
        talk.end_of_requests();
        assert_eq!(talk.result(2)["structuredContent"]["text"].as_str().map(str::len), Some(3 << 20));
        room.tools.open();
        talk.result(1);
        talk.ended();
    }
}

#[test]
fn a_peer_that_stops_asking_is_not_waited_for_without_end() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.ask(1, "wait", json!({}));
    room.tools.until(|seen| seen.inside == 1);
    talk.end_of_requests();
    let began = Instant::now();
    room.tools.until(|seen| seen.given_up == 1);
    assert!(began.elapsed() >= Duration::from_secs(4), "it had its time");
    talk.ended();
}

#[test]
fn an_end_of_the_server_lets_changes_finish() {
    for greeting in greetings() {
        let mut room = Room::of(Limits { calls: 3, ..Limits::default() });
        let mut talk = room.talk();
        if let Some(greeting) = greeting {
            talk.send(&greeting);
            talk.result(0);
        }
        let mut idle = room.talk();
        idle.quiet();
        talk.ask("change", "hold", json!({}));
        talk.ask("look", "wait", json!({}));
        talk.ask("look too", "wait", json!({}));
        talk.ask("waits", "wait", json!({}));
        // Once this is answered, all before it was read.
        talk.send(&json!({"jsonrpc": "2.0", "id": "read", "method": "ping"}));
        talk.result("read");
        room.tools.until(|seen| seen.inside == 3);
        let tools = std::sync::Arc::clone(&room.tools);
        let path = room.path.clone();
        let ending = std::thread::spawn(move || {
            let began = Instant::now();
            room.shutdown(LONG);
            (room, began.elapsed())
        });
        // What only looks is told to end, and answered; what changes something is let be.
        let mut answered: Vec<String> = Vec::new();
        for _ in 0..3 {
            let answer = talk.next();
            assert_eq!(answer["result"]["structuredContent"]["code"], "cancelled", "{answer}");
            answered.push(answer["id"].as_str().unwrap().to_owned());
        }
        answered.sort_unstable();
        assert_eq!(answered, ["look", "look too", "waits"]);
        idle.ended();
        assert_eq!(tools.seen.lock().held, 0);
        tools.open();
        assert_eq!(talk.result("change")["isError"], false);
        talk.ended();
        let (room, took) = ending.join().unwrap();
        assert!(took < LONG, "{took:?}");
        assert!(std::os::unix::net::UnixStream::connect(path).is_err(), "nobody listens any more");
        drop(room);
    }
}

#[test]
fn an_end_of_the_server_takes_no_longer_than_it_may() {
    let mut room = Room::new();
    let mut talk = room.talk();
    talk.ask(1, "hold", json!({}));
    let mut deaf = room.talk();
    for id in 0..64 {
        deaf.ask(id, "big", json!({"size": 1 << 20}));
    }
    room.tools.until(|seen| seen.inside == 1);
    let began = Instant::now();
    room.shutdown(Duration::from_millis(300));
    let took = began.elapsed();
    assert!((Duration::from_millis(300)..Duration::from_secs(5)).contains(&took), "{took:?}");
    room.tools.open();
    room.tools.until(|seen| seen.held == 1);
}

#[test]
fn a_server_without_connections_ends_at_once() {
    let mut room = Room::new();
    room.talk().quiet();
    let began = Instant::now();
    room.shutdown(LONG);
    assert!(began.elapsed() < LONG / 2);
}
