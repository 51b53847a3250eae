//! MCP of both eras on one socket.

use serde_json::{Value, json};

use super::room::{Room, Talk};

/// What a request of 2026-07-28 carries.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

/// The greeting of older versions, with the id 0.
pub fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = meta();
    request(id, method, params)
}

fn greeted(room: &Room, version: &str) -> Talk {
    let mut talk = room.talk();
    talk.send(&initialize(version));
    let result = talk.result(0);
    assert_eq!(result["protocolVersion"], version);
    assert_eq!(result["serverInfo"]["name"], "wardfs");
    assert!(result["capabilities"]["tools"].is_object(), "{result}");
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    talk
}

fn names(result: &Value) -> Vec<&str> {
    result["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn every_older_version_is_greeted() {
    let room = Room::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut talk = greeted(&room, version);
        talk.send(&request(1, "ping", json!({})));
        assert_eq!(talk.result(1), json!({}));
        talk.send(&request(2, "tools/list", json!({})));
        let listed = talk.result(2);
        assert_eq!(names(&listed), ["echo", "wait", "hold", "big", "fails", "breaks", "shows"]);
        assert_eq!(listed["tools"][0]["annotations"]["readOnlyHint"], true);
        assert_eq!(listed["tools"][2]["annotations"]["destructiveHint"], true);
        talk.send(&request("x", "tools/call", json!({"name": "echo", "arguments": {"a": [1, {"b": null}]}})));
        let result = talk.result("x");
        assert_eq!(result["isError"], false);
        assert_eq!(result["structuredContent"]["arguments"], json!({"a": [1, {"b": null}]}));
        assert_eq!(result["content"], json!([{"type": "text", "text": "done"}]));
        assert!(result.get("resultType").is_none(), "{version}: {result}");
    }
    let mut talk = room.talk();
    talk.send(&initialize("1999-01-01"));
    assert_eq!(talk.result(0)["protocolVersion"], "2025-11-25", "an unknown version gets the newest of that kind");
}

