//! `wardfs call` and the commands of the history.

use serde_json::{Value, json};

use crate::harness::{Mounted, Setup, Shell};

fn run(mount: &Mounted, arguments: &[&str]) -> Shell {
    Shell::of(mount.wardfs().args(arguments).current_dir(mount.path()))
}

#[test]
fn a_result_goes_to_stdout_and_exits_0() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let said = run(&mount, &["call", "read", r#"{"path": "a"}"#]).ok();
    let body: Value = serde_json::from_str(&said).unwrap();
    assert!(body.to_string().contains("one\\n"), "{body}");
    let said = run(&mount, &["call", "write", "path=b", "content=two"]).ok();
    assert!(serde_json::from_str::<Value>(&said).unwrap()["operation"].is_u64(), "{said}");
    assert_eq!(std::fs::read_to_string(mount.at("b")).unwrap(), "two");
}

#[test]
fn a_tools_error_exits_3_with_the_error_object() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let shell = run(&mount, &["call", "read", r#"{"path": "missing"}"#]);
    let body: Value = serde_json::from_str(&shell.out).unwrap_or_else(|error| panic!("{error}: {shell:?}"));
    assert_eq!((shell.status, &body["code"]), (3, &json!("not_found")), "{body}");
}

#[test]
fn every_listed_tool_has_a_schema_and_a_description() {
    let Some(mount) = Mounted::new() else { return };
    let answer = mount.client().request("tools/list", &json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let listed = run(&mount, &["call", "--list"]).ok();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(listed.contains(name), "call --list does not name {name}");
        assert_eq!(tool["inputSchema"]["type"], json!("object"), "{name}");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{name}");
    }
    for name in [
        "read",
        "stat",
        "list",
        "find",
        "search",
        "diff",
        "history",
        "changes",
        "info",
        "write",
        "edit",
        "move",
        "copy",
        "mkdir",
        "delete",
        "revert",
        "checkpoint",
    ] {
        assert!(tools.iter().any(|tool| tool["name"] == json!(name)), "no tool {name}");
    }
}

#[test]
fn the_history_commands_agree_with_the_files() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    std::fs::write(mount.at("a"), "two\n").unwrap();
    let log = run(&mount, &["log", "a"]).ok();
    assert!(log.contains('a') && !log.contains('\u{1b}'), "colour in a pipe: {log}");
    run(&mount, &["log", "--json"]).ok();
    let patch = run(&mount, &["log", "-p", "a"]).ok();
    assert!(patch.contains("-one") && patch.contains("+two"), "{patch}");
    run(&mount, &["undo"]).ok();
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\n");
}

#[test]
fn policy_explain_names_the_line() {
    let Some(mount) = Setup::new().file("a", "x").policy("allow = [\"**\"]\ndeny = [\"*.key\"]\n").mount() else {
        return;
    };
    let said = run(&mount, &["policy", "explain", "my.key"]).ok();
    assert!(said.contains("*.key") && said.contains(":2"), "{said}");
}

#[test]
fn a_command_without_a_daemon_says_what_to_do() {
    let setup = Setup::new();
    let shell = Shell::of(setup.wardfs().args(["call", "info"]));
    assert_eq!(shell.status, 1, "{shell:?}");
    assert!(shell.err.contains("wardfs "), "{shell:?}");
}
