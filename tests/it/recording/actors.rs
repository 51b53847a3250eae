//! Who did it: process, command, user; session and call.

use serde_json::json;

use crate::harness::{Setup, sh, sh_as, wait_for};

#[test]
fn a_shell_is_known_by_process_command_and_user() {
    let Some(mount) = Setup::new().file("a", "x").with(&["-o", "allow_other"]).mount() else { return };
    sh(mount.source(), "chmod 777 . a").ok();
    let pid = sh_as(1000, mount.path(), "echo $$; exec tee a < /dev/null").ok();
    let actor = mount.client().history(Some("a")).remove(0)["actor"].clone();
    assert_eq!(actor["channel"], json!("fuse"));
    assert_eq!(actor["pid"].to_string(), pid.trim());
    assert_eq!(actor["uid"], json!(1000));
    assert!(actor["command"].as_str().unwrap().contains("tee a"), "{actor}");
}

#[test]
fn a_tool_call_is_known_by_its_session() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    mount.client().session("agent-7").call("write", &json!({"path": "a", "content": "y"}));
    let actor = mount.client().history(Some("a")).remove(0)["actor"].clone();
    assert_eq!((&actor["channel"], &actor["session"]), (&json!("tool"), &json!("agent-7")), "{actor}");
}

#[test]
fn one_sessions_work_is_taken_back_and_anothers_stays() {
    let Some(mount) = Setup::new().file("a", "a0\n").file("b", "b0\n").mount() else { return };
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    one.call("write", &json!({"path": "a", "content": "a1\n"}));
    two.call("write", &json!({"path": "b", "content": "b1\n"}));
    one.call("write", &json!({"path": "c", "content": "c1\n"}));
    sh(mount.path(), "echo shell > d").ok();
    two.call("revert", &json!({"session": "one"}));
    assert_eq!(sh(mount.source(), "cat a b d; ls").ok(), "a0\nb1\nshell\na\nb\nd\n");
}

#[test]
fn a_change_beside_the_mount_is_somebody_elses() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    sh(mount.path(), "echo two > a").ok();
    // The kernel tells of the close a moment after close(2); until then the file is open, and its changes are the shell's.
    let asked = json!({"name": "write", "arguments": {"path": "a", "content": "", "dry_run": true}});
    wait_for("the close", || mount.client().request("tools/call", &asked)["result"]["isError"] != true);
    std::fs::write(mount.beside("a"), "beside\n").unwrap();
    sh(mount.path(), "echo three > a").ok();
    let rows = mount.client().history(Some("a"));
    let channels: Vec<_> = rows.iter().map(|row| row["actor"]["channel"].as_str().unwrap()).collect();
    assert_eq!(channels, ["fuse", "external", "fuse"]);
    super::revert(&mut mount.client(), "a");
    assert_eq!(super::host(&mount, "a"), b"beside\n");
}
