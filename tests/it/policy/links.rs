//! Symlinks and hard links lead nowhere that a plain path would not.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::{SECRET, guarded, untouched};
use crate::harness::{Mounted, Setup, sh};

fn with_links() -> Option<Mounted> {
    let setup = guarded();
    std::fs::write(setup.dir().join("outside.txt"), SECRET).unwrap();
    let at = |path: &str| setup.source().join(path);
    symlink(".env", at("to-env")).unwrap();
    symlink("private", at("to-private")).unwrap();
    symlink(at(".env"), at("to-env-by-source")).unwrap();
    symlink("../outside.txt", at("to-parent")).unwrap();
    symlink(setup.dir().join("outside.txt"), at("to-outside")).unwrap();
    symlink("/etc/passwd", at("to-passwd")).unwrap();
    symlink("nothing-there", at("dangling")).unwrap();
    symlink("loop-b", at("loop-a")).unwrap();
    symlink("loop-a", at("loop-b")).unwrap();
    symlink("dir/free.txt", at("fine")).unwrap();
    symlink("locked", at("to-locked")).unwrap();
    setup.mount()
}

#[test]
fn a_link_to_what_is_denied_dangles() {
    let Some(mount) = with_links() else { return };
    for name in ["to-env", "to-private", "to-private/key.pem", "dangling"] {
        let error = std::fs::metadata(mount.at(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}");
    }
    assert_eq!(std::fs::read_link(mount.at("to-env")).unwrap().to_str(), Some(".env"), "shown as a link");
    assert_eq!(std::fs::read_to_string(mount.at("fine")).unwrap(), "free too\n");
    for script in ["echo x > to-env", "echo x > to-private/new", "echo x > to-locked/a.txt", "rm to-locked/a.txt"] {
        sh(mount.path(), script).fails();
    }
    untouched(&mount);
}

#[test]
fn no_tool_follows_a_link_out_of_the_view() {
    let Some(mount) = with_links() else { return };
    let mut client = mount.client();
    for name in [
        "to-env",
        "to-private/key.pem",
        "to-env-by-source",
        "to-parent",
        "to-outside",
        "to-passwd",
        "dangling",
        "loop-a",
    ] {
        let error = client.try_call("read", &json!({"path": name})).unwrap_err();
        assert!(["not_found", "outside_view", "symlink_loop"].contains(&&*error.code), "{name}: {}", error.body);
        assert!(!error.body.to_string().contains(SECRET), "{name}: {}", error.body);
        let code = client.refused("write", &json!({"path": name, "content": "x"}));
        assert!(["not_found", "outside_view", "symlink_loop", "create_denied"].contains(&&*code), "{name}: {code}");
    }
    assert_eq!(client.refused("write", &json!({"path": "to-locked/a.txt", "content": "x"})), "read_only");
    let stat = client.call("stat", &json!({"path": "to-outside"}));
    assert_eq!(stat["type"], json!("symlink"), "{stat}");
    assert_eq!(std::fs::read_to_string(mount.setup().dir().join("outside.txt")).unwrap(), SECRET);
    untouched(&mount);
}

#[test]
fn walks_do_not_follow_links() {
    let Some(mount) = with_links() else { return };
    let mut client = mount.client();
    let hits = client.call("search", &json!({"query": "hunter2", "hidden": true, "ignored": true}));
    assert!(!hits.to_string().contains(SECRET), "{hits}");
    let hits = client.call("search", &json!({"query": "root:", "hidden": true, "ignored": true}));
    assert!(!hits.to_string().contains("/bin/"), "{hits}");
    let found = client.call("find", &json!({"pattern": "**", "hidden": true, "ignored": true})).to_string();
    assert!(!found.contains("key.pem") && found.contains("to-private"), "{found}");
}

#[test]
fn a_hard_link_carries_no_right() {
    let Some(mount) = guarded().mount() else { return };
    for script in [
        "ln .env out",
        "ln locked/a.txt locked/b.txt",
        "ln free.txt locked/new.txt",
        "ln free.txt private/new",
        "ln free.txt .env.new",
    ] {
        sh(mount.path(), script).fails();
    }
    // A link out of a locked folder would make its content writable.
    let linked = sh(mount.path(), "ln locked/a.txt out.txt").status == 0;
    if linked {
        sh(mount.path(), "echo changed > out.txt").fails();
    }
    untouched(&mount);
}

#[test]
fn a_link_that_was_there_before_is_judged_by_its_own_name() {
    let setup = Setup::new().file("locked/a.txt", "locked\n").policy("read_only = [\"/locked/**\"]\n");
    std::fs::hard_link(setup.source().join("locked/a.txt"), setup.source().join("free.txt")).unwrap();
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), "echo x > locked/a.txt").fails();
    sh(mount.path(), "cat free.txt locked/a.txt; echo more >> free.txt").ok();
    sh(mount.path(), "echo x >> locked/a.txt").fails();
    assert_eq!(std::fs::read_to_string(mount.at("locked/a.txt")).unwrap(), "locked\nmore\n");
}