#[test]
fn the_newest_version_needs_no_greeting() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.send(&modern(1, "server/discover", json!({})));
    let found = talk.result(1);
    let versions = found["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    assert!(found["ttlMs"].is_number() && found["cacheScope"].is_string(), "{found}");
    talk.send(&modern(2, "tools/list", json!({})));
    let listed = talk.result(2);
    assert_eq!(names(&listed).len(), 7);
    assert_eq!(listed["resultType"], "complete");
    assert!(listed["ttlMs"].is_number() && listed["cacheScope"].is_string(), "{listed}");
    talk.send(&modern(3, "tools/call", json!({"name": "echo", "arguments": {"a": 1}})));
    let result = talk.result(3);
    assert_eq!((&result["resultType"], &result["isError"]), (&json!("complete"), &json!(false)));
    talk.send(&modern(4, "ping", json!({})));
    talk.error(4, -32601);
    talk.send(&request(5, "tools/list", json!({})));
    assert!(talk.error(5, -32602).contains("_meta"), "each request carries it");

    let mut old = modern(6, "tools/list", json!({}));
    old["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    talk.send(&old);
    let answer = talk.next();
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
    assert_eq!(answer["error"]["data"]["requested"], "2031-01-01");

    let mut bare = room.talk();
    bare.send(&request(1, "server/discover", json!({})));
    bare.error(1, -32602);
}

#[test]
fn a_newer_request_is_served_after_an_older_greeting() {
    let room = Room::new();
    let mut talk = greeted(&room, "2025-06-18");
    talk.send(&modern(1, "tools/call", json!({"name": "echo", "arguments": {}})));
    assert_eq!(talk.result(1)["resultType"], "complete");
    talk.send(&request(2, "tools/call", json!({"name": "echo", "arguments": {}})));
    assert!(talk.result(2).get("resultType").is_none());
}

#[test]
fn errors_are_of_two_kinds() {
    let room = Room::new();
    let mut talk = greeted(&room, "2025-11-25");
    talk.send(&request(1, "tools/call", json!({"name": "none", "arguments": {}})));
    assert!(talk.error(1, -32602).contains("none"));
    talk.send(&request(2, "tools/call", json!({"arguments": {}})));
    talk.error(2, -32602);
    talk.send(&request(3, "tools/call", json!({"name": "fails"})));
    let result = talk.result(3);
    assert_eq!((&result["isError"], &result["structuredContent"]["code"]), (&json!(true), &json!("invalid_argument")));
    talk.send(&request(4, "tools/call", json!({"name": "breaks", "arguments": {}})));
    talk.error(4, -32603);
    talk.send(&request(5, "nothing/here", json!({})));
    talk.error(5, -32601);
    // The tool sees arguments of any shape, and says itself what it makes of them.
    talk.send(&request(6, "tools/call", json!({"name": "echo", "arguments": "{\"a\": 1}"})));
    assert_eq!(talk.result(6)["structuredContent"]["arguments"], "{\"a\": 1}");
    talk.send(&json!({"jsonrpc": "2.0", "id": null, "method": "tools/list"}));
    talk.error(Value::Null, -32600);
    talk.send(&json!({"jsonrpc": "2.0", "id": 7}));
    talk.raw("not JSON\n");
    assert!(talk.error(7, -32600).contains("MCP"));
    talk.error(Value::Null, -32700);
    talk.send(&request(8, "tools/call", json!({"name": "shows", "arguments": {}})));
    let content = talk.result(8)["content"].take();
    let kinds: Vec<&str> = content.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    assert_eq!(content[2]["resource"]["blob"], "AA==");
}

#[test]
fn a_session_and_an_operation_can_be_named() {
    let room = Room::new();
    let seen = |talk: &mut Talk, message: &Value| {
        talk.send(message);
        let seen = talk.result(message["id"].clone())["structuredContent"].take();
        assert_eq!(seen["view"], "test");
        assert_eq!(seen["pid"], std::process::id());
        (seen["session"].clone(), seen["operation_id"].clone())
    };
    let expected = (json!("s"), json!("o"));
    let mut talk = greeted(&room, "2025-06-18");
    let beside = json!({"name": "echo", "arguments": {}, "session": "s", "operation_id": "o"});
    assert_eq!(seen(&mut talk, &request(1, "tools/call", beside.clone())), expected);
    let within = json!({"name": "echo", "_meta": {"wardfs/session": "s", "wardfs/operation_id": "o"}});
    assert_eq!(seen(&mut talk, &request(2, "tools/call", within)), expected);
    let mut talk = room.talk();
    assert_eq!(seen(&mut talk, &modern(3, "tools/call", beside)), expected);
    let bare = json!({"name": "echo", "arguments": {}});
    assert_eq!(seen(&mut talk, &modern(4, "tools/call", bare)), (Value::Null, Value::Null));
}

#[test]
fn what_comes_before_the_greeting_does_no_harm() {
    let room = Room::new();
    let mut talk = room.talk();
    talk.send(&request(1, "ping", json!({})));
    assert_eq!(talk.result(1), json!({}));
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    talk.send(&modern(2, "server/discover", json!({})));
    talk.result(2);
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}));
    talk.send(&json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
    talk.send(&initialize("2025-06-18"));
    assert_eq!(talk.result(0)["protocolVersion"], "2025-06-18");
}

#[test]
fn a_cancelled_call_ends_and_is_not_answered() {
    let room = Room::new();
    let mut talk = greeted(&room, "2025-06-18");
    talk.ask(1, "wait", json!({}));
    talk.ask("1", "wait", json!({}));
    room.tools.until(|seen| seen.inside == 2);
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}));
    room.tools.until(|seen| seen.given_up == 1 && seen.inside == 1);
    talk.quiet();
    room.tools.open();
    talk.result("1");
    talk.quiet();
}

#[test]
fn many_calls_run_at_once() {
    let room = Room::new();
    let mut talk = greeted(&room, "2025-06-18");
    for id in 1..=200 {
        talk.ask(id, "wait", json!({}));
    }
    room.tools.until(|seen| seen.inside == 64);
    talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 200}}));
    room.tools.open();
    let mut ids: Vec<i64> = (1..200).map(|_| talk.next()["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..200).collect::<Vec<_>>(), "all but the cancelled one");
    talk.quiet();
    assert_eq!(room.tools.seen.lock().most, 64);
}
