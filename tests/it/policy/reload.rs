//! A reload binds at once, open handles included; one that fails changes nothing.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{SECRET, guarded};
use crate::harness::{Mounted, sh, wait_for};

fn reload(mount: &Mounted, policy: &str) {
    std::fs::write(mount.setup().policy_file(), policy).unwrap();
    kill_process(mount.pid(), Signal::HUP).unwrap();
}

#[test]
fn what_becomes_denied_is_gone() {
    let Some(mount) = guarded().mount() else { return };
    assert_eq!(sh(mount.path(), "cat free.txt dir/free.txt").ok(), "free\nfree too\n");
    reload(&mount, "deny = [\".env*\", \"/private\", \"free.txt\"]\n");
    wait_for("the new policy", || !mount.at("free.txt").exists());
    assert_eq!(sh(mount.path(), "find . -name free.txt").ok(), "");
    assert_eq!(mount.client().refused("read", &json!({"path": "dir/free.txt"})), "not_found");
}

#[test]
fn a_handle_open_for_writing_loses_its_right() {
    let Some(mount) = guarded().mount() else { return };
    let file = std::fs::File::options().read(true).write(true).open(mount.at("free.txt")).unwrap();
    reload(&mount, "deny = [\".env*\", \"/private\"]\nread_only = [\"**\"]\n");
    wait_for("the new policy", || std::fs::write(mount.at("dir/free.txt"), "x").is_err());
    let by_handle = std::os::unix::fs::FileExt::write_at(&file, b"changed", 0);
    let by_proc = sh(
        mount.path(),
        &format!("echo x > /proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file)),
    );
    by_proc.fails();
    assert!(file.set_len(0).is_err(), "truncated by an old handle");
    // With passthrough the kernel writes past us; a closed door to all else is then what can be had.
    if by_handle.is_err() {
        assert_eq!(std::fs::read_to_string(mount.beside("free.txt")).unwrap(), "free\n");
    }
}

#[test]
fn what_becomes_allowed_appears() {
    let Some(mount) = guarded().mount() else { return };
    assert!(!mount.at(".env").exists());
    reload(&mount, "deny = [\"/private\"]\n");
    wait_for("the new policy", || mount.at(".env").exists());
    assert_eq!(std::fs::read_to_string(mount.at("dir/.env")).unwrap(), SECRET);
}

#[test]
fn a_reload_that_fails_keeps_the_old_policy() {
    let Some(mount) = guarded().mount() else { return };
    reload(&mount, "deny = [\"[\"]\nallow = 7\n");
    // A good one after it shows that the bad one was looked at.
    assert!(!mount.at(".env").exists());
    std::thread::yield_now();
    assert!(!mount.at(".env").exists() && mount.at("free.txt").exists());
    reload(&mount, "deny = [\".env*\", \"/private\", \"free.txt\"]\n");
    wait_for("the good policy", || !mount.at("free.txt").exists());
    assert!(!mount.at(".env").exists());
}
