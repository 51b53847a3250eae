//! Hard links are one file: one inode number, one content, one count.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Setup, sh};

#[test]
fn two_names_are_one_file() {
    let Some(mount) = Setup::new().file("a", "one").mount() else { return };
    std::fs::create_dir(mount.at("dir")).unwrap();
    std::fs::hard_link(mount.at("a"), mount.at("dir/b")).unwrap();
    let (a, b) = (std::fs::metadata(mount.at("a")).unwrap(), std::fs::metadata(mount.at("dir/b")).unwrap());
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
    std::fs::write(mount.at("dir/b"), "two").unwrap();
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "two");
    assert_eq!(std::fs::metadata(mount.beside("a")).unwrap().nlink(), 2);
    std::fs::remove_file(mount.at("a")).unwrap();
    assert_eq!(std::fs::metadata(mount.at("dir/b")).unwrap().nlink(), 1);
}

#[test]
fn links_that_were_there_before_the_mount_are_one_file() {
    let setup = Setup::new().file("a", "one");
    std::fs::create_dir(setup.source().join("dir")).unwrap();
    std::fs::hard_link(setup.source().join("a"), setup.source().join("dir/b")).unwrap();
    let Some(mount) = setup.mount() else { return };
    let out = sh(mount.path(), "exec 3>>a; echo more >&3; cat dir/b; find . -samefile a | sort").ok();
    assert_eq!(out, "onemore\n./a\n./dir/b\n");
}

#[test]
fn a_read_through_one_name_sees_a_write_through_the_other_that_is_cached() {
    let Some(mount) = Setup::new().file("a", "1111").mount() else { return };
    std::fs::hard_link(mount.at("a"), mount.at("b")).unwrap();
    for round in 0..50 {
        let (write, read) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let content = format!("{round:04}").repeat(round + 1);
        std::fs::write(mount.at(write), &content).unwrap();
        assert_eq!(std::fs::read_to_string(mount.at(read)).unwrap(), content);
    }
}

#[test]
fn the_hosts_limit_of_links_is_told() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let made = (0..70_000).find(|n| std::fs::hard_link(mount.beside("a"), mount.beside(&format!("l{n}"))).is_err());
    // Some file systems have no limit that a test could reach.
    let Some(made) = made else { return };
    let full = |name: &str| std::fs::hard_link(mount.at("a"), mount.at(name)).map_err(|error| error.raw_os_error());
    assert_eq!(full("more"), Err(Some(libc::EMLINK)));
    std::fs::remove_file(mount.at("l0")).unwrap();
    assert_eq!(full("more"), Ok(()));
    assert_eq!(full("again"), Err(Some(libc::EMLINK)));
    assert_eq!(std::fs::metadata(mount.at("a")).unwrap().nlink(), u64::try_from(made).unwrap() + 1);
}
