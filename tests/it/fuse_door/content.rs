//! Contents: written and read in every way that programs use.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt},
};

use rustix::fs::{FallocateFlags, SeekFrom as RawSeek};

use super::door::{Door, both_ways};

fn same(door: &Door, path: &str, expected: &[u8]) {
    assert!(fs::read(door.at(path)).unwrap() == expected, "{path} through the mount");
    assert!(fs::read(door.host(path)).unwrap() == expected, "{path} on the host");
    assert_eq!(fs::metadata(door.at(path)).unwrap().len(), expected.len() as u64, "{path}");
}

#[test]
fn the_kernel_passes_files_through_where_root_asks() {
    let door = Door::open(super::door::Way::Past);
    assert_eq!(door.past, rustix::process::geteuid().is_root());
}

#[test]
fn what_is_written_is_read_and_lies_on_the_host() {
    both_ways(|door| {
        fs::write(door.at("new"), b"first").unwrap();
        same(door, "new", b"first");
        fs::write(door.at("new"), b"2nd").unwrap();
        same(door, "new", b"2nd");
        let mut appending = OpenOptions::new().append(true).open(door.at("new")).unwrap();
        appending.write_all(b" and").unwrap();
        appending.write_all(b" more").unwrap();
        same(door, "new", b"2nd and more");
        drop(appending);
        let file = OpenOptions::new().read(true).write(true).open(door.at("new")).unwrap();
        file.write_all_at(b"XX", 4).unwrap();
        let mut buf = [0; 4];
        file.read_exact_at(&mut buf, 3).unwrap();
        assert_eq!(&buf, b" XXd");
        file.set_len(5).unwrap();
        same(door, "new", b"2nd X");
        file.set_len(8).unwrap();
        same(door, "new", b"2nd X\0\0\0");
        file.sync_all().unwrap();
        File::open(door.root()).unwrap().sync_all().unwrap();
    });
}

#[test]
fn large_files_go_both_ways() {
    both_ways(|door| {
        let mut content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(door.at("large"), &content).unwrap();
        same(door, "large", &content);
        // Over the size that is kept whole: changed in place, the writer is seen or not.
        let file = OpenOptions::new().write(true).open(door.at("large")).unwrap();
        let mut reader = File::open(door.at("large")).unwrap();
        file.write_all_at(&[7; 100_000], 5_000_000).unwrap();
        content[5_000_000..5_100_000].fill(7);
        drop(file);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == content, "by who had it open");
        same(door, "large", &content);
    });
}

#[test]
fn a_file_lives_on_while_it_is_open() {
    both_ways(|door| {
        fs::write(door.at("f"), b"content").unwrap();
        let mut reader = File::open(door.at("f")).unwrap();
        let mut writer = OpenOptions::new().append(true).open(door.at("f")).unwrap();
        fs::remove_file(door.at("f")).unwrap();
        writer.write_all(b" more").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "content more");
        assert_eq!(writer.metadata().unwrap().nlink(), 0);
        writer.set_len(3).unwrap();
        assert_eq!(reader.metadata().unwrap().len(), 3);
        fs::write(door.at("f"), b"another").unwrap();
        same(door, "f", b"another");
    });
}

#[test]
fn holes_are_found_made_and_filled() {
    both_ways(|door| {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(door.at("f")).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        assert_eq!(rustix::fs::seek(&file, RawSeek::Data(0)), Ok(1 << 20));
        assert_eq!(rustix::fs::seek(&file, RawSeek::Hole(1 << 20)), Ok((1 << 20) + 4096));
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
        rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1 << 20, 4096).unwrap();
        let mut buf = [9; 8];
        file.read_exact_at(&mut buf, 1 << 20).unwrap();
        assert_eq!(buf, [0; 8]);
    });
}

#[test]
fn ranges_are_copied() {
    both_ways(|door| {
        fs::write(door.at("from"), b"0123456789").unwrap();
        let from = File::open(door.at("from")).unwrap();
        let to = File::options().create(true).truncate(true).read(true).write(true).open(door.at("to")).unwrap();
        let (mut at, mut to_at) = (2, 1);
        let copied = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), 5).unwrap();
        assert_eq!((copied, at, to_at), (5, 7, 6));
        drop(to);
        same(door, "to", b"\x0023456");
        // Past the end there is nothing, however much is asked for.
        let to = File::options().write(true).open(door.at("to")).unwrap();
        let copied = rustix::fs::copy_file_range(&from, Some(&mut 10), &to, Some(&mut 0), usize::MAX >> 1).unwrap();
        assert_eq!(copied, 0);
        fs::copy(door.at("from"), door.at("copy")).unwrap();
        same(door, "copy", b"0123456789");
    });
}

/// By another process: one that maps files of a mount must not be the one that serves it, and Rust's own tests have no
/// safe map.
#[test]
fn mappings_see_and_make_changes() {
    const PROGRAM: &str = "import mmap, os, sys\n\
        f = os.open(sys.argv[1], os.O_RDWR)\n\
        m = mmap.mmap(f, 10, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)\n\
        assert m[:] == b'0123456789'\n\
        m[2:4] = b'XY'\n\
        m.flush()\n\
        assert os.pread(f, 10, 0) == b'01XY456789'\n\
        os.pwrite(f, b'Z', 9)\n\
        assert m[9:10] == b'Z'\n\
        m.close()\n\
        os.close(f)\n";
    both_ways(|door| {
        fs::write(door.at("f"), b"0123456789").unwrap();
        let done = std::process::Command::new("python3").args(["-c", PROGRAM]).arg(door.at("f")).status().unwrap();
        assert!(done.success());
        same(door, "f", b"01XY45678Z");
    });
}

#[test]
fn opens_of_every_kind_may_overlap() {
    both_ways(|door| {
        for size in [10, 2 << 20] {
            fs::write(door.at("f"), vec![1; size]).unwrap();
            let mut first = File::open(door.at("f")).unwrap();
            let writer = OpenOptions::new().write(true).open(door.at("f")).unwrap();
            let both = OpenOptions::new().read(true).write(true).open(door.at("f")).unwrap();
            let second = File::open(door.at("f")).unwrap();
            let truncating = OpenOptions::new().write(true).truncate(true).open(door.at("f")).unwrap();
            truncating.write_all_at(b"abc", 0).unwrap();
            writer.write_all_at(b"d", 3).unwrap();
            both.write_all_at(b"e", 4).unwrap();
            for mut reader in [&first, &second, &both] {
                let mut read = String::new();
                reader.seek(SeekFrom::Start(0)).unwrap();
                reader.read_to_string(&mut read).unwrap();
                assert_eq!(read, "abcde", "{size}");
            }
            first.seek(SeekFrom::End(0)).unwrap();
            drop((first, writer, both, second, truncating));
            same(door, "f", b"abcde");
        }
    });
}

#[test]
fn direct_reads_and_writes_work() {
    both_ways(|door| {
        fs::write(door.at("f"), vec![5; 8192]).unwrap();
        let direct = rustix::fs::open(
            door.at("f"),
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        // Aligned as the host's file system wants it.
        let mut room = vec![0_u8; 3 * 4096];
        let start = room.as_ptr().align_offset(4096);
        let buf = &mut room[start..start + 4096];
        assert_eq!(rustix::io::pread(&direct, &mut *buf, 4096), Ok(4096));
        assert!(buf.iter().all(|byte| *byte == 5));
        buf.fill(6);
        assert_eq!(rustix::io::pwrite(&direct, &*buf, 0), Ok(4096));
        drop(direct);
        same(door, "f", &[[6; 4096], [5; 4096]].concat());
    });
}
