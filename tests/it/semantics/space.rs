//! Space within files: preallocation, holes, seeking data, copying ranges.

use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::{
    fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek},
    io::Errno,
};

use crate::harness::{Mounted, Setup};

fn open(mount: &Mounted, path: &str) -> std::fs::File {
    std::fs::File::options().read(true).write(true).create(true).truncate(false).open(mount.at(path)).unwrap()
}

#[test]
fn preallocation_grows_and_keeps() {
    let Some(mount) = Setup::new().file("a", "content").mount() else { return };
    let file = open(&mount, "a");
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 7);
    fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    assert!(std::fs::metadata(mount.beside("a")).unwrap().blocks() >= 2048);
    assert_eq!(&std::fs::read(mount.at("a")).unwrap()[..8], b"content\0");
}

#[test]
fn a_punched_hole_reads_as_zeros() {
    let Some(mount) = Setup::new().file("a", vec![7; 1 << 20]).mount() else { return };
    let file = open(&mount, "a");
    let mut probe = [1; 1];
    file.read_exact_at(&mut probe, 70_000).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 65536, 65536).unwrap();
    let content = std::fs::read(mount.at("a")).unwrap();
    assert!(content[65536..131_072].iter().all(|byte| *byte == 0));
    assert!(content[..65536].iter().chain(&content[131_072..]).all(|byte| *byte == 7));
    fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 4096).unwrap();
    assert_eq!(std::fs::read(mount.at("a")).unwrap()[..4096], [0; 4096]);
    assert_eq!(std::fs::read(mount.beside("a")).unwrap(), std::fs::read(mount.at("a")).unwrap());
}

#[test]
fn data_and_holes_are_found() {
    let Some(mount) = Mounted::new() else { return };
    let file = open(&mount, "a");
    file.set_len(1 << 20).unwrap();
    file.write_all_at(&[1; 4096], 512 << 10).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(512 << 10));
    assert_eq!(seek(&file, SeekFrom::Hole(512 << 10)), Ok((512 << 10) + 4096));
    assert_eq!(seek(&file, SeekFrom::Data(600 << 10)), Err(Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(600 << 10)), Ok(600 << 10));
}

#[test]
fn a_range_is_copied_within_the_mount() {
    let Some(mount) = Setup::new().file("a", (0..=255).cycle().take(100_000).collect::<Vec<u8>>()).mount() else {
        return;
    };
    let (from, to) = (open(&mount, "a"), open(&mount, "b"));
    let (mut at, mut into) = (1000, 10);
    while at < 90_000 {
        let left = usize::try_from(90_000 - at).unwrap();
        assert!(copy_file_range(&from, Some(&mut at), &to, Some(&mut into), left).unwrap() > 0);
    }
    let (a, b) = (std::fs::read(mount.at("a")).unwrap(), std::fs::read(mount.at("b")).unwrap());
    assert_eq!(b.len(), 89_010);
    assert!(b[..10].iter().all(|byte| *byte == 0) && b[10..] == a[1000..90_000]);
    drop(to);
    assert_eq!(std::fs::read(mount.beside("b")).unwrap(), b);
}
