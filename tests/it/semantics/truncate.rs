//! Truncation: on open, by path, by descriptor, and what is beyond the end.

use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::{Setup, sh};

#[test]
fn open_with_truncation_empties_the_same_inode() {
    let Some(mount) = Setup::new().file("a", "content").mount() else { return };
    let inode = std::fs::metadata(mount.at("a")).unwrap().ino();
    let reader = std::fs::File::open(mount.at("a")).unwrap();
    let file = std::fs::File::create(mount.at("a")).unwrap();
    assert_eq!((file.metadata().unwrap().len(), reader.metadata().unwrap().len()), (0, 0));
    file.write_all_at(b"new", 0).unwrap();
    assert_eq!(std::io::read_to_string(reader).unwrap(), "new");
    assert_eq!(std::fs::metadata(mount.at("a")).unwrap().ino(), inode);
}

#[test]
fn what_is_cut_off_comes_back_as_zeros() {
    let Some(mount) = Setup::new().file("a", vec![7; 10_000]).mount() else { return };
    let file = std::fs::File::options().read(true).write(true).open(mount.at("a")).unwrap();
    file.set_len(100).unwrap();
    assert_eq!(std::fs::metadata(mount.beside("a")).unwrap().len(), 100);
    file.set_len(10_000).unwrap();
    let content = std::fs::read(mount.at("a")).unwrap();
    assert!(content[..100].iter().all(|byte| *byte == 7) && content[100..].iter().all(|byte| *byte == 0));
    assert_eq!(
        sh(mount.path(), "truncate -s 5 a; truncate -s +3 a; od -An -tx1 a").ok().trim(),
        "07 07 07 07 07 00 00 00"
    );
}

#[test]
fn a_script_that_rewrites_its_input_in_place_works() {
    let Some(mount) = Setup::new().file("a", "one\ntwo\n").mount() else { return };
    let out = sh(mount.path(), "x=$(cat a); echo \"$x\" | tac > a; cat a").ok();
    assert_eq!(out, "two\none\n");
}
