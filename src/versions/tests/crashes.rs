//! A process that ends at any moment: what it was told is recorded is there.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use super::ground::{Ground, create, operation};
use crate::{
    types::{Hash, OpId},
    versions::{Content, Durability, Store, StoreOptions},
};

const STORE: &str = "WARDFS_TEST_STORE";
const CHILD: &str = "versions::tests::crashes::a_writer_tells_what_it_was_told";

/// In a process of its own: appends without end, and tells each operation that was acknowledged.
#[test]
fn a_writer_tells_what_it_was_told() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let durability =
        if std::env::var_os("WARDFS_TEST_STRICT").is_some() { Durability::Strict } else { Durability::Relaxed };
    let store = Store::open(path.as_ref(), &StoreOptions { durability }).expect("the store opens");
    let mut out = std::io::stdout();
    let mut noise = vec![0; 3000];
    for _ in 0..20_000 {
        let op = store.next_op();
        rustix::rand::getrandom(&mut noise, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
        let (hash, _) = store.put_blob(&noise).expect("kept");
        let lsn = store.append(&operation(op, vec![create(&format!("f{op}"), op.0, 1)])).expect("appended");
        store.settle(lsn).expect("settled");
        if op.0.is_multiple_of(16) {
            assert!(store.operation(op).expect("answered").is_some());
        }
        writeln!(out, "\nacknowledged {op} {hash}").expect("told");
        out.flush().expect("told");
    }
}

/// Starts the writer.
fn writer(ground: &Ground, point: &str, strict: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test"));
    command.args(["--exact", CHILD, "--nocapture", "--test-threads=1"]).env(STORE, ground.store());
    command.env("WARDFS_CRASH_POINT", point).stdout(Stdio::piped()).stderr(Stdio::null());
    if strict {
        command.env("WARDFS_TEST_STRICT", "1");
    }
    command.spawn().expect("started")
}

/// What the writer told until it ended, or was killed after `enough` operations.
fn listen(mut child: Child, enough: usize) -> Vec<(OpId, Hash)> {
    let mut told = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        let Some(rest) = line.strip_prefix("acknowledged ") else { continue };
        let (op, hash) = rest.split_once(' ').expect("two words");
        told.push((op.parse().expect("a number"), hash.parse().expect("a hash")));
        if told.len() == enough {
            // SIGKILL; it tells more until that arrives, which we go on to read.
            child.kill().expect("killed");
        }
    }
    let status = child.wait().expect("ended");
    assert!(!status.success(), "it ended by itself: {status}");
    told
}

fn check(ground: &Ground, told: &[(OpId, Hash)], what: &str) {
    for index in [true, false] {
        if !index {
            ground.without_index();
        }
        let store = ground.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(store.poisoned(), None, "{what}");
        for (op, hash) in told {
            assert!(store.operation(*op).expect("answered").is_some(), "{what}: operation {op} is gone");
            let bytes = store.read_all(&Content::Blob(*hash), 1 << 20).unwrap_or_else(|e| panic!("{what}: {op}: {e}"));
            assert_eq!(Hash::of(&bytes), *hash);
        }
        let last = told.last().map_or(0, |(op, _)| op.0);
        assert!(store.last_op().0 >= last && store.last_op().0 <= last + 1, "{what}: {} after {last}", store.last_op());
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    let ground = Ground::new();
    let mut all = Vec::new();
    for round in 0..6 {
        let told = listen(writer(&ground, "", round % 2 == 0), 40 + round * 37);
        assert!(told.len() >= 40, "round {round}: {}", told.len());
        all.extend(told);
        // What it was about to tell may be there too: then that number is used.
        check(&ground, &all, &format!("round {round}"));
    }
}

#[test]
fn each_crash_point_leaves_a_store_that_opens() {
    for point in [
        "segment-created",
        "segment-header-written",
        "record-framed",
        "record-framed:100",
        "record-written",
        "record-written:101",
        "flush-begun:3",
        "flush-done:3",
        "roll-flushed",
        "roll-created",
        "segment-created:2",
        "segment-header-written:2",
        "index-applying:3",
        "index-applied:3",
        "index-checkpoint",
    ] {
        let ground = Ground::in_memory();
        let told = listen(writer(&ground, point, true), usize::MAX);
        check(&ground, &told, point);
        // And once more on top of it.
        let more = listen(writer(&ground, "record-framed:50", true), usize::MAX);
        assert!(!more.is_empty(), "{point}");
        check(&ground, &[told, more].concat(), point);
    }
}
