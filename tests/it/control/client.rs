//! The clients that come with the wire types.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    process::Command,
    time::Duration,
};

use control_api::{Client, ClientError, ErrorCode};
use serde_json::json;
use wardfs::control::Limits;

use super::room::{LONG, Room};

#[test]
fn it_calls_and_lists() {
    let room = Room::new();
    let mut client = Client::connect(&room.path).unwrap();
    let names: Vec<String> =
        client.list_tools().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names[..2], ["echo", "wait"]);
    let result = client.call_as("echo", &json!({"a": 1}), Some("s"), Some("o")).unwrap();
    assert_eq!((result.text.as_str(), result.is_error, result.error()), ("done", false, None));
    assert_eq!(
        (&result.structured["arguments"], &result.structured["session"], &result.structured["operation_id"]),
        (&json!({"a": 1}), &json!("s"), &json!("o"))
    );
    let failed = client.call("fails", &json!({})).unwrap();
    assert_eq!(failed.error().unwrap().code, ErrorCode::InvalidArgument);
    assert!(matches!(client.call("none", &json!({})), Err(ClientError::Refused { code: -32602, .. })));
    assert!(matches!(client.request("nothing", &json!({})), Err(ClientError::Refused { code: -32601, .. })));
    assert!(client.call("echo", &json!({})).is_ok());
}

#[test]
fn it_finds_a_daemon_that_was_started_anew() {
    let mut room = Room::new();
    let mut client = Client::connect(&room.path).unwrap();
    client.call("echo", &json!({})).unwrap();
    room.shutdown(LONG);
    room.start(Limits::default());
    client.call("echo", &json!({})).unwrap();
    room.shutdown(LONG);
    std::fs::remove_file(&room.path).unwrap();
    let error = client.call("echo", &json!({})).unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("is the daemon running?"), "{error}");
    // Also after it was gone.
    room.start(Limits::default());
    client.call("echo", &json!({})).unwrap();
}

/// A request that may have been obeyed is not made again.
#[test]
fn it_does_not_ask_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answers in [1, 0, 1] {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            for turn in 0..=answers {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap() == 0 {
                    break;
                }
                let request: serde_json::Value = serde_json::from_str(&line).unwrap();
                asked.push(request["method"].as_str().unwrap().to_owned());
                if turn < answers {
                    writeln!(stream.get_mut(), "{}", json!({"id": request["id"], "result": {}})).unwrap();
                }
            }
        }
        asked
    });
    let mut client = Client::connect(&path).unwrap();
    client.request("one", &json!({})).unwrap();
    assert!(matches!(client.request("two", &json!({})), Err(ClientError::Broken(_))));
    assert!(matches!(client.request("three", &json!({})), Err(ClientError::Broken(_))));
    client.request("four", &json!({})).unwrap();
    drop(client);
    assert_eq!(daemon.join().unwrap(), ["one", "two", "three", "four"]);
}

#[test]
fn it_does_not_wait_for_ever() {
    let room = Room::new();
    let mut client = Client::connect(&room.path).unwrap();
    client.set_timeout(Some(Duration::from_millis(50))).unwrap();
    let error = client.call("wait", &json!({})).unwrap_err();
    assert!(matches!(error, ClientError::Timeout(_)), "{error:?}");
    room.tools.open();
    // The late answer is not taken for that of the next call.
    client.set_timeout(Some(LONG)).unwrap();
    assert_eq!(client.call("echo", &json!({"a": 1})).unwrap().structured["arguments"], json!({"a": 1}));
}

#[test]
fn it_says_why_it_was_refused() {
    let room = Room::of(Limits { connections: 1, ..Limits::default() });
    let mut first = Client::connect(&room.path).unwrap();
    first.call("echo", &json!({})).unwrap();
    let error = Client::connect(&room.path).unwrap().call("echo", &json!({})).unwrap_err();
    assert!(matches!(error, ClientError::Refused { code: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("connections"), "{error}");
}

/// The ten lines of the documentation.
#[test]
fn the_documentation_s_client_works() {
    let text = include_str!("../../../control-api/README.md");
    let (_, rest) = text.split_once("```python\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let room = Room::new();
    let run = |script: &str| {
        let output = Command::new("python3").arg("-c").arg(script).arg(&room.path).output().expect("python3 runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(script).contains("-32602"), "these tools have no read");
    let said = run(&script.replace("\"read\"", "\"echo\""));
    assert!(said.contains("'path': 'server.toml'") && said.contains("'session': 's1'"), "{said}");
}
