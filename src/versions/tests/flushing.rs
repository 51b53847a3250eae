//! When the log gets to disk, and what happens when it cannot.

use std::sync::{Arc, atomic::Ordering};

use super::ground::{Ground, answers, append, create, operation};
use crate::{
    types::Lsn,
    versions::{Change, ChangeKind, Content, Operation, Store, StoreError},
};

fn flushes(store: &Store) -> u64 {
    store.flusher().count.load(Ordering::Relaxed)
}

#[test]
fn all_who_wait_share_a_flush() {
    let ground = Ground::new();
    let store = ground.open();
    let before = flushes(&store);
    // While one flush takes its time, eight writers append and wait.
    let slow = store.flusher().hold();
    let start = store.end_of_log().0;
    let writers: Vec<_> = (1..=8)
        .map(|n| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let lsn = store.append(&operation(store.next_op(), vec![create(&format!("f{n}"), n, 1)]))?;
                store.sync(lsn)
            })
        })
        .collect();
    while store.index().ask(super::super::index::Reader::counts).expect("answered").0 < 8 {
        std::thread::yield_now();
    }
    assert!(store.end_of_log().0 > start);
    drop(slow);
    for writer in writers {
        writer.join().expect("no panic").expect("on disk");
    }
    let took = flushes(&store) - before;
    assert!((1..=2).contains(&took), "{took} flushes for 8 writers");
}

#[test]
fn names_are_put_on_disk_before_the_log_says_that_they_changed() {
    let ground = Ground::new();
    let store = ground.open();
    let names = || store.flusher().names_count.load(Ordering::Relaxed);
    let put = |operation: Operation| {
        let before = names();
        let lsn = store.append(&operation).expect("appended");
        store.sync(lsn).expect("on disk");
        names() - before
    };
    let made = create("f", 1, 1);
    let written = Change { kind: ChangeKind::Write, before: made.after.clone(), ..made.clone() };
    let gone = Change { kind: ChangeKind::Remove, before: made.after.clone(), after: None, ..made.clone() };
    assert_eq!(put(operation(store.next_op(), vec![made.clone()])), 1);
    assert_eq!(put(operation(store.next_op(), vec![written.clone()])), 0, "no name changed");
    let mut aside = written;
    let old = aside.before.as_mut().expect("it has a state");
    old.content = Content::Aside("1-0-0".into());
    assert_eq!(put(operation(store.next_op(), vec![aside])), 1, "the old content is a name in aside/");
    let intent = Operation { intent: true, ..operation(store.next_op(), vec![gone.clone()]) };
    assert_eq!(put(intent), 0, "it is recorded before it is done");
    assert_eq!(put(operation(store.next_op(), vec![gone])), 1);
}

#[test]
fn many_writers_need_few_flushes() {
    let ground = Ground::new();
    let store = ground.open();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                for n in 0..50 {
                    let node = writer * 1000 + n;
                    let made = operation(store.next_op(), vec![create(&format!("f{node}"), node, 1)]);
                    let lsn = store.append(&made).expect("appended");
                    store.sync(lsn).expect("on disk");
                    assert!(store.flusher().flushed() >= lsn.0);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    let took = flushes(&store);
    assert!(took <= 300, "{took} flushes for 400 appends");
    assert_eq!(store.stats().expect("answered").operations, 400);
}

#[test]
fn what_nobody_waits_for_is_flushed_soon_and_then_nothing_is() {
    let ground = Ground::new();
    let store = ground.open();
    append(&store, vec![create("a", 1, 1)]);
    let end = store.end_of_log().0;
    let begun = std::time::Instant::now();
    while store.flusher().flushed() < end {
        assert!(begun.elapsed().as_secs() < 30, "never flushed");
        std::thread::yield_now();
    }
    assert_eq!(flushes(&store), 1);
    assert!(!store.flusher().is_working(), "it waits for work, and does not look for it");
}

#[test]
fn contents_say_whether_they_are_on_disk() {
    let ground = Ground::new();
    let store = ground.open();
    let (hash, lsn) = store.put_blob(b"one").expect("kept");
    let again = store.put_blob(b"one").expect("kept");
    assert_eq!(again.0, hash);
    assert!(again.1 > Lsn(0) && again.1 <= lsn, "kept, not yet on disk");
    store.sync(again.1).expect("flushed");
    assert_eq!(store.put_blob(b"one").expect("kept").1, Lsn(0));
    assert_eq!(store.stats().expect("answered").contents, 1);
    drop(store);
    // A new life makes what it finds durable first.
    assert_eq!(ground.open().put_blob(b"one").expect("kept").1, Lsn(0));
}

#[test]
fn a_failed_flush_is_never_forgiven() {
    let ground = Ground::new();
    let store = ground.open();
    let first = append(&store, vec![create("a", 1, 1)]);
    store.sync_all().expect("flushed");
    store.flusher().fail_next.store(true, Ordering::Relaxed);
    let lsn = store.append(&operation(store.next_op(), vec![create("b", 2, 1)])).expect("appended");
    assert!(matches!(store.sync(lsn), Err(StoreError::Poisoned(_))));
    // The device is well again; that changes nothing.
    for _ in 0..3 {
        assert!(matches!(store.sync(lsn), Err(StoreError::Poisoned(_))));
        assert!(matches!(store.sync(Lsn(1)), Err(StoreError::Poisoned(_))), "not even what was flushed before");
        let refused = store.append(&operation(store.next_op(), vec![create("c", 3, 1)])).expect_err("refused");
        assert_eq!(refused.errno(), rustix::io::Errno::ROFS);
        assert!(store.put_blob(b"x").is_err() && store.applied(first).is_err() && store.sync_all().is_err());
    }
    assert!(store.poisoned().is_some_and(|reason| reason.contains("flushing the log failed")));
    answers(&store).expect("reads go on");
    drop(store);
    let store = ground.open();
    assert_eq!(store.poisoned(), None);
    append(&store, vec![create("d", 4, 1)]);
    store.sync_all().expect("flushed");
}

#[test]
fn a_failed_flush_while_a_segment_closes_is_not_forgiven_either() {
    let ground = Ground::new();
    let store = ground.open();
    let mut noise = vec![0; 700_000];
    rustix::rand::getrandom(&mut noise, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
    store.put_blob(&noise).expect("kept");
    store.flusher().fail_next.store(true, Ordering::Relaxed);
    noise[0] ^= 1;
    assert!(matches!(store.put_blob(&noise), Err(StoreError::Poisoned(_))));
    noise[0] ^= 2;
    assert!(matches!(store.put_blob(&noise), Err(StoreError::Poisoned(_))));
    assert_eq!(store.stats().expect("answered").contents, 1);
}

#[test]
fn a_closed_store_answers_and_takes_nothing() {
    let ground = Ground::new();
    let store = ground.open();
    let op = append(&store, vec![create("a", 1, 1)]);
    store.close().expect("closed");
    assert!(store.append(&operation(store.next_op(), vec![])).is_err());
    assert!(store.operation(op).expect("answered").is_some());
}
