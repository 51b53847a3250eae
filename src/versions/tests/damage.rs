//! Logs that were cut off, changed, or mixed up; and indexes that are not the log's.

use super::ground::{Ground, answers, append, copy, create, furnish, write};
use crate::{
    types::{NodeId, OpId},
    versions::{HistoryQuery, StoreError},
};

fn operations(ground: &Ground) -> Vec<OpId> {
    let store = ground.open();
    let page = store.history(&HistoryQuery { limit: 10_000, oldest_first: true, ..HistoryQuery::default() });
    page.expect("answered").operations.iter().map(|operation| operation.op).collect()
}

/// Where the records of a segment begin and end.
fn boundaries(segment: &[u8]) -> Vec<usize> {
    let mut all = vec![32];
    while let Some(length) = segment.get(all[all.len() - 1] + 8..).and_then(|rest| rest.first_chunk()) {
        all.push(all[all.len() - 1] + (36 + u32::from_le_bytes(*length) as usize + 4).next_multiple_of(8));
    }
    all
}

#[test]
fn a_log_cut_off_at_any_byte_keeps_all_whole_records_before() {
    let ground = Ground::in_memory();
    let original = ground.dir().join("original");
    let mut ends = Vec::new();
    {
        let store = ground.open();
        for n in 1..=4 {
            append(&store, vec![create(&format!("f{n}"), n, n)]);
            ends.push(32 + usize::try_from(store.end_of_log().0).expect("small"));
        }
    }
    copy(&ground.store(), &original);
    let whole = std::fs::read(&ground.segments()[0]).expect("a segment");
    assert_eq!(ends.last(), Some(&whole.len()), "a closed segment ends with its last record");
    let records = boundaries(&whole);
    for cut in 0..whole.len() {
        ground.copy(&original);
        ground.without_index();
        std::fs::write(&ground.segments()[0], &whole[..cut]).expect("cut");
        let mut kept = ends.iter().filter(|end| **end <= cut).count();
        // Of zeros at a record's end nothing depends.
        let next = records.iter().find(|end| **end > cut).expect("the last is the end");
        let in_padding = next - cut < 8 && whole[cut..*next].iter().all(|b| *b == 0);
        {
            let store = ground.open();
            if in_padding && store.last_op().0 > kept as u64 {
                kept += 1;
            }
            assert_eq!(store.last_op().0, kept as u64, "cut at {cut}");
            let torn = !in_padding && !records.contains(&cut) && cut > 32;
            let notes = &store.recovered().notes;
            assert_eq!(notes.iter().any(|note| note.contains("cut off")), torn, "{notes:?} {cut}");
            // The log goes on, in a new segment.
            append(&store, vec![create("new", 9, 1)]);
        }
        assert_eq!(operations(&ground).len(), kept + 1, "cut at {cut}, and on");
        assert_eq!(operations(ground.without_index()).len(), kept + 1, "cut at {cut}, without the index");
    }
}

