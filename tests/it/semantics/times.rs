//! Times: set ones stay, changes move them, to the nanosecond.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Setup, sh};

#[test]
fn set_times_are_kept() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let script = "touch -d '1999-01-02 03:04:05.123456789 UTC' a; mkdir d; touch -d @1.5 d; ln -s a l; touch -h -d @2.25 l; TZ=UTC stat -c '%.9Y' a d l";
    let wanted = "915246245.123456789\n1.500000000\n2.250000000\n";
    assert_eq!(sh(mount.path(), script).ok(), wanted);
    assert_eq!(sh(mount.source(), "stat -c '%.9Y' a d l").ok(), wanted);
    assert_eq!(sh(mount.path(), "cp -p a b; cat a > /dev/null; stat -c '%.9Y' b").ok(), "915246245.123456789\n");
}

#[test]
fn a_write_moves_times_at_once() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    sh(mount.path(), "touch -d @1 a").ok();
    let before = std::fs::metadata(mount.at("a")).unwrap();
    std::fs::write(mount.at("a"), "y").unwrap();
    let after = std::fs::metadata(mount.at("a")).unwrap();
    assert!(after.mtime() > 1 && (after.ctime(), after.ctime_nsec()) > (before.ctime(), before.ctime_nsec()));
    sh(mount.path(), "chmod 600 a").ok();
    let last = std::fs::metadata(mount.at("a")).unwrap();
    assert_eq!((last.mtime(), last.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
    assert!((last.ctime(), last.ctime_nsec()) >= (after.ctime(), after.ctime_nsec()));
    let host = std::fs::metadata(mount.beside("a")).unwrap();
    assert_eq!((host.mtime(), host.mtime_nsec()), (last.mtime(), last.mtime_nsec()), "the host's time differs");
}

#[test]
fn make_sees_what_is_newer() {
    let Some(mount) = Setup::new().file("in", "1\n").file("Makefile", "out: in\n\tcp in out\n").mount() else { return };
    crate::harness::program("make");
    let up = sh(mount.path(), "make -s; make; sleep 0.02; echo 2 > in; make -s; cat out; make").ok();
    assert!(up.contains("'out' is up to date") && up.contains("\n2\n"), "{up}");
}

#[test]
fn a_directory_changes_with_its_entries() {
    let Some(mount) = Setup::new().mount() else { return };
    let time = || sh(mount.path(), "stat -c %.9Y .").ok();
    let mut last = time();
    for script in ["touch a", "mv a b", "ln b c", "rm b c", "mkdir d", "rmdir d"] {
        sh(mount.path(), &format!("touch -d @1 .; {script}")).ok();
        let now = time();
        assert_ne!(now, "1.000000000\n", "after {script}");
        last = now;
    }
    assert_ne!(last, "");
}
