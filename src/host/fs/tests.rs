//! Tests of identity, reopening and pins.

use std::os::unix::fs::symlink;

use super::{
    super::testing::{Served, everywhere, name},
    *,
};
use crate::host::{create_file, make_node, open_child, read_at, read_whole, remove_file, write_at};

/// A cache of its own, and the directory served through it; `handles` as if the file system had them or not.
fn served_with(bound: usize, handles: bool) -> (Served, &'static FdCache) {
    let cache: &'static FdCache = Box::leak(Box::new(FdCache::new(bound)));
    let dir = tempfile::tempdir().unwrap();
    let open = || openat(CWD, dir.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let fd = open();
    let mut fs = Fs::new(fd.as_fd(), &stat_mount(fd.as_fd()).unwrap(), cache).unwrap();
    fs.caps.handles &= handles;
    let fs = Arc::new(fs);
    let (fs, root) = Fs::root_with(open(), &[fs], cache).unwrap();
    (Served { dir, fs, root }, cache)
}

#[test]
fn handles_work_for_the_privileged_where_the_file_system_has_them() {
    let caps = rustix::thread::capabilities(None).unwrap().effective;
    let able = caps.contains(rustix::thread::CapabilitySet::DAC_READ_SEARCH);
    everywhere(|served| {
        let has = matches!(served.fs.caps().fs_type.as_str(), "ext4" | "xfs" | "btrfs" | "tmpfs");
        assert_eq!(served.fs.caps().handles, able && has);
        assert_eq!(served.root.key().handle[..4] != NO_HANDLE, has);
    });
}

#[test]
fn a_file_is_found_read_and_written_by_its_handle() {
    everywhere(|served| {
        served.put("a", b"one");
        let (a, attr) = served.look_up("a");
        assert_eq!((attr.kind, attr.size), (Kind::File, 3));
        let fd = a.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::DIRECT).unwrap();
        assert_eq!(write_at(fd.as_fd(), b"two", 3), Ok(3));
        let mut buf = [0; 16];
        assert_eq!(read_at(fd.as_fd(), &mut buf, 1), Ok(5));
        assert_eq!(read_whole(fd.as_fd(), 6).unwrap().0, b"onetwo");
        assert_eq!(a.attr().unwrap().size, 6);
        assert!(!fcntl_getfl(&fd).unwrap().contains(OFlags::NONBLOCK));
        let appending = a.open(OFlags::WRONLY | OFlags::APPEND).unwrap();
        assert!(fcntl_getfl(&appending).unwrap().contains(OFlags::APPEND));
    });
}

#[test]
fn a_root_shares_the_file_system_of_its_mount() {
    everywhere(|served| {
        let below = served.dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let known = [Arc::clone(&served.fs)];
        let (fs, root) = Fs::open_root(&below, &known).unwrap();
        assert!(Arc::ptr_eq(&fs, &served.fs));
        assert_eq!(root.key(), served.look_up("below").0.key());
        let (other, _) = Fs::open_root("/proc".as_ref(), &known).unwrap();
        assert_ne!((other.id(), other.mount_id()), (fs.id(), fs.mount_id()));
        assert_eq!(other.caps().fs_type, "proc");
        assert_eq!(fs.dev(), root.attr().unwrap().dev);
        let file = served.put("file", b"");
        assert_eq!(Fs::open_root(&file, &known).err(), Some(Errno::NOTDIR));
        assert_eq!(Fs::open_root(&below.join("none"), &known).err(), Some(Errno::NOENT));
    });
}

#[test]
fn other_mounts_are_refused() {
    let (fs, root) = Fs::open_root("/".as_ref(), &[]).unwrap();
    let top = root.path_fd().unwrap();
    assert_eq!(open_child(top.as_fd(), &name("proc")).err(), Some(Errno::XDEV));
    let proc = openat(CWD, "/proc", OFlags::PATH, Mode::empty()).unwrap();
    assert_eq!(fs.adopt(proc).err(), Some(Errno::XDEV));
}

