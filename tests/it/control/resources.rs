//! Paths as MCP resources, in both eras: read, and told of when they change.

use std::time::{Duration, Instant};

use serde_json::json;

use super::eras::{initialize, meta};
use crate::harness::{Client, Mounted, Setup, is_root, sh};

const UPDATED: &str = "notifications/resources/updated";

fn mounted() -> Option<Mounted> {
    Setup::new().file("src/a b.rs", "text\n").file("src/bin", b"\0\x01").file("other", "x").mount()
}

fn greeted(mount: &Mounted) -> Client {
    let mut client = Client::connect(&mount.socket());
    client.send(&initialize("2025-06-18").to_string());
    let said = client.receive();
    assert_eq!(said["result"]["capabilities"]["resources"], json!({"subscribe": true}), "{said}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    client
}

fn updated(client: &mut Client) -> String {
    let told = client.receive();
    assert_eq!(told["method"], UPDATED, "{told}");
    told["params"]["uri"].as_str().unwrap().to_owned()
}

/// Hears of `uri`; perhaps before that once more of what it heard of already, which may be told in several steps.
fn hears_of(client: &mut Client, uri: &str, already: &str) {
    loop {
        let told = updated(client);
        if told == uri {
            return;
        }
        assert_eq!(told, already);
    }
}

#[test]
fn paths_are_read_by_their_uris() {
    let Some(mount) = mounted() else { return };
    let mut client = greeted(&mount);
    let listed = client.request("resources/list", &json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "wardfs:", "{listed}");
    let templates = client.request("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "wardfs:{+path}");
    let mut read = |uri: &str| client.request("resources/read", &json!({"uri": uri}));
    assert_eq!(read("wardfs:src/a%20b.rs")["result"]["contents"][0]["text"], "text\n");
    assert_eq!(read("wardfs:src/bin")["result"]["contents"][0]["blob"], "AAE=");
    let dir = read("wardfs:src");
    assert!(dir["result"]["contents"][0]["text"].as_str().unwrap().contains("src/a b.rs 5"), "{dir}");
    assert!(read("wardfs:")["result"]["contents"][0]["text"].as_str().unwrap().contains("other 1"));
    assert_eq!(read("wardfs:none")["error"]["code"], -32002);
    assert_eq!(read("wardfs:../x")["error"]["code"], -32602);
    assert_eq!(read("file:///etc/passwd")["error"]["code"], -32602);
}

#[test]
fn subscribers_are_told_of_what_they_asked_for() {
    let Some(mount) = mounted() else { return };
    let mut client = greeted(&mount);
    for uri in ["wardfs:src/a%20b.rs", "wardfs:other"] {
        let answer = client.request("resources/subscribe", &json!({"uri": uri}));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert_eq!(client.request("resources/subscribe", &json!({"uri": "file:///x"}))["error"]["code"], -32602);
    // By a shell, beside the mount, and by a tool of another connection.
    sh(mount.path(), "echo 1 > unrelated; echo more >> 'src/a b.rs'").ok();
    hears_of(&mut client, "wardfs:src/a%20b.rs", "wardfs:src/a%20b.rs");
    // Only root is told of what others do.
    let dir = if is_root() { mount.source() } else { mount.path() };
    sh(dir, "echo beside > other").ok();
    hears_of(&mut client, "wardfs:other", "wardfs:src/a%20b.rs");
    mount.client().call("write", &json!({"path": "src/a b.rs", "content": "new\n"}));
    hears_of(&mut client, "wardfs:src/a%20b.rs", "wardfs:other");
    sh(mount.path(), "echo between > other").ok();
    hears_of(&mut client, "wardfs:other", "wardfs:src/a%20b.rs");
    // What a directory above does concerns it, too.
    sh(mount.path(), "mv src moved").ok();
    hears_of(&mut client, "wardfs:src/a%20b.rs", "wardfs:other");
    client.send(&json!({"jsonrpc": "2.0", "id": 77, "method": "resources/unsubscribe", "params": {"uri": "wardfs:src/a%20b.rs"}}).to_string());
    while client.receive()["id"] != 77 {}
    sh(mount.path(), "mv moved src; echo last > other").ok();
    assert_eq!(updated(&mut client), "wardfs:other");
}

#[test]
fn the_newest_version_listens() {
    let Some(mount) = mounted() else { return };
    let mut client = Client::connect(&mount.socket());
    let listen = json!({"_meta": meta(), "notifications": {"resourceSubscriptions": ["wardfs:src", "file:///x"]}});
    client.send(&json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": listen}).to_string());
    let accepted = client.receive();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!(["wardfs:src"]), "{accepted}");
    // Nobody watched before, so that something may have changed already.
    assert_eq!(updated(&mut client), "wardfs:src");
    sh(mount.path(), "echo x > other; echo x > src/new").ok();
    assert_eq!(updated(&mut client), "wardfs:src");
    // Calls go on beside it.
    let call = json!({"_meta": meta(), "name": "read", "arguments": {"path": "src/new"}});
    let read = client.request("tools/call", &call);
    assert_eq!(read["result"]["structuredContent"]["files"][0]["content"], "x\n", "{read}");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l", "_meta": meta()}});
    client.send(&cancel.to_string());
    // Another one hears alone.
    client.send(&json!({"jsonrpc": "2.0", "id": "m", "method": "subscriptions/listen", "params": listen}).to_string());
    while client.receive()["method"] != "notifications/subscriptions/acknowledged" {}
    sh(mount.path(), "echo y > src/new").ok();
    let told = client.receive();
    assert_eq!(
        (&told["method"], &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]),
        (&json!(UPDATED), &json!("m")),
        "{told}"
    );
}

#[test]
fn a_listener_does_not_hold_up_the_end() {
    let Some(mount) = mounted() else { return };
    let mut client = Client::connect(&mount.socket());
    let listen = json!({"_meta": meta(), "notifications": {"resourceSubscriptions": ["wardfs:"]}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen}).to_string());
    client.receive();
    let mut other = greeted(&mount);
    other.request("resources/subscribe", &json!({"uri": "wardfs:"}));
    let start = Instant::now();
    mount.umount().ok();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
