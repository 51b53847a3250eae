//! A write that was made for another content writes nothing.

use serde_json::json;

use crate::harness::{Mounted, Setup, sh};

fn hash(mount: &Mounted, path: &str) -> String {
    mount.client().call("stat", &json!({"path": path, "hash": true}))["hash"].as_str().unwrap().to_owned()
}

#[test]
fn a_stale_hash_is_refused_by_write_edit_move_and_delete() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let stale = hash(&mount, "a");
    sh(mount.path(), "echo two > a").ok();
    let mut client = mount.client();
    for (tool, arguments) in [
        ("write", json!({"path": "a", "content": "mine\n", "expected_hash": stale})),
        ("edit", json!({"path": "a", "edits": [{"old_text": "two", "new_text": "mine"}], "expected_hash": stale})),
        ("move", json!({"from": "a", "to": "b", "expected_hash": stale})),
        ("delete", json!({"path": "a", "expected_hash": stale})),
    ] {
        let error = client.try_call(tool, &arguments).unwrap_err();
        assert_eq!((&*error.code, &error.body["applied"]), ("hash_conflict", &json!(false)), "{tool}");
        assert!(
            error.body.to_string().contains(&hash(&mount, "a")),
            "{tool}: the current hash is missing: {}",
            error.body
        );
        assert_eq!(sh(mount.source(), "cat a; ls").ok(), "two\na\n", "{tool}");
    }
    let fresh = hash(&mount, "a");
    client.call("write", &json!({"path": "a", "content": "mine\n", "expected_hash": fresh}));
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "mine\n");
}

#[test]
fn the_same_content_with_another_time_is_no_conflict() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let hash = hash(&mount, "a");
    sh(mount.path(), "touch a; cp a b; mv b a; echo two > a; echo one > a").ok();
    mount.client().call("write", &json!({"path": "a", "content": "two\n", "expected_hash": hash}));
}

#[test]
fn null_means_that_it_must_not_be_there() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let mut client = mount.client();
    let code = client.refused("write", &json!({"path": "a", "content": "x", "expected_hash": null}));
    assert!(["hash_conflict", "already_exists"].contains(&&*code), "{code}");
    client.call("write", &json!({"path": "new", "content": "x", "expected_hash": null}));
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\n");
}

#[test]
fn a_change_beside_the_mount_is_a_conflict_too() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let stale = hash(&mount, "a");
    std::fs::write(mount.beside("a"), "two\n").unwrap();
    let code = mount.client().refused("write", &json!({"path": "a", "content": "x", "expected_hash": stale}));
    assert_eq!(code, "hash_conflict");
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "two\n");
}

#[test]
fn an_open_writer_makes_a_tool_wait_and_then_give_up() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let file = std::fs::File::options().append(true).open(mount.at("a")).unwrap();
    let error = mount.client().try_call("write", &json!({"path": "a", "content": "x"})).unwrap_err();
    assert_eq!((&*error.code, &error.body["retryable"]), ("writer_open", &json!(true)), "{}", error.body);
    drop(file);
    mount.client().call("write", &json!({"path": "a", "content": "x"}));
}

#[test]
fn the_same_operation_id_is_done_once() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let mut client = mount.client();
    let append = json!({"path": "a", "content": "more\n", "mode": "append", "operation_id": "x-1"});
    client.call("write", &append);
    assert_eq!(client.call("write", &append)["replayed"], json!(true));
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\nmore\n");
    let other = json!({"path": "a", "content": "other\n", "mode": "append", "operation_id": "x-1"});
    assert_eq!(client.refused("write", &other), "operation_id_reused");
}
