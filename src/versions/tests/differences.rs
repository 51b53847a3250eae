//! Old versions kept as differences: small, and as they were.

use super::{
    dropping::ago,
    ground::{Ground, change, key, state},
};
use crate::{
    types::{Hash, Kind, NodeId, SourceId, Timestamp},
    versions::{ChangeKind, Content, OpenMark, State, Store},
};

/// 16 KiB that look like source text, with one line that was edited so often.
fn source(edits: u64) -> Vec<u8> {
    let line = |n: u64| {
        let word = Hash::of(&n.to_le_bytes()).hex();
        format!("    let {}_{n} = self.{}(&{}, {n})?;\n", &word[..5], &word[6..11], &word[12..18])
    };
    let mut text: Vec<u8> = (0..330).flat_map(|n| line(n).into_bytes()).collect();
    for edit in 0..edits {
        let at = usize::try_from((edit * 7919) % 300).expect("small") * 40;
        text.splice(at..at, format!("    // edit {edit}\n").into_bytes());
    }
    text.truncate(16 << 10);
    text
}

/// What a shell's edit of a file appends: its mark, its operation, its content and where that went.
fn edit(store: &Store, n: u64, last: &mut State) -> Hash {
    let op = store.next_op();
    let mark = OpenMark {
        op,
        actor: super::ground::actor(),
        time: Timestamp::now(),
        source: SourceId(1),
        path: super::ground::path("src/main.rs"),
        node: NodeId(1),
        key: key(1),
        before: last.clone(),
    };
    store.opened(&mark).expect("marked");
    let bytes = source(n);
    let after = state(Kind::File, bytes.len() as u64, Content::Live(None));
    let mut made = super::ground::operation(
        op,
        vec![change(ChangeKind::Write, "src/main.rs", 1, Some(last.clone()), Some(after.clone()))],
    );
    made.time = Timestamp::now();
    store.append(&made).expect("appended");
    store.closed(op).expect("closed");
    let (hash, _) = store.put_blob(&bytes).expect("kept");
    store.settled(op, NodeId(1), &Content::Blob(hash)).expect("settled");
    *last = State { content: Content::Blob(hash), ..after };
    hash
}

#[test]
fn an_edit_of_one_line_costs_less_than_a_kibibyte() {
    let ground = Ground::new();
    let store = ground.open();
    let (hash, _) = store.put_blob(&source(0)).expect("kept");
    let mut last = state(Kind::File, 16 << 10, Content::Blob(hash));
    ago(&store, 1, "a", vec![change(ChangeKind::Create, "src/main.rs", 1, None, Some(last.clone()))]);
    let mut hashes = vec![hash];
    let edits = 400;
    for n in 1..=edits {
        hashes.push(edit(&store, n, &mut last));
    }
    let before = store.log.size();
    drop(store);
    let store = ground.open();
    store.keeping.told_long_ago(&store);
    let report = store.gc(false).expect("collected");
    let after = store.log.size();
    assert!(report.deltas > edits * 9 / 10, "{report:?}");
    assert!(after / edits < 1024, "{} bytes an edit, {} before: {report:?}", after / edits, before / edits);
    let check = |store: &Store| {
        for (n, hash) in hashes.iter().enumerate() {
            let bytes = store.read_all(&Content::Blob(*hash), 1 << 20).unwrap_or_else(|e| panic!("version {n}: {e}"));
            assert_eq!(bytes, source(n as u64), "version {n}");
        }
        assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
    };
    check(&store);
    // The newest is whole.
    let newest = store.blobs.find(hashes.last().expect("some"), &store.log).expect("found").expect("there");
    assert_ne!(store.log.read(newest).expect("read").flags, 2);
    // A second time there is nothing left to do.
    assert_eq!(store.gc(false).expect("collected").deltas, 0);
    drop(store);
    check(&ground.open());
    check(&ground.without_index().open());
}

#[test]
fn what_others_are_the_difference_to_stays_as_long_as_they_do() {
    let ground = Ground::new();
    let store = ground.open();
    let all: Vec<State> = (0..6)
        .map(|n| {
            let bytes = source(n);
            state(Kind::File, bytes.len() as u64, Content::Blob(store.put_blob(&bytes).expect("kept").0))
        })
        .collect();
    // A checkpoint holds the second; those after it, to which it becomes a difference, go by age of themselves.
    let mut ops = vec![ago(&store, 1, "a", vec![change(ChangeKind::Create, "f", 1, None, Some(all[0].clone()))])];
    for n in 1..6 {
        let made = vec![change(ChangeKind::Write, "f", 1, Some(all[n - 1].clone()), Some(all[n].clone()))];
        ops.push(ago(&store, 1, "a", made));
        if n == 1 {
            store.checkpoint("held", None, &super::ground::actor()).expect("set");
        }
    }
    drop(store);
    let store = ground.open();
    assert_eq!(store.gc(false).expect("collected").deltas, 5);
    let nothing = std::time::Duration::ZERO;
    store
        .retain(crate::versions::Retention { full: nothing, sessions: nothing, age: nothing, ..Default::default() })
        .expect("set");
    store.collect(super::super::gc::Aim::Rules, false).expect("collected");
    let read = |n: usize| store.read_all(&all[n].content, 1 << 20);
    assert_eq!(read(1).expect("it is held"), source(1));
    assert!(read(0).is_err(), "nothing holds the first");
    assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
    drop(store);
    assert_eq!(ground.without_index().open().verify().expect("checked").damage, Vec::<String>::new());
}
