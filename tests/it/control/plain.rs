//! Plain connections: no handshake.

use serde_json::{Value, json};

use super::room::Room;

#[test]
fn tools_are_listed_and_called_at_once() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let listed = talk.result(1);
    let first = &listed["tools"][0];
    assert_eq!((&first["name"], &first["title"]), (&json!("echo"), &json!("echo")));
    assert_eq!(first["inputSchema"], json!({"type": "object"}));
    assert_eq!(first["outputSchema"], json!({"type": "object"}));
    assert_eq!(
        first["annotations"],
        json!({"title": "echo", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    for (tool, expected) in [("hold", (false, true, false)), ("breaks", (false, false, true))] {
        let listed = listed["tools"].as_array().unwrap().iter().find(|listed| listed["name"] == tool).unwrap();
        let hint = |name: &str| listed["annotations"][name].as_bool().unwrap();
        assert_eq!((hint("readOnlyHint"), hint("destructiveHint"), hint("idempotentHint")), expected, "{tool}");
    }
    let params = json!({"name": "echo", "arguments": {"a": "ä\n\u{0}"}, "session": "s", "operation_id": "o"});
    talk.send(&json!({"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": params}));
    let result = talk.result("two");
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["content", "structuredContent", "isError"]);
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    assert_eq!(
        result["structuredContent"],
        json!({
            "arguments": {"a": "ä\n\u{0}"}, "operation_id": "o", "session": "s", "view": "test",
            "uid": uid, "pid": std::process::id(), "owner": [uid, gid],
        })
    );
}

/// The request of the Burrow tools, which is no JSON-RPC by its letter.
#[test]
fn the_envelope_is_taken() {
    let room = Room::new();
    let mut talk = room.talk();
    let arguments = json!({"dirPath": "/srv/burrow/workspaces/example", "maxDepth": 2, "maxEntries": 100});
    let params = json!({"operationId": "fs-demo-001", "tool": "echo", "arguments": arguments});
    talk.send(&json!({"id": "fs-1", "method": "filesystem.execute", "params": params}));
    let seen = talk.result("fs-1")["structuredContent"].take();
    assert_eq!((&seen["arguments"], &seen["operation_id"]), (&arguments, &json!("fs-demo-001")));
    talk.send(&json!({"id": "fs-2", "method": "filesystem.execute", "params": {"name": "echo"}}));
    assert!(talk.error("fs-2", -32602).contains("params.tool"));
}

#[test]
fn what_is_wrong_is_said() {
    let room = Room::new();
    let mut talk = room.talk();
    let call = |id: Value, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let cases = [
        (call(json!(1), json!({"name": "none"})), json!(1), -32602, "none"),
        (call(json!(1), json!({"arguments": {}})), json!(1), -32602, "params.name"),
        (call(json!(1), json!({"name": 3})), json!(1), -32602, "params.name"),
        (call(json!(1), json!({"name": "echo", "session": 3})), json!(1), -32602, "params.session"),
        (call(json!(1), json!({"name": "echo", "operation_id": []})), json!(1), -32602, "params.operation_id"),
        (call(json!(1), json!(["echo"])), json!(1), -32602, "params"),
        (call(json!(null), json!({"name": "echo"})), json!(null), -32600, "id"),
        (call(json!(1.5), json!({"name": "echo"})), json!(null), -32600, "id"),
        (call(json!({"a": 1}), json!({"name": "echo"})), json!(null), -32600, "id"),
        (call(json!(1), json!({"name": "breaks"})), json!(1), -32603, "history"),
        (json!({"jsonrpc": "2.0", "id": 4, "method": "tools/nothing"}), json!(4), -32601, "tools/nothing"),
        (json!({"jsonrpc": "2.0", "id": 4, "method": 4}), json!(4), -32600, "method"),
        (json!({"jsonrpc": "2.0", "id": 4}), json!(4), -32600, "method"),
        (json!([{"jsonrpc": "2.0", "id": 4, "method": "ping"}]), json!(null), -32600, "batches"),
        (json!("ping"), json!(null), -32600, "object"),
    ];
    for (message, id, code, word) in cases {
        talk.send(&message);
        let said = talk.error(id, code);
        assert!(said.contains(word), "{message}: {said}");
    }
    // What a tool says is wrong is a result.
    talk.ask(1, "fails", json!({}));
    let result = talk.result(1);
    assert_eq!((&result["isError"], &result["structuredContent"]["code"]), (&json!(true), &json!("invalid_argument")));
    talk.quiet();
}

#[test]
fn notifications_and_answers_are_never_answered() {
    let room = Room::new();
    let mut talk = room.talk();
    for method in ["notifications/initialized", "notifications/cancelled", "tools/call", "tools/list", "nothing/here"] {
        talk.send(&json!({"jsonrpc": "2.0", "method": method, "params": {"name": "echo", "arguments": {}}}));
        talk.send(&json!({"jsonrpc": "2.0", "method": method}));
    }
    talk.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    talk.send(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}));
    talk.raw("\n\r\n   \n");
    talk.quiet();
    assert_eq!(room.tools.seen.lock().calls, 1, "the quiet one alone");
}

