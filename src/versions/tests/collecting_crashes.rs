//! A collection that is cut off at any point, and one on a full disk.

use std::process::{Command, Stdio};

use super::{
    dropping::{ago, noise},
    ground::{Ground, change, state},
};
use crate::{
    types::{Hash, Kind, OpId, SourceId},
    versions::{
        ChangeKind, Content, Durability, Loss, PathAt, Retention, Rule, Store, StoreError, StoreOptions, gc::Aim,
    },
};

const STORE: &str = "WARDFS_TEST_COLLECTED_STORE";
const CHILD: &str = "versions::tests::collecting_crashes::a_collector_in_a_process_of_its_own";
const VERSIONS: u64 = 120;

/// Texts that are alike, of two days ago, each by replacing a line of the one before; some files aside; and old rows.
fn text(number: u64) -> Vec<u8> {
    (0..300)
        .map(|line| format!("line {line}: {}\n", if line <= number { line * 7 + number } else { line }))
        .collect::<String>()
        .into_bytes()
}

pub fn build(store: &Store, dir: &std::path::Path) {
    let day = 86_400;
    for n in 0..40 {
        // Large enough together to fill a segment alone.
        let mut before = super::ground::file(1);
        before.xattrs = vec![(b"user.noise".to_vec(), noise(1000 + n, 60_000))];
        let made = change(ChangeKind::Meta, &format!("old{n}"), 100 + n, Some(before), Some(super::ground::file(1)));
        ago(store, 40 * day, "old", vec![made]);
    }
    for n in 0..VERSIONS {
        for (path, node, bytes) in [("noise", 1, noise(n, 12_000)), ("text", 2, text(n))] {
            let (hash, _) = store.put_blob(&bytes).expect("kept");
            let before = state(Kind::File, bytes.len() as u64, Content::Blob(hash));
            let by = if path == "text" { format!("s{n}") } else { "one".into() };
            ago(
                store,
                2 * day,
                &by,
                vec![change(ChangeKind::Write, path, node, Some(before), Some(super::ground::file(1)))],
            );
        }
        if n % 10 == 0 {
            let name = store.aside_name(crate::types::NodeId(3)).to_string();
            std::fs::write(dir.join("aside").join(&name), noise(n, 5000)).expect("written");
            let before = state(Kind::File, 5000, Content::Aside(name));
            ago(
                store,
                2 * day,
                "one",
                vec![change(ChangeKind::Write, "aside", 3, Some(before), Some(super::ground::file(1)))],
            );
        }
    }
}

/// In a process of its own: collects until it is cut off.
#[test]
fn a_collector_in_a_process_of_its_own() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let store = Store::open(path.as_ref(), &StoreOptions { durability: Durability::Relaxed }).expect("it opens");
    for _ in 0..3 {
        store.keeping.told_long_ago(&store);
        store.collect(Aim::Rules, false).expect("collected");
    }
    store.close().expect("closed");
}

fn collect_until(ground: &Ground, point: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("a test"));
    command.args(["--exact", CHILD, "--nocapture", "--test-threads=1"]).env(STORE, ground.store());
    command.env("WARDFS_CRASH_POINT", point).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it ran").success()
}

/// Every version of the two files is as it was, or says that it is gone; those that rules keep are there.
fn check(store: &Store, what: &str) {
    assert_eq!(store.poisoned(), None, "{what}");
    let report = store.verify().expect("checked");
    assert_eq!(report.damage, Vec::<String>::new(), "{what}");
    let mut seen = [0; 2];
    let history =
        store.history(&crate::versions::HistoryQuery { limit: 10_000, oldest_first: true, ..Default::default() });
    for operation in history.expect("answered").operations {
        let change = &operation.changes[0];
        let (at, bytes, kept) = match change.path.to_string().as_str() {
            // By one session: what stood there before, and the first; the last is there now.
            "noise" => (0, noise(seen[0], 12_000), seen[0] <= 1),
            // Each by its own session: all.
            "text" => (1, text(seen[1]), true),
            _ => continue,
        };
        seen[at] += 1;
        let what = format!("{what}: {} {}", change.path, seen[at]);
        let found = store.path_at(SourceId(1), &change.path, OpId(operation.op.0 - 1)).expect("answered");
        let PathAt::Was { state, .. } = found else { panic!("{what}: {found:?}") };
        match store.read_all(&state.content, 1 << 20) {
            Ok(found) => assert_eq!(Hash::of(&found), Hash::of(&bytes), "{what}"),
            Err(StoreError::Unavailable(Loss::Trimmed(trim))) => {
                assert!(!kept && trim.rule == Rule::Thinned, "{what} {trim}")
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
    assert_eq!(seen, [VERSIONS; 2], "{what}");
}

#[test]
fn a_collection_cut_off_anywhere_leaves_only_garbage() {
    let original = Ground::in_memory();
    {
        let store = original.open();
        build(&store, &original.store());
        store.close().expect("closed");
    }
    let ground = Ground::in_memory();
    for point in [
        "trim-appended",
        "trim-flushed",
        "trimmed-unlinked",
        "forgetting-appended",
        "deltas-said",
        "segment-packed",
        "segment-packed:2",
        "segment-replaced",
        "segments-joined",
        "segments-joined:2",
        "segment-buried",
        "segment-burial-flushed",
        "segment-unlinked",
        "index-applying:2",
        "index-applied:2",
    ] {
        for with_index in [true, false] {
            ground.copy(&original.store());
            assert!(!collect_until(&ground, point), "{point} was never passed");
            if !with_index {
                ground.without_index();
            }
            check(&ground.open(), point);
            // It goes on where it was.
            assert!(collect_until(&ground, "none"), "{point}: the next one fails");
            let store = ground.open();
            check(&store, point);
            assert!(store.used().expect("counted") < 1_200_000, "{point}: {}", store.used().expect("counted"));
        }
    }
}

#[test]
fn on_a_full_disk_a_collection_makes_room() {
    let ground = Ground::limited("12m");
    let store = ground.open();
    let mut kept = Vec::new();
    // Until the disk is full, with nothing in reserve.
    for n in 0.. {
        let bytes = noise(n, 30_000);
        let Ok((hash, _)) = store.put_blob(&bytes) else { break };
        let before = state(Kind::File, 30_000, Content::Blob(hash));
        let made = vec![change(ChangeKind::Write, "f", 1, Some(before), Some(super::ground::file(1)))];
        let op = store.next_op();
        if store.append(&super::ground::operation(op, made)).is_err() {
            break;
        }
        kept.push(hash);
    }
    // The index is a moment behind at most, for which there is the reserve; here it is small, so it is not counted on.
    store.stats().expect("the index has seen all");
    let filler = std::fs::File::create(ground.dir().join("filler")).expect("made");
    for size in [65_536, 512] {
        while std::io::Write::write_all(&mut &filler, &vec![1; size]).is_ok() {}
    }
    assert!(kept.len() > 200, "{}", kept.len());
    store.retain(Retention { bytes: Some(4 << 20), ..Retention::default() }).expect("set");
    store.keeping.told_long_ago(&store);
    let report = store.collect(Aim::Space { target: 4 << 20, all: true }, false).expect("collected");
    assert!(report.contents > 100 && report.used.1 < 6 << 20, "{report:?}");
    super::ground::append(&store, vec![super::ground::create("new", 9, 1)]);
    store.put_blob(&noise(99_999, 30_000)).expect("there is room");
    assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
    drop(store);
    assert_eq!(ground.open().verify().expect("checked").damage, Vec::<String>::new());
}