#[test]
fn each_flipped_byte_is_noticed_or_harmless() {
    let ground = Ground::in_memory();
    let original = ground.dir().join("original");
    let expected = {
        let store = ground.open();
        furnish(&store, 2);
        let said = answers(&store).expect("answered");
        store.close().expect("closed");
        said
    };
    copy(&ground.store(), &original);
    let whole = std::fs::read(&ground.segments()[0]).expect("a segment");
    let mut noticed = 0;
    for at in 0..whole.len() {
        for keep_index in [false, true] {
            ground.copy(&original);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            std::fs::write(&ground.segments()[0], bytes).expect("changed");
            if !keep_index {
                ground.without_index();
            }
            match ground.try_open() {
                Ok(store) => match answers(&store) {
                    Ok(said) if said == expected => {}
                    Ok(said) => {
                        assert!(!store.recovered().notes.is_empty(), "byte {at}, index {keep_index}: {said}");
                        noticed += 1;
                    }
                    Err(StoreError::Damaged(_) | StoreError::Corrupt(_)) => noticed += 1,
                    Err(other) => panic!("byte {at}: {other}"),
                },
                Err(StoreError::Format { .. }) => noticed += 1,
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }
    // All but the padding between records.
    assert!(noticed > whole.len() * 2 * 8 / 10, "{noticed} of {}", whole.len() * 2);
}

/// A log of several segments.
fn long(ground: &Ground) -> u64 {
    let store = ground.open();
    let mut noise = vec![0; 200_000];
    for n in 1..=15 {
        rustix::rand::getrandom(&mut noise, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
        store.put_blob(&noise).expect("kept");
        append(&store, vec![create(&format!("f{n}"), n, n)]);
    }
    store.close().expect("closed");
    assert!(ground.segments().len() >= 3, "{:?}", ground.segments());
    15
}

fn check_damaged(what: &str, harm: impl Fn(&Ground)) {
    let ground = Ground::in_memory();
    let count = long(&ground);
    harm(&ground);
    ground.without_index();
    let before = listing(&ground);
    for _ in 0..2 {
        let store = ground.open();
        let reason = store.poisoned().unwrap_or_else(|| panic!("{what}: not noticed"));
        assert!(reason.contains("damaged"), "{what}: {reason}");
        assert!(store.recovered().notes.iter().any(|note| note.contains("reading only")), "{what}");
        assert!(store.last_op().0 < count, "{what}");
        let refused = store.append(&super::ground::operation(store.next_op(), vec![write("f1", 1, 1, 2)]));
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{what}: {refused:?}");
        assert_eq!(refused.expect_err("refused").errno(), rustix::io::Errno::ROFS);
        assert!(store.put_blob(b"x").is_err(), "{what}");
        answers(&store).unwrap_or_else(|error| panic!("{what}: what is before the damage is read: {error}"));
        drop(store);
        assert_eq!(listing(&ground), before, "{what}: the log was touched");
    }
}

fn listing(ground: &Ground) -> Vec<(std::path::PathBuf, u64)> {
    ground.segments().into_iter().map(|path| (path.clone(), path.metadata().expect("there").len())).collect()
}

#[test]
fn damage_before_the_tail_opens_for_reading_only() {
    check_damaged("a byte in the middle", |ground| {
        let path = &ground.segments()[1];
        let mut bytes = std::fs::read(path).expect("a segment");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).expect("written");
    });
    check_damaged("a missing segment", |ground| std::fs::remove_file(&ground.segments()[1]).expect("removed"));
    check_damaged("a missing start", |ground| std::fs::remove_file(&ground.segments()[0]).expect("removed"));
    check_damaged("a cut-off segment", |ground| {
        let file = std::fs::File::options().write(true).open(&ground.segments()[1]).expect("a segment");
        file.set_len(100_000).expect("cut");
    });
    check_damaged("a segment of zeros", |ground| {
        let path = &ground.segments()[1];
        let size = path.metadata().expect("there").len();
        std::fs::write(path, vec![0; usize::try_from(size).expect("small")]).expect("written");
    });
    check_damaged("a segment in place of another", |ground| {
        std::fs::copy(&ground.segments()[0], &ground.segments()[1]).expect("copied");
    });
    check_damaged("swapped segments", |ground| {
        let segments = ground.segments();
        let aside = ground.dir().join("x");
        std::fs::rename(&segments[0], &aside).expect("moved");
        std::fs::rename(&segments[1], &segments[0]).expect("moved");
        std::fs::rename(&aside, &segments[1]).expect("moved");
    });
    check_damaged("a broken header", |ground| {
        let path = &ground.segments()[2];
        let mut bytes = std::fs::read(path).expect("a segment");
        bytes[16] ^= 1;
        std::fs::write(path, bytes).expect("written");
    });
}

#[test]
fn what_was_never_flushed_may_be_missing_in_the_middle() {
    let ground = Ground::in_memory();
    let (first, second, third) = {
        let store = ground.open();
        let first = append(&store, vec![create("a", 1, 1)]);
        store.sync_all().expect("flushed");
        let from = store.end_of_log().0;
        append(&store, vec![create("b", 2, 1)]);
        let to = store.end_of_log().0;
        append(&store, vec![create("c", 3, 1)]);
        // The index has seen it all, as it may have got to disk first.
        answers(&store).expect("answered");
        copy(&ground.store(), &ground.dir().join("saved"));
        (first, from, to)
    };
    ground.copy(&ground.dir().join("saved"));
    // A power cut may keep a later page and lose an earlier one.
    let path = &ground.segments()[0];
    let mut bytes = std::fs::read(path).expect("a segment");
    let range = |lsn: u64| usize::try_from(lsn).expect("small") + 32;
    bytes[range(second)..range(third)].fill(0);
    std::fs::write(path, bytes).expect("written");
    let store = ground.open();
    assert_eq!(store.poisoned(), None, "{:?}", store.recovered().notes);
    assert_eq!(store.last_op(), first);
    assert!(store.recovered().notes.iter().any(|note| note.contains("cut off")), "{:?}", store.recovered().notes);
    let again = append(&store, vec![create("d", 4, 1)]);
    assert_eq!(store.operation(again).expect("answered").expect("there").changes[0].node, NodeId(4));
    drop(store);
    assert_eq!(operations(ground.without_index()), [first, again]);
}

#[test]
fn any_index_gives_the_answers_of_the_log() {
    let ground = Ground::in_memory();
    let save = |name: &str| {
        let to = ground.dir().join(name);
        copy(&ground.store(), &to);
        to
    };
    let fill = |rounds| {
        let store = ground.open();
        furnish(&store, rounds);
        store.close().expect("closed");
    };
    fill(2);
    let early = save("early");
    let early_answers = answers(&ground.open()).expect("answered");
    fill(3);
    let late = save("late");
    let late_answers = answers(&ground.open()).expect("answered");
    let check = |what: &str, log: &std::path::Path, expected: &str, index: &dyn Fn()| {
        ground.copy(log);
        ground.without_index();
        index();
        let store = ground.open();
        assert_eq!(answers(&store).expect("answered"), expected, "{what}");
        assert_eq!(store.poisoned(), None, "{what}");
        append(&store, vec![create("more", 99, 1)]);
        assert!(store.head(&super::ground::key(99)).expect("answered").is_some(), "{what}");
    };
    let take = |from: &std::path::Path| {
        let from = from.join("index.db");
        let to = ground.index();
        move || {
            std::fs::copy(&from, &to).expect("copied");
        }
    };
    check("missing", &late, &late_answers, &|| {});
    check("as it was", &late, &late_answers, &take(&late));
    check("older", &late, &late_answers, &take(&early));
    check("newer", &early, &early_answers, &take(&late));
    check("empty", &late, &late_answers, &|| std::fs::write(ground.index(), b"").expect("written"));
    check("garbage", &late, &late_answers, &|| std::fs::write(ground.index(), vec![0xa5; 50_000]).expect("written"));
    for at in [100, 4096 + 8, 3 * 4096 + 100, 5 * 4096 + 2000] {
        check("damaged", &late, &late_answers, &|| {
            let mut bytes = std::fs::read(late.join("index.db")).expect("an index");
            bytes[at..at + 64].fill(0xff);
            std::fs::write(ground.index(), bytes).expect("written");
        });
    }
    // Another store's.
    let other = Ground::in_memory();
    let store = other.open();
    furnish(&store, 3);
    drop(store);
    check("another's", &late, &late_answers, &take(&other.store()));
}

#[test]
fn an_index_that_breaks_while_it_is_used_is_built_anew() {
    let ground = Ground::in_memory();
    let store = ground.open();
    furnish(&store, 4);
    let before = answers(&store).expect("answered");
    let db = rusqlite::Connection::open(ground.index()).expect("opened");
    db.execute_batch("DROP TABLE touch").expect("dropped");
    assert_eq!(answers(&store).expect("built anew"), before);
    append(&store, vec![create("more", 99, 1)]);
    assert_ne!(answers(&store).expect("answered"), before);
}
