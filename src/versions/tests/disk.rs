//! A full disk, the lock, and what the store's directory looks like.

use std::os::unix::fs::PermissionsExt;

use super::ground::{Ground, append, create, key, operation};
use crate::{
    types::{Hash, NodeId},
    versions::{Content, Store, StoreError, StoreOptions, reserve},
};

#[test]
fn a_full_disk_loses_nothing_and_records_nothing() {
    let ground = Ground::limited("1m");
    let filler = ground.dir().join("filler");
    std::fs::write(&filler, vec![1; 200_000]).expect("written");
    let store = ground.open();
    let mut kept = Vec::new();
    let mut noise = vec![0; 5000];
    let refused = loop {
        rustix::rand::getrandom(&mut noise, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
        match store.put_blob(&noise) {
            Ok((hash, _)) => kept.push(hash),
            Err(error) => break error,
        }
        assert!(kept.len() < 1000, "the disk is never full");
    };
    assert!(matches!(refused, StoreError::NoSpace { .. }), "{refused}");
    assert_eq!(refused.errno(), rustix::io::Errno::NOSPC);
    let hash = Hash::of(&noise);
    assert!(!store.has_blob(&hash));
    let end = store.end_of_log().0;
    let big = vec![create(&"x/".repeat(2000), 5, 1)];
    assert!(matches!(store.append(&operation(store.next_op(), big)), Err(StoreError::NoSpace { .. })));
    assert_eq!((store.last_op().0, store.end_of_log().0 - end < 400), (0, true), "only its actor may have found room");
    assert_eq!(store.poisoned(), None);
    for hash in &kept {
        assert_eq!(Hash::of(&store.read_all(&Content::Blob(*hash), 1 << 20).expect("kept")), *hash);
    }
    // Room again: it goes on where it was.
    std::fs::remove_file(&filler).expect("removed");
    let op = append(&store, vec![create("a", 1, 1)]);
    let (after, _) = store.put_blob(&noise).expect("kept");
    drop(store);
    let store = ground.without_index().open();
    assert_eq!((store.poisoned(), store.last_op()), (None, op));
    assert_eq!(store.recovered().notes, Vec::<String>::new());
    for hash in kept.iter().chain([&after]) {
        assert_eq!(Hash::of(&store.read_all(&Content::Blob(*hash), 1 << 20).expect("kept")), *hash);
    }
}

#[test]
fn what_was_begun_is_finished_out_of_the_reserve() {
    let ground = Ground::limited("4m");
    let store = ground.open();
    let mut intent = operation(store.next_op(), vec![create("a", 1, 1)]);
    intent.intent = true;
    store.append(&intent).expect("appended");
    store.sync_all().expect("flushed");
    let filler = std::fs::File::create(ground.dir().join("filler")).expect("made");
    let fill = |file: &std::fs::File| {
        use std::io::Write;
        for size in [65536, 4096] {
            while (&mut &*file).write_all(&vec![1; size]).is_ok() {}
        }
    };
    let mut noise = vec![0; 30_000];
    // Until nothing new finds room: the segment's own space too.
    loop {
        fill(&filler);
        rustix::rand::getrandom(&mut noise, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
        if store.put_blob(&noise).is_err() {
            break;
        }
    }
    while store.put_blob(&noise[..100]).is_ok() {
        noise.rotate_left(7);
    }
    store.applied(intent.op).expect("out of the reserve");
    let refused = store.append(&operation(store.next_op(), vec![create("b", 2, 1)]));
    fill(&filler);
    drop(refused);
    let refused = store.append(&operation(store.next_op(), vec![create("c", 3, 1)]));
    assert!(matches!(refused, Err(StoreError::NoSpace { .. })), "nothing new until the reserve is back: {refused:?}");
    filler.set_len(0).expect("emptied");
    let op = append(&store, vec![create("d", 4, 1)]);
    assert_eq!(std::fs::metadata(ground.store().join("reserve")).expect("there").len(), reserve::SIZE, "it is back");
    drop(store);
    let store = ground.open();
    assert_eq!(store.recovered().intents, []);
    assert_eq!(store.last_op(), op);
}

#[test]
fn a_second_writer_is_told_who_has_the_store() {
    let ground = Ground::new();
    let store = ground.open();
    let locked = |admin: &str| match ground.try_open() {
        Err(StoreError::Locked { pid, admin: told, path }) => {
            assert_eq!((pid, told.as_str(), path), (std::process::id(), admin, ground.store()));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("two writers"),
    };
    locked("");
    store.announce("/run/a long socket name".as_ref()).expect("announced");
    locked("/run/a long socket name");
    store.announce("/run/b".as_ref()).expect("announced");
    locked("/run/b");
    let text = std::fs::read_to_string(ground.store().join("LOCK")).expect("a lock");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    assert_eq!(text.lines().nth(1), Some(boot.trim()));
    drop(store);
    ground.open();
}

#[test]
fn a_store_is_its_owners_alone_and_takes_no_foreign_directory() {
    let ground = Ground::new();
    std::fs::create_dir(ground.store()).expect("made");
    std::fs::set_permissions(ground.store(), std::fs::Permissions::from_mode(0o755)).expect("opened up");
    drop(ground.open());
    for part in ["", "log", "aside", "tmp", "quarantine"] {
        let mode = std::fs::metadata(ground.store().join(part)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{part}");
    }
    let format = ground.store().join("FORMAT");
    let text = std::fs::read_to_string(&format).expect("a format");
    for (from, to, why) in [
        ("wardfs-store: 1", "wardfs-store: 2", "format is 2"),
        ("features: ", "features: deltas", "deltas"),
        ("wardfs-store", "x", "not a wardfs store"),
    ] {
        std::fs::write(&format, text.replace(from, to)).expect("written");
        let refused = ground.try_open().err().unwrap_or_else(|| panic!("{to} was taken"));
        assert!(matches!(&refused, StoreError::Format { reason, .. } if reason.contains(why)), "{refused}");
    }
    std::fs::remove_file(&format).expect("removed");
    assert!(matches!(ground.try_open(), Err(StoreError::Format { .. })), "a log without its format");
    let foreign = ground.dir().join("home");
    std::fs::create_dir(&foreign).expect("made");
    std::fs::write(foreign.join("thesis"), b"x").expect("written");
    let refused = Store::open(&foreign, &StoreOptions::default()).err().expect("refused");
    assert!(refused.to_string().contains("thesis"), "{refused}");
    assert_eq!(std::fs::read_dir(&foreign).expect("there").count(), 1, "nothing was put there");
}

#[test]
fn restarts_leave_no_empty_segments_and_no_unused_space() {
    let ground = Ground::new();
    for n in 1..=3 {
        append(&ground.open(), vec![create(&format!("f{n}"), n, 1)]);
        drop(ground.open());
        drop(ground.open());
    }
    assert!(ground.segments().len() <= 4, "{:?}", ground.segments());
    let used: u64 = ground.segments().iter().map(|path| path.metadata().expect("there").len()).sum();
    assert!(used < 2000, "{used}");
    let store = ground.without_index().open();
    assert_eq!(store.last_op().0, 3);
    assert!(store.head(&key(1)).expect("answered").is_some());
}

#[test]
fn names_aside_tell_the_node_and_are_never_given_twice() {
    let ground = Ground::new();
    let mut names = std::collections::HashSet::new();
    for _ in 0..3 {
        let store = ground.open();
        for _ in 0..3 {
            let name = store.aside_name(NodeId(17)).to_string();
            assert!(name.starts_with("17-"), "{name}");
            assert!(names.insert(name));
            assert!(names.insert(store.tmp_name().to_string()));
        }
    }
}
