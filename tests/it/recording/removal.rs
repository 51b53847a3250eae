//! What is removed comes back with everything: bytes, modes, owners, links, names, attributes.

use serde_json::json;

use super::{back_to, point};
use crate::harness::{Mounted, Times, Tree, sh, some_owner};

/// A script that gives files to `$OWNER`.
fn owned(script: &str) -> String {
    format!("OWNER={}; {script}", some_owner())
}

/// A tree with one of everything.
fn mixed() -> Option<Mounted> {
    let mount = Mounted::new()?;
    let script = "mkdir -p t/src/deep/er t/empty; cd t
        for i in $(seq 50); do echo \"content $i\" > src/f$i; done
        head -c 300000 /dev/urandom > big; truncate -s 1M sparse; printf x | dd of=sparse bs=1 seek=500000 conv=notrunc status=none
        chmod 600 src/f1; chmod 4755 src/f2; chown $OWNER src/f3; chmod 1777 empty; chmod 750 src/deep
        ln src/f4 src/deep/hard; ln src/f4 hard2; ln -s src/f5 soft; ln -s /nowhere dangling; ln -s ../src src/deep/up
        mkfifo pipe; setfattr -n user.tag -v value src/f6; setfattr -n user.dir -v d src
        printf n > \"$(printf 'na\\377me')\"; printf n > \"$(printf 'new\\nline')\"; : > -rf
        touch -d '1999-01-02 03:04:05.123456789 UTC' src/f7; touch -h -d @5 soft";
    sh(mount.source(), &owned(script)).ok();
    Some(mount)
}

#[test]
fn one_revert_brings_a_whole_tree_back() {
    let Some(mount) = mixed() else { return };
    let before = Tree::of(mount.path(), Times::Compare);
    assert!(before.len() > 65);
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.path(), "rm -rf t").ok();
    assert!(!mount.beside("t").exists());
    back_to(&mut client, "before");
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before the removal (+)");
    Tree::of(mount.source(), Times::Compare).same(&before, "on the host");
}

#[test]
fn what_is_stored_and_not_yet_on_disk_goes_aside_when_it_is_removed() {
    let Some(mount) = Mounted::new() else { return };
    let mut client = mount.client();
    let aside = || std::fs::read_dir(mount.setup().store_path().join("aside")).unwrap().count();
    // A revert waits until all contents are stored.
    let mut stored = |path: &str| client.call("revert", &json!({"path": path, "dry_run": true}));
    let mut goes_aside = || {
        let before = aside();
        sh(mount.path(), "echo new > f").ok();
        stored("f");
        sh(mount.path(), "rm f").ok();
        aside() > before
    };
    // The log is flushed within a second, so that now and then the removal comes too late.
    assert!((0..20).any(|_| goes_aside()), "it went with its only copy on disk");
    sh(mount.path(), "echo new > g").ok();
    stored("g");
    sh(mount.path(), "sync g").ok();
    let before = aside();
    sh(mount.path(), "rm g").ok();
    assert_eq!(aside(), before, "it is kept twice");
}

#[test]
fn what_was_written_by_a_link_that_was_made_since_is_taken_back_by_the_name_that_was_there() {
    let Some(mount) = Mounted::new() else { return };
    sh(mount.path(), "echo old > a; echo x > b").ok();
    let before = Tree::of(mount.path(), Times::Compare);
    let mut client = mount.client();
    for script in [
        "ln a c; echo new > c",
        "ln a c; echo new > c; rm a",
        "ln a c; ln c d; echo new > d; chmod 600 c",
        "ln a c; echo new > c; mv a e; rm c",
        "ln a c; mv c d; echo new > d; rm b; mv a b",
    ] {
        point(&mut client, "before");
        sh(mount.path(), script).ok();
        back_to(&mut client, "before");
        Tree::of(mount.path(), Times::Compare).same(&before, script);
    }
}

#[test]
fn the_tools_own_delete_comes_back_as_one_operation() {
    let Some(mount) = mixed() else { return };
    let before = Tree::of(mount.path(), Times::Compare);
    let mut client = mount.client();
    let done = client.call("delete", &json!({"path": "t", "recursive": true}));
    assert!(!mount.beside("t").exists());
    client.call("revert", &json!({"operation": done["operation"]}));
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before the removal (+)");
}

#[test]
fn a_revert_of_everything_undoes_all_kinds_of_change() {
    let Some(mount) = mixed() else { return };
    let before = Tree::of(mount.path(), Times::Compare);
    let mut client = mount.client();
    point(&mut client, "before");
    let script = "cd t; mv src/deep moved; mv src/f9 src/f10; echo changed > src/f11; chmod 777 src/f12; chown $OWNER src/f13
        rm hard2; ln src/f14 new-hard; rm soft; ln -s other soft; setfattr -x user.tag src/f6; setfattr -n user.new -v n src/f15
        mkdir new; echo new > new/file; truncate -s 10 big; rm -rf empty; : > empty; mv --exchange src/f16 src/f17 || true
        cp src/f18 src/f18.tmp; mv src/f18.tmp src/f18; rm -- -rf; chmod 700 src";
    sh(mount.path(), &owned(script)).ok();
    assert!(!Tree::of(mount.path(), Times::Compare).diff(&before).is_empty());
    back_to(&mut client, "before");
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before the changes (+)");
    Tree::of(mount.source(), Times::Compare).same(&before, "on the host");
}

#[test]
fn a_created_thing_goes_when_its_creation_is_taken_back() {
    let Some(mount) = Mounted::new() else { return };
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.path(), "mkdir -p a/b; echo x > a/b/c; ln -s c a/b/d; ln a/b/c a/e").ok();
    back_to(&mut client, "before");
    assert_eq!(sh(mount.source(), "find .").ok(), ".\n");
}

#[test]
fn the_history_outlives_the_daemon() {
    let Some(mut mount) = mixed() else { return };
    let before = Tree::of(mount.path(), Times::Compare);
    point(&mut mount.client(), "before");
    sh(mount.path(), "rm -rf t; echo new > other").ok();
    mount.umount().ok();
    mount.mount_again();
    back_to(&mut mount.client(), "before");
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before the removal (+)");
}

#[test]
fn a_symlink_made_anew_with_the_same_target_gets_its_time_back() {
    let Some(mount) = mixed() else { return };
    let before = Tree::of(mount.path(), Times::Compare);
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.path(), "cd t; rm soft pipe; ln -s src/f5 soft; mkfifo pipe").ok();
    back_to(&mut client, "before");
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before the changes (+)");
}
