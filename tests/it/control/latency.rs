//! How long a small call takes, by its way in. The figures are printed; only what would be broken fails.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::room::{Room, Talk};

const CALLS: usize = 3_000;
const WARM: usize = 300;

/// Times of calls, one after the other, sorted.
fn measure(talk: &mut Talk, request: impl Fn(usize) -> Value) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..CALLS + WARM)
        .map(|n| {
            let line = format!("{}\n", request(n));
            let began = Instant::now();
            talk.raw(&line);
            let answer = talk.next();
            let took = began.elapsed();
            assert_eq!(answer["id"], n, "{answer}");
            took
        })
        .skip(WARM)
        .collect();
    times.sort_unstable();
    times
}

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn report(name: &str, times: &[Duration]) -> Duration {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{name}: p50 {:?}, p99 {:?}, worst {:?}", at(50), at(99), at(100));
    at(50)
}

/// A read of 4 KiB is a call whose answer has that size.
#[test]
fn a_small_call_is_answered_at_once() {
    let room = Room::new();
    let params = json!({"name": "big", "arguments": {"size": 4096}});
    let plain = json!({"jsonrpc": "2.0", "method": "tools/call", "params": params});
    let with_id = |message: &Value, id: usize| {
        let mut message = message.clone();
        message["id"] = id.into();
        message
    };
    let mut talk = room.talk();
    let p50 = report("plain, 4 KiB", &measure(&mut talk, |n| with_id(&plain, n)));

    let mut legacy = room.talk();
    legacy.send(&super::eras::initialize("2025-06-18"));
    legacy.result(0);
    report("MCP with a handshake, 4 KiB", &measure(&mut legacy, |n| with_id(&plain, n)));

    let mut modern = plain.clone();
    modern["params"]["_meta"] = super::eras::meta();
    report("MCP without one, 4 KiB", &measure(&mut room.talk(), |n| with_id(&modern, n)));

    // Far above what it is, and far below what a poll or a delayed wake-up would make of it.
    assert!(p50 < Duration::from_millis(5), "{p50:?}");
}

/// Slow calls of others are not waited for.
#[test]
fn slow_calls_hold_up_nobody_else() {
    let room = Room::new();
    let mut slow: Vec<Talk> = (0..8).map(|_| room.talk()).collect();
    for talk in &mut slow {
        for id in 0..64 {
            talk.ask(id, "wait", json!({}));
        }
    }
    room.tools.until(|seen| seen.inside >= 256);
    let times = measure(
        &mut room.talk(),
        |n| json!({"id": n, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}),
    );
    let p50 = report("plain, beside 512 slow calls", &times);
    assert!(p50 < Duration::from_millis(20), "{p50:?}");
    room.tools.open();
    for talk in &mut slow {
        let mut ids: Vec<i64> = (0..64).map(|_| talk.next()["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..64).collect::<Vec<_>>());
    }
}
