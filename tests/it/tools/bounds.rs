//! Each number that a caller may give, at its bound and over it; cancellation.

use serde_json::json;
use wardfs::tools::{CallContext, Cancelled, ToolCall};

use super::room::Room;

#[test]
fn numbers_are_taken_up_to_their_bound_and_not_over_it() {
    let room = Room::new();
    room.put("a", "x\n");
    for (tool, more, name, least, most) in [
        ("list", json!({}), "limit", 1, 5_000),
        ("list", json!({}), "depth", 1, 64),
        ("find", json!({"pattern": "*"}), "limit", 1, 10_000),
        ("find", json!({"pattern": "*"}), "depth", 1, 256),
        ("search", json!({"query": "x"}), "limit", 1, 10_000),
        ("search", json!({"query": "x"}), "limit_per_file", 1, 10_000),
        ("search", json!({"query": "x"}), "depth", 1, 256),
        ("search", json!({"query": "x"}), "context", 0, 20),
        ("history", json!({}), "limit", 1, 1_000),
        ("read", json!({"path": "a"}), "max_bytes", 1, 8 << 20),
        ("diff", json!({"a": "a", "b": "a"}), "context", 0, 100),
        ("changes", json!({}), "wait_ms", 0, 60_000),
    ] {
        let with = |value: i64| {
            let mut arguments = more.clone();
            arguments[name] = json!(value);
            arguments
        };
        room.call(tool, with(least));
        if name != "wait_ms" {
            room.call(tool, with(most));
        }
        for wrong in [least - 1, most + 1] {
            room.refused(tool, with(wrong), "invalid_argument");
        }
    }
}

#[test]
fn a_cancelled_call_does_nothing() {
    let room = Room::new();
    room.put("a", "x\n");
    let cancelled = Cancelled::default();
    cancelled.set();
    let context = CallContext { cancelled, ..room.context.clone() };
    for (tool, arguments) in [
        ("read", json!({"path": "a"})),
        ("search", json!({"query": "x"})),
        ("write", json!({"path": "b", "content": ""})),
        ("delete", json!({"path": "a"})),
    ] {
        let call = ToolCall { name: tool.into(), arguments, operation_id: None };
        let outcome = room.tools.call(&call, &context).expect(tool);
        assert_eq!((outcome.is_error, &outcome.structured["code"]), (true, &json!("cancelled")));
    }
    assert!(room.exists("a") && !room.exists("b"));
}

#[test]
fn a_long_call_can_be_cancelled() {
    let room = Room::new();
    let context = CallContext { cancelled: Cancelled::default(), ..room.context.clone() };
    let cancelled = context.cancelled.clone();
    let tools = std::sync::Arc::clone(&room.tools);
    let call = ToolCall { name: "changes".into(), arguments: json!({"wait_ms": 60_000}), operation_id: None };
    let waiting = std::thread::spawn(move || tools.call(&call, &context).expect("changes"));
    cancelled.set();
    assert_eq!(waiting.join().expect("no panic").structured["code"], "cancelled");
}
