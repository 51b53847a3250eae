//! How a mount ends: asked to, by a signal, by a kill; and how it begins again.

use rustix::{
    io::Errno,
    process::{Signal, kill_process},
};

use crate::harness::{Mounted, Setup};

fn ends_by(signal: Signal) {
    let Some(mount) = Setup::new().file("a", "before").mount() else { return };
    std::fs::write(mount.at("a"), "after").unwrap();
    kill_process(mount.pid(), signal).unwrap();
    assert!(mount.gone_within(20), "the daemon still runs after {signal:?}");
    assert!(!mount.is_mounted(), "still mounted after {signal:?}");
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), "after");
}

#[test]
fn sigterm_unmounts_cleanly() {
    ends_by(Signal::TERM);
}

#[test]
fn sigint_unmounts_cleanly() {
    ends_by(Signal::INT);
}

#[test]
fn umount_returns_when_it_is_done() {
    let Some(mut mount) = Setup::new().file("a", "before").mount() else { return };
    std::fs::write(mount.at("a"), "after").unwrap();
    mount.umount().ok();
    assert!(!mount.is_mounted());
    assert!(mount.gone_within(5), "the daemon of the only mount still runs");
    mount.mount_again();
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "after");
    assert!(!mount.client().history(Some("a")).is_empty(), "the history is gone");
}

#[test]
fn a_dead_mount_is_cleared_by_the_next() {
    let Some(mut mount) = Setup::new().file("a", "before").mount() else { return };
    std::fs::write(mount.at("a"), "after").unwrap();
    mount.kill();
    let error = std::fs::metadata(mount.at("a")).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN));
    mount.mount_again();
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "after");
    std::fs::write(mount.at("b"), "works").unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mine = format!(" {} ", mount.path().display());
    assert_eq!(mounts.lines().filter(|line| line.contains(&mine)).count(), 1, "the dead one is still below");
}

#[test]
fn a_dead_mount_can_be_unmounted() {
    let Some(mount) = Mounted::new() else { return };
    mount.kill();
    mount.umount().ok();
    assert!(!mount.is_mounted());
}

#[test]
fn a_busy_mount_ends_all_the_same() {
    let Some(mount) = Setup::new().file("a", "before").mount() else { return };
    let file = std::fs::File::options().append(true).open(mount.at("a")).unwrap();
    std::io::Write::write_all(&mut &file, b" more").unwrap();
    kill_process(mount.pid(), Signal::TERM).unwrap();
    assert!(mount.gone_within(20), "the daemon waits for an open file");
    drop(file);
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), "before more");
}
