//! A policy that cannot be understood starts nothing; and no tool or shell changes one.

use serde_json::json;

use crate::harness::{Setup, left_out};

#[test]
fn a_bad_policy_refuses_to_start_and_says_where() {
    if left_out() {
        return;
    }
    for (policy, place) in [
        ("deny = [\"[\"]\n", "1"),
        ("allow = [\"**\"]\ndenied = [\"x\"]\n", "2"),
        ("allow = 7\n", "1"),
        ("deny = [\"ok\",\n  \"# a comment\"]\n", "2"),
        ("this is no toml", "1"),
    ] {
        let setup = Setup::new().file("a", "x").policy(policy);
        let (file, mountpoint) = (setup.policy_file(), setup.dir().join("mnt"));
        let Err(said) = setup.mount_or_refusal() else { panic!("mounted with {policy:?}") };
        assert!(said.contains(file.to_str().unwrap()) && said.contains(place), "{policy:?}: {said}");
        assert!(!std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(mountpoint.to_str().unwrap()));
    }
}

#[test]
fn the_policy_file_inside_the_source_is_out_of_reach() {
    let setup = Setup::new().file("a", "x").file("agent.toml", "deny = [\"secret\"]\n");
    let policy = setup.source().join("agent.toml");
    let setup = setup.with(&["--policy", policy.to_str().unwrap()]);
    let Some(mount) = setup.mount() else { return };
    for script in ["cat agent.toml", "echo > agent.toml", "rm agent.toml", "mv a agent.toml", "ln agent.toml b"] {
        crate::harness::sh(mount.path(), script).fails();
    }
    let mut client = mount.client();
    for tool in ["read", "delete"] {
        assert_eq!(client.refused(tool, &json!({"path": "agent.toml"})), "not_found", "{tool}");
    }
    assert_eq!(std::fs::read_to_string(policy).unwrap(), "deny = [\"secret\"]\n");
}

#[test]
fn tools_of_a_feature_that_is_off_are_neither_listed_nor_callable() {
    let Some(mount) = Setup::new().file("a", "x").policy("features = [\"read\"]\n").mount() else { return };
    let mut client = mount.client();
    let listed = client.request("tools/list", &json!({}));
    let tools: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(tools.contains(&"read") && !tools.contains(&"write") && !tools.contains(&"search"), "{tools:?}");
    let answer = client.request("tools/call", &json!({"name": "write", "arguments": {"path": "a", "content": "y"}}));
    assert!(answer.get("error").is_some() || answer["result"]["isError"] == json!(true), "{answer}");
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "x");
}