#[test]
fn hard_links_have_one_key_and_keys_outlive_the_process() {
    everywhere(|served| {
        let a = served.put("a", b"");
        std::fs::hard_link(&a, served.dir.path().join("b")).unwrap();
        served.put("c", b"");
        let key = |entry| served.look_up(entry).0.key().clone();
        assert_eq!(key("a"), key("b"));
        assert_ne!(key("a"), key("c"));
        // What another process would find.
        let (again, _) = Fs::open_root(served.dir.path(), &[]).unwrap();
        let child = open_child(served.fd().as_fd(), &name("a")).unwrap();
        let (a, _) = again.adopt(child).unwrap();
        assert_ne!(a.key(), &key("a"), "the file system's number belongs to one opening");
        assert_eq!(a.stable_key(), served.look_up("b").0.stable_key());
        assert_ne!(a.stable_key(), served.look_up("c").0.stable_key());
        assert_eq!(a.stable_key().len(), 8 + a.key().handle.len());
    });
}

#[test]
fn a_number_used_again_is_another_file() {
    everywhere(|served| {
        let mut seen = std::collections::HashMap::new();
        let mut reused = false;
        for _ in 0..200 {
            served.put("a", b"");
            let key = served.look_up("a").0.key().clone();
            remove_file(served.fd().as_fd(), &name("a")).unwrap();
            if let Some(before) = seen.insert(key.ino, key.clone()) {
                reused = true;
                assert_ne!(before, key);
            }
        }
        assert!(reused || served.fs.caps().fs_type != "ext4", "ext4 gives a freed number to the next file");
    });
}

#[test]
fn a_removed_file_is_stale_unless_pinned() {
    everywhere(|served| {
        let (a, b) = (served.put("a", b"a"), served.put("b", b"b"));
        let ((gone, _), (kept, _)) = (served.look_up("a"), served.look_up("b"));
        kept.pin().unwrap();
        kept.pin().unwrap();
        std::fs::remove_file(a).unwrap();
        std::fs::remove_file(b).unwrap();
        assert_eq!(gone.attr().unwrap().nlink, 0, "the cached descriptor still knew it");
        if !served.fs.caps().handles {
            assert_eq!(gone.attr().unwrap().nlink, 0, "nothing can be let go");
            return;
        }
        assert_eq!(gone.attr().err(), Some(Errno::STALE));
        assert_eq!(gone.path_fd().err(), Some(Errno::STALE));
        assert_eq!(gone.open(OFlags::RDONLY).err(), Some(Errno::STALE));
        assert_eq!(gone.pin().err(), Some(Errno::STALE));
        assert_eq!(kept.attr().unwrap().nlink, 0);
        let fd = kept.open(OFlags::RDONLY).unwrap();
        assert_eq!(read_whole(fd.as_fd(), 1).unwrap().0, b"b");
        kept.unpin();
        kept.attr().unwrap();
        drop(fd);
        assert_eq!(kept.attr().err(), Some(Errno::STALE));
    });
}

#[test]
fn only_files_and_directories_are_opened() {
    everywhere(|served| {
        served.put("file", b"secret");
        symlink("file", served.dir.path().join("link")).unwrap();
        symlink("/", served.dir.path().join("out")).unwrap();
        make_node(served.fd().as_fd(), &name("fifo"), 0o010_600, 0).unwrap();
        make_node(served.fd().as_fd(), &name("socket"), 0o140_600, 0).unwrap();
        for (entry, kind) in
            [("link", Kind::Symlink), ("out", Kind::Symlink), ("fifo", Kind::Fifo), ("socket", Kind::Socket)]
        {
            let (found, attr) = served.look_up(entry);
            assert_eq!((attr.kind, found.kind()), (kind, kind), "{entry}");
            assert_eq!(found.open(OFlags::RDONLY).err(), Some(Errno::NXIO), "{entry}");
        }
        let (out, _) = served.look_up("out");
        assert_eq!(open_child(out.path_fd().unwrap().as_fd(), &name("tmp")).err(), Some(Errno::NOTDIR));
        assert_eq!(served.root.open(OFlags::RDWR).err(), Some(Errno::ISDIR));
        assert!(served.root.open(OFlags::RDONLY | OFlags::DIRECTORY).is_ok());
        let (file, _) = served.look_up("file");
        assert_eq!(file.open(OFlags::RDONLY | OFlags::DIRECTORY).err(), Some(Errno::NOTDIR));
    });
}

