//! States in between: files that stay open, that many write, that are large.

use serde_json::json;

use super::{back_to, host, point, revert};
use crate::harness::{Mounted, Setup, Times, Tree, sh};

#[test]
fn a_file_written_through_one_long_open_handle_comes_back() {
    let Some(mount) = Setup::new().file("log", "begin\n").mount() else { return };
    sh(mount.path(), "exec 3>>log; for i in $(seq 100); do echo $i >&3; done; exec 3>&-").ok();
    revert(&mut mount.client(), "log");
    assert_eq!(host(&mount, "log"), b"begin\n");
}

#[test]
fn what_is_written_and_not_yet_closed_is_kept_when_somebody_reverts() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    let mut client = mount.client();
    point(&mut client, "before");
    let file = std::fs::File::options().append(true).open(mount.at("a")).unwrap();
    std::io::Write::write_all(&mut &file, b"two\n").unwrap();
    let error = client.try_call("revert", &json!({"checkpoint": "before"}));
    match error {
        Err(error) => assert!(["writer_open", "revert_conflict"].contains(&&*error.code), "{}", error.body),
        Ok(_) => assert_eq!(host(&mount, "a"), b"one\n"),
    }
    drop(file);
}

#[test]
fn files_of_all_sizes_come_back() {
    let sizes = [0, 1, 4095, 4096, 65536, 1 << 20, (1 << 20) + 1, 9 << 20];
    let content =
        |size: usize, salt: u8| (0..size).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1] ^ salt).collect::<Vec<u8>>();
    let setup = sizes.iter().fold(Setup::new(), |setup, size| setup.file(&size.to_string(), content(*size, 0)));
    let Some(mount) = setup.mount() else { return };
    for size in sizes {
        std::fs::write(mount.at(&size.to_string()), content(size / 2 + 3, 7)).unwrap();
    }
    let mut client = mount.client();
    for size in sizes {
        revert(&mut client, &size.to_string());
        assert!(host(&mount, size.to_string()) == content(size, 0), "{size} bytes did not come back");
    }
}

#[test]
fn a_partial_write_into_a_large_file_comes_back() {
    let Some(mount) = Mounted::new() else { return };
    sh(mount.source(), "head -c 20M /dev/urandom > big; sha256sum big > ../sum").ok();
    sh(mount.path(), "printf changed | dd of=big bs=1 seek=5000000 conv=notrunc status=none").ok();
    revert(&mut mount.client(), "big");
    sh(mount.source(), "sha256sum -c --quiet ../sum").ok();
}

#[test]
fn two_writers_of_one_file_both_show() {
    let Some(mount) = Setup::new().file("a", "begin\n").mount() else { return };
    let mut client = mount.client();
    point(&mut client, "before");
    sh(mount.path(), "exec 3>>a; (exec 4>>a; echo inner >&4); echo outer >&3").ok();
    assert_eq!(host(&mount, "a"), b"begin\ninner\nouter\n");
    back_to(&mut client, "before");
    assert_eq!(host(&mount, "a"), b"begin\n");
}

#[test]
fn a_file_that_is_renamed_while_it_is_written_is_taken_back_with_its_directory() {
    for first in ["exec 3>d/part", "exec 3>d/part; echo one >&3", "exec 3>>d/old; mv d/old d/part; echo one >&3"] {
        let Some(mount) = Setup::new().file("kept", "").mount() else { return };
        sh(mount.source(), "mkdir d; echo old > d/old").ok();
        let mut client = mount.client();
        let before = Tree::of(mount.path(), Times::Compare);
        point(&mut client, "before");
        sh(mount.path(), &format!("{first}; mv d/part d/whole; echo two >&3; mv d e; echo three >&3; exec 3>&-")).ok();
        let written = Tree::of(mount.path(), Times::Compare);
        point(&mut client, "written");
        sh(mount.path(), "rm -rf e").ok();
        back_to(&mut client, "written");
        Tree::of(mount.path(), Times::Compare).same(&written, first);
        sh(mount.path(), "rm -rf e").ok();
        back_to(&mut client, "before");
        Tree::of(mount.path(), Times::Compare).same(&before, first);
    }
}

#[test]
fn metadata_that_changes_while_a_file_is_written_is_no_sign_of_a_strange_hand() {
    for between in [
        "chmod 600 f",
        "touch -d 2001-02-03 f",
        "ln f g",
        "rm other",
        "setfattr -n user.k -v v f",
        "mv f g; mv g f",
        "echo swapped > g; exchange f g; exchange f g",
        "chmod 600 f; exec 4>>f; exec 4>&-; touch f",
    ] {
        let Some(mount) = Setup::new().file("f", "old\n").mount() else { return };
        sh(mount.source(), "ln f other").ok();
        let mut client = mount.client();
        let before = Tree::of(mount.path(), Times::Compare);
        point(&mut client, "before");
        let exchange = "exchange() { python3 -c 'import ctypes, sys; a, b = map(str.encode, sys.argv[1:]); \
                        sys.exit(ctypes.CDLL(None).renameat2(-100, a, -100, b, 2))' $1 $2; }";
        sh(mount.path(), &format!("{exchange}; exec 3>>f; {between}; echo new >&3; exec 3>&-")).ok();
        assert_eq!(std::fs::read(mount.at("f")).unwrap(), b"old\nnew\n", "{between}");
        back_to(&mut client, "before");
        Tree::of(mount.path(), Times::Compare).same(&before, between);
    }
}
