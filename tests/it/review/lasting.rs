//! What was accepted stays so over a restart, a kill, and without the index.

use super::{numbered, pending, review, reviewed, run, whole, write};
use crate::harness::Mounted;

/// A view in which something is accepted of everything there is, and something is pending.
fn begun() -> Option<Mounted> {
    let mount = reviewed().file("a", numbered(&[])).file("b", "b\n").file("c", "c\n").mount()?;
    let (mut one, mut two) = (mount.client().session("one"), mount.client().session("two"));
    write(&mut one, "a", &numbered(&[(3, "first"), (30, "second")]));
    write(&mut one, "b", "B\n");
    write(&mut two, "c", "C\n");
    write(&mut two, "d", "D\n");
    let answer = review(&mount, &["show", "a"]);
    let mark = super::entry(&answer, "a")["mark"].as_str().unwrap().to_owned();
    review(&mount, &["accept", "a", "--hunk", "1", "--mark", &mark]);
    review(&mount, &["accept", "b"]);
    review(&mount, &["reject", "d", "--yes"]);
    Some(mount)
}

#[track_caller]
fn check(mount: &Mounted) {
    assert_eq!(pending(mount), ["one changed a", "two changed c"]);
    let answer = review(mount, &["show", "a"]);
    let entry = super::entry(&answer, "a");
    assert!(entry["hunks"] == 1 && entry["diff"].as_str().unwrap().contains("+second"), "{entry:#}");
    whole(mount);
}

#[test]
fn it_outlives_a_restart_a_kill_and_the_loss_of_the_index() {
    let Some(mut mount) = begun() else { return };
    check(&mount);
    mount.umount().ok();
    assert!(mount.gone_within(20));
    mount.mount_again();
    check(&mount);
    mount.kill();
    mount.mount_again();
    check(&mount);
    mount.kill();
    std::fs::remove_file(mount.setup().store_path().join("index.db")).unwrap();
    mount.mount_again();
    check(&mount);
}

#[test]
fn a_kill_between_the_record_and_the_answer_loses_nothing() {
    for (words, left) in [
        (&["accept", "--session", "two"][..], &["one changed a"][..]),
        (&["accept", "--all"], &[]),
        // A rejection's own operation is known before its base moves.
        (&["reject", "--session", "two", "--yes"], &["one changed a"]),
    ] {
        let Some(mut mount) = begun() else { return };
        mount.umount().ok();
        assert!(mount.gone_within(20));
        let mark = mount.setup().dir().join("mark");
        mount.set_environment(&[
            ("WARDFS_CRASH_POINT", "review-recorded"),
            ("WARDFS_CRASH_MARK", mark.to_str().unwrap()),
        ]);
        mount.mount_again();
        assert_ne!(run(&mount, words).status, 0, "{words:?}: nobody answers");
        assert!(mark.exists() && mount.gone_within(20));
        mount.set_environment(&[]);
        mount.mount_again();
        assert_eq!(pending(&mount), left, "{words:?}");
        whole(&mount);
    }
}
