//! Changes beside the mount, in the source itself, are seen within a moment.

use crate::harness::{Setup, wait_for};

#[test]
fn a_change_beside_is_seen_through_the_mount() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\n");
    std::fs::write(mount.beside("a"), "two, longer\n").unwrap();
    wait_for("the new content", || std::fs::read_to_string(mount.at("a")).unwrap() == "two, longer\n");
    std::fs::write(mount.beside("new"), "x").unwrap();
    wait_for("the new file", || mount.at("new").exists());
    std::fs::remove_file(mount.beside("new")).unwrap();
    wait_for("its removal", || !mount.at("new").exists());
}

#[test]
fn a_change_beside_is_seen_by_tools_at_once() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let mut client = mount.client();
    for round in 0..50 {
        std::fs::write(mount.beside("a"), format!("round {round}\n")).unwrap();
        assert_eq!(client.read("a"), format!("round {round}\n"));
    }
}

#[test]
fn an_atomic_save_beside_is_seen() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "one\n");
    std::fs::write(mount.beside("tmp"), "two\n").unwrap();
    std::fs::rename(mount.beside("tmp"), mount.beside("a")).unwrap();
    wait_for("the new file", || std::fs::read_to_string(mount.at("a")).unwrap() == "two\n");
}
