//! Archives unpacked and trees copied: right while they happen, and gone again by one revert.

use super::{back_to, point};
use crate::harness::{Mounted, Times, Tree, program, sh};

/// A tree beside the mount to pack.
fn original(mount: &Mounted) {
    let script = "mkdir -p orig/dir/sub; cd orig; for i in $(seq 100); do echo $i > dir/f$i; done; ln dir/f1 dir/hard; ln -s f2 dir/soft; touch -h -d @1234567.5 dir/soft
        chmod 711 dir/sub; chmod 4755 dir/f3; chown 1000:1000 dir/f4; touch -d @1234567.5 dir/f5; truncate -s 2M dir/sparse
        setfattr -n user.k -v v dir/f6; printf n > \"$(printf 'na\\377me')\"";
    sh(mount.setup().dir(), script).ok();
}

fn round(mount: &Mounted, script: &str) {
    let original = Tree::of(&mount.setup().dir().join("orig"), Times::Compare);
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.path(), script).ok();
    Tree::of(&mount.at("copy"), Times::Compare).same(&original, "the copy (-) and the original (+)");
    Tree::of(&mount.beside("copy"), Times::Compare).same(&original, "the copy on the host (-) and the original (+)");
    back_to(&mut client, "before");
    assert_eq!(sh(mount.source(), "find .").ok(), ".\n");
}

#[test]
fn tar() {
    let Some(mount) = Mounted::new() else { return };
    original(&mount);
    round(
        &mount,
        "mkdir copy; tar -C ../orig --xattrs -cf - . | tar -C copy --xattrs -xpf -; tar -C ../orig -cf - . | tar -C copy -df -",
    );
}

#[test]
fn rsync() {
    program("rsync");
    let Some(mount) = Mounted::new() else { return };
    original(&mount);
    round(
        &mount,
        "rsync -aHXS --numeric-ids ../orig/ copy/; [ -z \"$(rsync -aHXSni --checksum --numeric-ids --delete ../orig/ copy/)\" ]",
    );
}

#[test]
fn rsync_in_place_and_back() {
    program("rsync");
    let Some(mount) = Mounted::new() else { return };
    original(&mount);
    sh(mount.path(), "rsync -aHXS --numeric-ids ../orig/ copy/").ok();
    let before = Tree::of(mount.path(), Times::Compare);
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.setup().dir(), "cd orig/dir; echo more >> f7; rm f8; echo new > f200; chmod 600 f9").ok();
    sh(mount.path(), "rsync -aHXS --inplace --delete --numeric-ids ../orig/ copy/").ok();
    Tree::of(&mount.at("copy"), Times::Compare)
        .same(&Tree::of(&mount.setup().dir().join("orig"), Times::Compare), "the copy (-) and the original (+)");
    back_to(&mut client, "before");
    Tree::of(mount.path(), Times::Compare).same(&before, "after the revert (-), before (+)");
}
