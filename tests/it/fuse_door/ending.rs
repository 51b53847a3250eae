//! How mounts end: asked for, by others, by a panic, by a kill; and that nothing is left behind.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use super::door::{Door, Way, both_ways};
use crate::harness::{is_root, take_away};

#[test]
fn an_unmount_leaves_nothing_and_seals_everything() {
    both_ways(|door| {
        fs::write(door.at("f"), b"1").unwrap();
        assert_eq!(door.mounts(), 1);
        assert_eq!(door.ask("unmount"), "Ok(())");
        assert_eq!(door.mounts(), 0);
        assert!(fs::read_dir(door.root()).unwrap().next().is_none());
        assert!(door.wait());
    });
}

#[test]
fn a_mount_that_others_take_away_is_noticed() {
    let mut door = Door::open(Way::Past);
    fs::write(door.at("f"), b"1").unwrap();
    assert_eq!(door.ask("watch"), "watching");
    assert!(take_away(door.root()));
    assert_eq!(door.hear(), "ended");
    // What is mounted there by now is none of its business.
    fs::write(door.at("other"), b"2").unwrap();
    assert!(door.wait());
    assert_eq!(fs::read(door.at("other")).unwrap(), b"2");
}

/// Without the privilege, and without fusectl, a connection ends with the daemon.
fn can_be_cut(door: &Door) -> bool {
    let minor = rustix::fs::minor(fs::metadata(door.root()).unwrap().dev());
    is_root() || Path::new("/sys/fs/fuse/connections").join(minor.to_string()).exists()
}

#[test]
fn who_does_not_let_go_is_cut_off() {
    let mut door = Door::open(Way::Through);
    fs::write(door.at("f"), b"1").unwrap();
    let mut reader = File::open(door.at("f")).unwrap();
    let mut writer = File::options().append(true).open(door.at("f")).unwrap();
    writer.write_all(b"2").unwrap();
    let can_be_cut = can_be_cut(&door);
    assert_eq!(door.ask("unmount"), "Ok(())");
    assert_eq!(door.mounts(), 0);
    let error = reader.read(&mut [0; 10]).and(writer.write(b"3")).unwrap_err();
    let expected = if can_be_cut { &[libc::ENOTCONN, libc::ECONNABORTED][..] } else { &[libc::EBADF] };
    assert!(error.raw_os_error().is_some_and(|code| expected.contains(&code)), "{error}");
    assert!(door.wait());
    assert_eq!(fs::read(door.host("f")).unwrap(), b"12");
}

#[test]
fn a_panic_leaves_no_mount() {
    let mut door = Door::open(Way::Past);
    fs::write(door.at("f"), b"1").unwrap();
    door.ask("panic");
    assert!(!door.wait());
    assert_eq!(door.mounts(), 0);
}

#[test]
fn a_dead_mount_is_cleared_by_the_next_one() {
    let mut door = Door::open(Way::Past);
    fs::write(door.at("f"), b"1").unwrap();
    door.kill();
    let error = fs::read(door.at("f")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(door.mounts(), 1);
    door.again();
    assert_eq!(door.mounts(), 1);
    assert_eq!(fs::read(door.at("f")).unwrap(), b"1");
}

#[test]
fn a_living_mount_is_not_cleared() {
    let door = Door::open(Way::Past);
    assert!(!wardfs::fuse::clear_stale(door.root()).unwrap());
    assert_eq!(door.mounts(), 1);
}

#[test]
fn a_request_that_hangs_holds_nobody_beyond_the_end() {
    let mut door = Door::open(Way::Past);
    fs::write(door.at("f"), b"1").unwrap();
    assert_eq!(door.ask("stick f"), "stuck");
    let path = door.at("f");
    let mut writer = std::process::Command::new("sh").args(["-c", "echo 2 >> $0"]).arg(&path).spawn().unwrap();
    // It is in the open call, which no signal ends.
    let wchan = format!("/proc/{}/wchan", writer.id());
    crate::harness::wait_for("the open", || {
        fs::read_to_string(&wchan).is_ok_and(|place| place.contains("request_wait"))
    });
    let can_be_cut = can_be_cut(&door);
    assert_eq!(door.ask("unmount"), "Ok(())");
    if can_be_cut {
        assert!(!writer.wait().unwrap().success());
    }
    assert_eq!(door.mounts(), 0);
    door.ask("exit");
    assert!(door.wait());
    assert!(!writer.wait().unwrap().success());
}