#[test]
fn a_descriptor_for_writing_is_not_kept() {
    for handles in [true, false] {
        let (served, _) = served_with(64, handles);
        let made = create_file(served.fd().as_fd(), &name("a"), 0o600).unwrap();
        write_at(made.as_fd(), b"x", 0).unwrap();
        let (a, attr) = served.fs.adopt(made).unwrap();
        assert_eq!(attr.size, 1);
        let kept = a.path_fd().unwrap();
        assert!(fcntl_getfl(&*kept).unwrap().contains(OFlags::PATH), "handles: {handles}");
        assert_eq!(a.key(), served.look_up("a").0.key());
    }
}

#[test]
fn thousands_of_files_live_on_few_descriptors() {
    const BOUND: usize = 64;
    for handles in [true, false] {
        let (served, cache) = served_with(BOUND, handles);
        let root = served.shared_root();
        let mut files = Vec::new();
        for n in 0..3000 {
            served.put(&n.to_string(), &vec![0; n]);
            files.push(served.look_up(&n.to_string()).0);
            files[n].reached(&root, &name(n.to_string()));
            assert!(cache.held() <= BOUND, "{} held, handles: {handles}", cache.held());
        }
        files[0].pin().unwrap();
        let pinned = files[0].path_fd().unwrap().as_raw_fd();
        for (n, file) in files.iter().enumerate().rev() {
            assert_eq!(usize::try_from(file.attr().unwrap().size), Ok(n));
            assert!(cache.held() <= BOUND);
        }
        assert_eq!(cache.held(), BOUND);
        assert_eq!(files[0].path_fd().unwrap().as_raw_fd(), pinned);
        files[0].unpin();
        drop(files);
        drop(root);
        assert_eq!(cache.held(), 1, "only the root is left");
    }
}

#[test]
fn without_handles_a_file_is_opened_again_by_a_name_that_still_leads_to_it() {
    let (served, _) = served_with(64, false);
    let root = served.shared_root();
    let at = |entry: &str| served.dir.path().join(entry);
    served.put("a", b"it");
    let (a, _) = served.look_up("a");
    a.reached(&root, &name("a"));
    let again = || {
        a.forget_descriptor();
        a.path_fd().map(drop)
    };
    assert_eq!(again(), Ok(()));
    std::fs::hard_link(at("a"), at("b")).unwrap();
    a.reached(&root, &name("b"));
    std::fs::remove_file(at("b")).unwrap();
    assert_eq!(again(), Ok(()), "by its other name");
    std::fs::rename(at("a"), at("c")).unwrap();
    assert_eq!(again(), Err(Errno::STALE), "nobody said where it went");
    served.put("a", b"another");
    assert_eq!(again(), Err(Errno::STALE), "another file is not taken for it");
    std::fs::remove_file(at("a")).unwrap();
    std::os::unix::fs::symlink("c", at("a")).unwrap();
    assert_eq!(again(), Err(Errno::STALE), "no link is followed to it");
    a.reached(&root, &name("c"));
    assert_eq!(again(), Ok(()));
    a.pin().unwrap();
    std::fs::remove_file(at("c")).unwrap();
    assert_eq!(again(), Ok(()), "pinned");
}

#[test]
fn without_handles_a_file_in_a_deep_tree_is_opened_again() {
    let (served, _) = served_with(64, false);
    let root = served.shared_root();
    let deep = name("d");
    let (mut dir, mut fd) = (Arc::clone(&root), root.path_fd().unwrap());
    let mut dirs = Vec::new();
    for _ in 0..8_000 {
        rustix::fs::mkdirat(&fd, "d", Mode::RWXU).unwrap();
        let below = Arc::new(served.fs.adopt(open_child(fd.as_fd(), &deep).unwrap()).unwrap().0);
        below.reached(&dir, &deep);
        fd = below.path_fd().unwrap();
        dirs.push(std::mem::replace(&mut dir, below));
    }
    drop(fd);
    dirs.iter().skip(1).for_each(|dir| dir.forget_descriptor());
    dir.forget_descriptor();
    assert_eq!(dir.attr().unwrap().kind, Kind::Dir);
    // From below, as the kernel forgets.
    drop(dir);
    while dirs.pop().is_some() {}
    // The temporary directory's own removal is recursive.
    std::process::Command::new("rm").arg("-rf").arg(served.dir.path().join("d")).status().unwrap();
}

