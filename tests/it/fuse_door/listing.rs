//! Directories: listed whole, in small pieces, while they change, and forgotten again.

use std::{
    collections::BTreeSet,
    fs,
    mem::MaybeUninit,
    os::unix::fs::{DirEntryExt, MetadataExt},
};

use rustix::fs::{Mode, OFlags, RawDir};

use super::door::{Door, Shows, Way, both_ways};
use crate::harness::is_root;

const MANY: usize = 5000;

fn fill(door: &Door) {
    fs::create_dir(door.host("many")).unwrap();
    for n in 0..MANY {
        fs::write(door.host(&format!("many/file-{n:05}")), b"").unwrap();
    }
}

#[test]
fn every_entry_is_listed_once() {
    both_ways(|door| {
        fill(door);
        for _ in 0..2 {
            let mut names = BTreeSet::new();
            for entry in fs::read_dir(door.at("many")).unwrap() {
                let entry = entry.unwrap();
                assert!(entry.file_type().unwrap().is_file());
                assert_eq!(entry.ino(), entry.metadata().unwrap().ino());
                assert!(names.insert(entry.file_name()));
            }
            assert_eq!(names.len(), MANY);
        }
    });
}

/// All names, by as small a buffer as a long name fits in, so that a listing goes on at every offset.
fn in_pieces(door: &Door, path: &str) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = rustix::fs::open(door.at(path), flags, Mode::empty()).unwrap();
    let mut room = [MaybeUninit::uninit(); 48];
    let mut raw = RawDir::new(&dir, &mut room);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        names.push(entry.unwrap().file_name().to_string_lossy().into_owned());
    }
    names
}

#[test]
fn listings_go_on_at_every_offset() {
    both_ways(|door| {
        fs::create_dir(door.at("d")).unwrap();
        assert_eq!(in_pieces(door, "d"), [".", ".."]);
        for name in ["a", "b", "c"] {
            fs::write(door.at(&format!("d/{name}")), b"").unwrap();
        }
        let mut names = in_pieces(door, "d");
        names.sort();
        assert_eq!(names, [".", "..", "a", "b", "c"]);
        // Now from the kernel's cache.
        assert_eq!(in_pieces(door, "d").len(), 5);
    });
}

#[test]
fn removing_while_listing_loses_nothing() {
    both_ways(|door| {
        fill(door);
        for entry in fs::read_dir(door.at("many")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert_eq!(fs::read_dir(door.host("many")).unwrap().count(), 0);
        fs::remove_dir(door.at("many")).unwrap();
    });
}

#[test]
fn what_the_kernel_forgets_is_forgotten() {
    if !is_root() {
        return;
    }
    both_ways(|door| {
        fill(door);
        fs::create_dir_all(door.at("deep/er/still")).unwrap();
        for entry in fs::read_dir(door.at("many")).unwrap() {
            fs::read(entry.unwrap().path()).unwrap();
        }
        fs::write(door.at("deep/er/still/f"), b"x").unwrap();
        fs::rename(door.at("deep/er"), door.at("moved")).unwrap();
        // Dentries first, then the inodes they held.
        for _ in 0..3 {
            fs::write("/proc/sys/vm/drop_caches", b"2").unwrap();
        }
        assert_eq!(door.ask("held"), "1");
    });
}

#[test]
fn a_mountpoint_inside_a_source_is_not_in_the_view() {
    let shows = Shows { inside: true, ..Shows::default() };
    let door = Door::showing(Way::Past, &shows, |source| fs::write(source.join("f"), b"x").unwrap());
    let names: Vec<_> = fs::read_dir(door.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
    assert!(fs::metadata(door.at("mnt")).is_err());
    assert_eq!(fs::read(door.at("f")).unwrap(), b"x");
}