/// Answers come as they are ready, not as they were asked for.
#[test]
fn a_quick_call_overtakes_a_slow_one() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.ask("slow", "wait", json!({}));
    room.tools.until(|seen| seen.inside == 1);
    talk.ask("quick", "echo", json!({}));
    talk.result("quick");
    // An id may be used again once it is answered, and not before.
    talk.ask("slow", "echo", json!({}));
    assert!(talk.error("slow", -32600).contains("not answered yet"));
    room.tools.open();
    talk.result("slow");
    talk.ask("slow", "echo", json!({}));
    talk.result("slow");
}

#[test]
fn a_cancelled_call_ends_and_is_not_answered() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.ask(1, "wait", json!({}));
    talk.ask("1", "wait", json!({}));
    room.tools.until(|seen| seen.inside == 2);
    let cancel =
        |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    talk.send(&cancel(json!(1)));
    talk.send(&cancel(json!(77)));
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}));
    room.tools.until(|seen| seen.given_up == 1 && seen.inside == 1);
    talk.quiet();
    room.tools.open();
    talk.result("1");
    talk.send(&cancel(json!("1")));
    talk.quiet();
}

/// A call that waits for its turn is cancelled without ever running.
#[test]
fn a_waiting_call_can_be_cancelled() {
    let room = Room::new();
    let mut talk = room.talk();
    for id in 0..64 {
        talk.ask(id, "wait", json!({}));
    }
    room.tools.until(|seen| seen.inside == 64);
    for id in 64..3_000 {
        talk.ask(id, "wait", json!({}));
        talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    talk.ask("last", "wait", json!({}));
    talk.send(&json!({"jsonrpc": "2.0", "id": "read", "method": "ping"}));
    talk.result("read");
    room.tools.open();
    let mut answered: Vec<String> = (0..65).map(|_| talk.next()["id"].to_string()).collect();
    answered.sort_unstable();
    let mut expected: Vec<String> = (0..64).map(|id| id.to_string()).chain(["\"last\"".to_owned()]).collect();
    expected.sort_unstable();
    assert_eq!(answered, expected);
    assert_eq!(room.tools.seen.lock().calls, 65, "none of the cancelled ones began");
}

#[test]
fn many_calls_run_at_once() {
    let room = Room::new();
    let mut talk = room.talk();
    for id in 0..200 {
        talk.ask(id, "wait", json!({}));
    }
    room.tools.until(|seen| seen.inside == 64);
    room.tools.open();
    let mut ids: Vec<i64> = (0..200).map(|_| talk.next()["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
    let seen = room.tools.seen.lock();
    assert_eq!((seen.most, seen.calls), (64, 200));
}

/// A client that greets late is served as what it turns out to be.
#[test]
fn a_plain_connection_may_become_one_of_mcp() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.ask("slow", "wait", json!({}));
    talk.send(&super::eras::initialize("2025-06-18"));
    talk.result(0);
    talk.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}));
    assert!(!talk.error(1, -32601).contains("plain"), "it is one of MCP now");
    room.tools.open();
    talk.result("slow");
}