#[test]
fn threads_share_the_cache() {
    let bound = 8;
    let (served, cache) = served_with(bound, true);
    let root = served.shared_root();
    let files: Vec<HostRef> = (0..40)
        .map(|n| {
            served.put(&n.to_string(), &vec![0; n]);
            let file = served.look_up(&n.to_string()).0;
            file.reached(&root, &name(n.to_string()));
            file
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let files = &files;
            scope.spawn(move || {
                for round in 0..2000 {
                    let n = (round * 7 + thread * 11) % files.len();
                    match round % 5 {
                        0 => files[n].pin().unwrap(),
                        1 => files[n].unpin(),
                        _ => assert_eq!(usize::try_from(files[n].attr().unwrap().size), Ok(n)),
                    }
                }
            });
        }
    });
    files.iter().for_each(HostRef::unpin);
    assert!(files[3].attr().is_ok());
    assert!(cache.held() <= bound, "{} held", cache.held());
    drop(files);
    drop(root);
    assert_eq!(cache.held(), 1);
}

#[test]
fn without_handles_what_has_no_name_pins_its_file() {
    let (served, cache) = served_with(4, false);
    for n in 0..4 {
        served.put(&n.to_string(), b"x");
    }
    let (a, attr) = served.look_up("0");
    assert_eq!(a.key().ino, attr.ino);
    assert_eq!(a.key(), served.look_up("0").0.key());
    assert_ne!(a.key(), served.look_up("1").0.key());
    a.unpin();
    std::fs::remove_file(served.dir.path().join("0")).unwrap();
    assert_eq!(a.attr().unwrap().nlink, 0);
    let fd = a.open(OFlags::RDWR).unwrap();
    assert_eq!(read_whole(fd.as_fd(), 1).unwrap().0, b"x");
    let rest: Vec<HostRef> = ["1", "2"].map(|entry| served.look_up(entry).0).into();
    let third = open_child(served.fd().as_fd(), &name("3")).unwrap();
    assert_eq!(served.fs.adopt(third).err(), Some(Errno::MFILE), "the root and three files fill the bound");
    drop(rest);
    assert!(served.look_up("3").0.attr().is_ok());
    assert_eq!(cache.held(), 2);
}

#[test]
fn file_systems_without_handles_are_served_too() {
    let (fs, root) = Fs::open_root("/proc/sys/kernel".as_ref(), &[]).unwrap();
    assert!(!fs.caps().handles);
    let child = open_child(root.path_fd().unwrap().as_fd(), &name("ostype")).unwrap();
    let (file, _) = fs.adopt(child).unwrap();
    let mut buf = [0; 16];
    assert_eq!(read_at(file.open(OFlags::RDONLY).unwrap().as_fd(), &mut buf, 0), Ok(6));
    assert_eq!(&buf[..6], b"Linux\n");
}

#[test]
fn mount_types_are_read_from_mountinfo() {
    let text = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                210 21 0:5 / /a\\040b rw - fuse.wardfs wardfs rw,user_id=0\n";
    assert_eq!(parse_mount_type(text, 21).as_deref(), Some("ext4"));
    assert_eq!(parse_mount_type(text, 210).as_deref(), Some("fuse.wardfs"));
    assert_eq!(parse_mount_type(text, 2), None);
}

#[test]
fn a_file_system_that_is_not_listed_says_itself_what_it_is() {
    everywhere(|served| {
        let listed = served.fs.caps().fs_type.clone();
        let said = type_of_mount(u64::MAX, served.fd().as_fd()).unwrap();
        let known = matches!(listed.as_str(), "ext4" | "xfs" | "btrfs" | "tmpfs" | "overlay");
        assert_eq!(said, if known { listed } else { said.clone() });
    });
}
