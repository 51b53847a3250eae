//! What one side wrote, the other sees in its next call.

use std::os::unix::fs::FileExt;

use serde_json::json;

use crate::harness::{Setup, sh, some_owner};

#[test]
fn a_tools_write_is_seen_by_the_next_read() {
    let Some(mount) = Setup::new().file("a", "0000").mount() else { return };
    let mut client = mount.client();
    for round in 1..100 {
        // The kernel caches attributes and pages: read it whole before, so that there is something stale.
        let _ = (std::fs::read(mount.at("a")).unwrap(), std::fs::metadata(mount.at("a")).unwrap());
        let content = format!("{round:04}").repeat(round);
        client.call("write", &json!({"path": "a", "content": content}));
        assert_eq!(std::fs::metadata(mount.at("a")).unwrap().len(), u64::try_from(content.len()).unwrap(), "size");
        assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), content);
        assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), content);
    }
}

#[test]
fn a_shells_write_is_seen_by_the_next_tool_call() {
    let Some(mount) = Setup::new().file("a", "0000").mount() else { return };
    let mut client = mount.client();
    for round in 1..100 {
        let content = format!("{round:04}").repeat(round);
        std::fs::write(mount.at("a"), &content).unwrap();
        assert_eq!(client.read("a"), content);
    }
}

#[test]
fn a_write_through_a_handle_that_is_still_open_is_seen() {
    let Some(mount) = Setup::new().file("a", "begin").mount() else { return };
    let mut client = mount.client();
    let file = std::fs::File::options().write(true).open(mount.at("a")).unwrap();
    for round in 0..50 {
        file.write_all_at(format!("{round:05}").as_bytes(), 0).unwrap();
        assert_eq!(client.read("a"), format!("{round:05}"));
    }
}

#[test]
fn names_made_and_removed_by_tools_are_seen() {
    let Some(mount) = Setup::new().file("dir/a", "x").mount() else { return };
    let mut client = mount.client();
    for round in 0..30 {
        let (old, new) = (mount.at("dir/a"), mount.at("dir/b"));
        assert!(old.exists() && !new.exists(), "round {round}");
        let _ = std::fs::read_dir(mount.at("dir")).unwrap().count();
        client.call("move", &json!({"from": "dir/a", "to": "dir/b"}));
        assert!(!old.exists() && new.exists(), "round {round}: after the move");
        let listed: Vec<_> = std::fs::read_dir(mount.at("dir")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(listed, ["b"], "round {round}");
        client.call("delete", &json!({"path": "dir/b"}));
        assert!(!new.exists());
        client.call("write", &json!({"path": "dir/a", "content": "x"}));
    }
}

#[test]
fn a_reverts_content_is_seen_by_the_next_read() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let mut client = mount.client();
    for _ in 0..30 {
        sh(mount.path(), "echo two, longer > a; cat a").ok();
        client.call("revert", &json!({"path": "a"}));
        assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\n");
    }
}

#[test]
fn a_reader_keeps_the_content_that_it_opened() {
    let Some(mount) = Setup::new().file("a", "old content\n").mount() else { return };
    let open = std::fs::File::open(mount.at("a")).unwrap();
    mount.client().call("write", &json!({"path": "a", "content": "new\n"}));
    let mut bytes = [0; 100];
    let count = open.read_at(&mut bytes, 0).unwrap();
    assert!([&b"old content\n"[..], b"new\n"].contains(&&bytes[..count]), "torn: {:?}", &bytes[..count]);
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "new\n");
}

#[test]
fn a_tools_write_keeps_mode_owner_and_attributes() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let owner = some_owner();
    sh(mount.source(), &format!("chmod 751 a; chown {owner} a; setfattr -n user.k -v v a; ln a b")).ok();
    let mut client = mount.client();
    client.call("edit", &json!({"path": "a", "edits": [{"old_text": "one", "new_text": "two"}]}));
    let wanted = format!("751 {owner} 2\ntwo\nuser.k=\"v\"\n");
    let script = "stat -c '%a %u:%g %h' a; cat b; getfattr -d a | grep user";
    assert_eq!(sh(mount.path(), script).ok(), wanted);
    assert_eq!(sh(mount.source(), script).ok(), wanted);
}
