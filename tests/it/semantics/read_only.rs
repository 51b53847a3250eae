//! Read-only views, and read-only paths in a view that is not.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Mounted, Setup, is_root, sh};

const CHANGES: &[&str] = &[
    "echo x > a",
    "echo x >> a",
    "truncate -s 0 a",
    "rm a",
    "mv a b",
    "ln a b",
    "ln -s a b",
    "mkdir d2",
    "touch new",
    "touch a",
    "rmdir dir/empty",
    "mkfifo p",
    "setfattr -n user.x -v y a",
    "mv dir dir2",
];

/// In a read-only directory of that name, or everywhere in a read-only mount.
fn refuses_changes(mount: &Mounted, dir: &str) {
    let path = !dir.is_empty();
    let before = sh(mount.source(), "find . -printf '%p %y %m %s %T@\\n' | sort").ok();
    for script in CHANGES {
        let said = sh(&mount.at(dir), script).fails();
        // Only root is not stopped already by the mode, which is shown without w.
        let fits = said.contains("Read-only file system") || (path && !is_root() && said.contains("Permission denied"));
        assert!(fits, "{script}: {said}");
    }
    assert_eq!(sh(mount.source(), "find . -printf '%p %y %m %s %T@\\n' | sort").ok(), before);
}

fn setup(prefix: &str) -> Setup {
    let setup = Setup::new().file(&format!("{prefix}a"), "content").file(&format!("{prefix}dir/b"), "b");
    std::fs::create_dir(setup.source().join(format!("{prefix}dir/empty"))).unwrap();
    setup
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    let Some(mount) = setup("").with(&["-o", "ro"]).mount() else { return };
    refuses_changes(&mount, "");
    assert_eq!(sh(mount.path(), "cat a dir/b").ok(), "contentb");
    let call = serde_json::json!({"name": "write", "arguments": {"path": "a", "content": "x"}});
    let answer = mount.client().request("tools/call", &call);
    assert!(answer.get("error").is_some(), "a tool that is not listed was called: {answer}");
    let listed = mount.client().request("tools/list", &serde_json::json!({}));
    let tools: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(tools.contains(&"read") && !tools.contains(&"write"), "a tool that cannot work is listed: {tools:?}");
}

#[test]
fn a_read_only_path_refuses_every_change() {
    let Some(mount) = setup("locked/").policy("read_only = [\"locked/**\", \"locked\"]\n").mount() else { return };
    refuses_changes(&mount, "locked");
    std::fs::write(mount.at("free"), "x").unwrap();
    sh(mount.path(), "mv free locked/").fails();
    sh(mount.path(), "mv -T free locked/a").fails();
    assert_eq!(std::fs::metadata(mount.at("locked/a")).unwrap().mode() & 0o222, 0, "shown as writable");
    assert_eq!(mount.client().refused("write", &serde_json::json!({"path": "locked/a", "content": "x"})), "read_only");
    assert_eq!(mount.client().refused("delete", &serde_json::json!({"path": "locked/a"})), "read_only");
}

#[test]
fn changes_beside_a_read_only_mount_are_seen() {
    let Some(mount) = setup("").with(&["-o", "ro"]).mount() else { return };
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "content");
    std::fs::write(mount.beside("a"), "changed").unwrap();
    crate::harness::wait_for("the change", || std::fs::read_to_string(mount.at("a")).unwrap() == "changed");
}
