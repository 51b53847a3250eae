//! `renameat2` and its flags.

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::harness::{Mounted, Setup};

fn rename(mount: &Mounted, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    renameat_with(CWD, mount.at(from), CWD, mount.at(to), flags)
}

fn content(mount: &Mounted, path: &str) -> String {
    let through = std::fs::read_to_string(mount.at(path)).unwrap();
    assert_eq!(std::fs::read_to_string(mount.beside(path)).unwrap(), through, "{path} beside the mount");
    through
}

#[test]
fn replaces_what_is_there() {
    let Some(mount) = Setup::new().file("a", "a").file("dir/b", "b").mount() else { return };
    assert_eq!(rename(&mount, "a", "dir/b", RenameFlags::empty()), Ok(()));
    assert_eq!(content(&mount, "dir/b"), "a");
    assert!(!mount.at("a").exists());
    assert_eq!(rename(&mount, "a", "dir/b", RenameFlags::empty()), Err(Errno::NOENT));
}

#[test]
fn noreplace_refuses_what_is_there() {
    let Some(mount) = Setup::new().file("a", "a").file("b", "b").mount() else { return };
    assert_eq!(rename(&mount, "a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!((content(&mount, "a"), content(&mount, "b")), ("a".into(), "b".into()));
    assert_eq!(rename(&mount, "a", "c", RenameFlags::NOREPLACE), Ok(()));
    assert_eq!(content(&mount, "c"), "a");
}

#[test]
fn exchange_swaps_files_and_directories() {
    let Some(mount) = Setup::new().file("a", "a").file("dir/b", "b").mount() else { return };
    assert_eq!(rename(&mount, "a", "dir/b", RenameFlags::EXCHANGE), Ok(()));
    assert_eq!((content(&mount, "a"), content(&mount, "dir/b")), ("b".into(), "a".into()));
    assert_eq!(rename(&mount, "a", "dir", RenameFlags::EXCHANGE), Ok(()));
    assert_eq!((content(&mount, "dir"), content(&mount, "a/b")), ("b".into(), "a".into()));
    assert_eq!(rename(&mount, "a", "nothing", RenameFlags::EXCHANGE), Err(Errno::NOENT));
}

#[test]
fn a_directory_does_not_go_below_itself_or_onto_a_full_one() {
    let Some(mount) = Setup::new().file("one/x", "x").file("two/y", "y").mount() else { return };
    assert_eq!(rename(&mount, "one", "one/below", RenameFlags::empty()), Err(Errno::INVAL));
    assert_eq!(rename(&mount, "one", "two", RenameFlags::empty()), Err(Errno::NOTEMPTY));
    assert_eq!(rename(&mount, "one", "two/y", RenameFlags::empty()), Err(Errno::NOTDIR));
    assert_eq!(rename(&mount, "two/y", "one", RenameFlags::empty()), Err(Errno::ISDIR));
}

#[test]
fn what_is_open_in_a_renamed_directory_stays_open() {
    let Some(mount) = Setup::new().file("one/deep/x", "x").mount() else { return };
    let open = std::fs::File::open(mount.at("one/deep/x")).unwrap();
    assert_eq!(rename(&mount, "one", "two", RenameFlags::empty()), Ok(()));
    assert_eq!(std::io::read_to_string(open).unwrap(), "x");
    std::fs::write(mount.at("two/deep/x"), "y").unwrap();
    assert_eq!(content(&mount, "two/deep/x"), "y");
    assert!(!mount.at("one").exists());
}
