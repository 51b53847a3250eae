//! What a start finds unfinished, and what is known of inodes by then.

use super::ground::{Ground, actor, append, change, create, file, key, operation, path, state, write};
use crate::{
    types::{Hash, Kind, NodeId, OpId, SourceId, Timestamp},
    versions::{ChangeKind, Content, Loss, OpenMark, State, Store, StoreError},
};

fn mark(store: &Store, node: u64) -> OpenMark {
    OpenMark {
        op: store.next_op(),
        actor: actor(),
        time: Timestamp { secs: 1, nanos: 2 },
        source: SourceId(1),
        path: path("f"),
        node: NodeId(node),
        key: key(node),
        before: file(3),
    }
}

#[test]
fn what_was_not_finished_is_told_at_each_start() {
    let ground = Ground::new();
    let (intent, open) = {
        let store = ground.open();
        let mut intents = Vec::new();
        for n in 1..=4 {
            let mut made = operation(store.next_op(), vec![create(&format!("f{n}"), n, 1)]);
            made.intent = true;
            made.changes[0].staged = Some(format!("staged{n}"));
            store.append(&made).expect("appended");
            std::fs::write(ground.store().join(format!("tmp/staged{n}")), b"x").expect("staged");
            intents.push(made);
        }
        store.applied(OpId(1)).expect("done");
        store.aborted(OpId(2)).expect("taken back");
        // Recorded as it came out, with nothing more to do.
        intents[2].intent = false;
        store.append(&intents[2]).expect("amended");
        let (closed, open) = (mark(&store, 10), mark(&store, 11));
        store.opened(&closed).expect("appended");
        store.opened(&open).expect("appended");
        store.closed(closed.op).expect("closed");
        let named = store.aside_name(NodeId(40)).to_string();
        for name in [named.as_str(), "77-abc-1", "foreign"] {
            std::fs::write(ground.store().join("aside").join(name), b"x").expect("written");
        }
        let gone = state(Kind::File, 1, Content::Aside(named));
        append(&store, vec![change(ChangeKind::Remove, "g", 40, Some(gone), None)]);
        (intents[3].clone(), open)
    };
    for round in 0..3 {
        if round == 1 {
            ground.without_index();
        }
        let store = ground.open();
        let recovered = store.recovered();
        assert_eq!(recovered.intents, std::slice::from_ref(&intent));
        assert_eq!(recovered.open, std::slice::from_ref(&open));
        let mut orphans: Vec<_> = recovered.orphans.iter().map(ToString::to_string).collect();
        orphans.sort();
        assert_eq!(orphans, ["77-abc-1", "foreign"]);
        let staged: Vec<_> = std::fs::read_dir(ground.store().join("tmp"))
            .expect("there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(staged, ["staged4"], "what an unfinished operation needs stays");
        assert!(store.next_node().0 > 77, "a number that only a file aside tells is given");
    }
    let store = ground.open();
    store.applied(intent.op).expect("done");
    store.closed(open.op).expect("closed");
    drop(store);
    let store = ground.open();
    assert!(store.recovered().intents.is_empty() && store.recovered().open.is_empty());
}

#[test]
fn heads_are_what_was_appended_last() {
    let ground = Ground::new();
    let store = ground.open();
    let head = |store: &Store, node: u64| store.head(&key(node)).expect("answered");
    let known = |node: u64, size: u64| Some((NodeId(node), Some(file(size))));
    assert_eq!(head(&store, 1), None);
    let late = store.next_op();
    append(&store, vec![create("a", 1, 1)]);
    assert_eq!(head(&store, 1), known(1, 1));
    // Numbered before, appended after: an open file that is sealed.
    store.append(&operation(late, vec![write("a", 1, 1, 2)])).expect("appended");
    assert_eq!(head(&store, 1), known(1, 2));
    // Without its key: the log has bound it.
    let mut outside = write("a", 1, 2, 3);
    outside.key = None;
    append(&store, vec![outside]);
    assert_eq!(head(&store, 1), known(1, 3));
    // Taken back: as before.
    let mut intent = operation(store.next_op(), vec![write("a", 1, 3, 4), create("b", 2, 1)]);
    intent.intent = true;
    store.append(&intent).expect("appended");
    assert_eq!((head(&store, 1), head(&store, 2)), (known(1, 4), known(2, 1)));
    store.aborted(intent.op).expect("taken back");
    assert_eq!((head(&store, 1), head(&store, 2)), (known(1, 3), Some((NodeId(2), None))));
    // Amended without one of its nodes.
    let both = append(&store, vec![write("a", 1, 3, 5), create("c", 3, 1)]);
    store.append(&operation(both, vec![create("c", 3, 2)])).expect("amended");
    assert_eq!((head(&store, 1), head(&store, 3)), (known(1, 3), known(3, 2)));
    // Settled: only what the operation said last.
    let blob = Content::Blob(Hash([4; 32]));
    store.settled(OpId(1), NodeId(1), &Content::Blob(Hash([5; 32]))).expect("appended");
    assert_eq!(head(&store, 1), known(1, 3), "an older state went there");
    store.settled(both, NodeId(3), &blob).expect("appended");
    let settled = Some((NodeId(3), Some(State { content: blob, ..file(2) })));
    assert_eq!(head(&store, 3), settled);
    append(&store, vec![change(ChangeKind::Remove, "a", 1, Some(file(3)), None)]);
    assert_eq!(head(&store, 1), Some((NodeId(1), None)));
    // A mark binds an inode that no operation touched.
    store.opened(&mark(&store, 8)).expect("appended");
    assert_eq!(head(&store, 8), Some((NodeId(8), None)));
    let said: Vec<_> = (1..=8).map(|node| head(&store, node)).collect();
    drop(store);
    for _ in 0..2 {
        let store = ground.open();
        assert_eq!((1..=8).map(|node| head(&store, node)).collect::<Vec<_>>(), said);
        drop(store);
        ground.without_index();
    }
}

#[test]
fn live_contents_are_followed_to_where_they_went() {
    let ground = Ground::new();
    let store = ground.open();
    let blob = |n: u8| Content::Blob(Hash([n; 32]));
    let with = |size: u64, content: Content| Some(state(Kind::File, size, content));
    let live = || Content::Live(None);
    let of = |op: OpId| store.content_of(NodeId(1), op).expect("answered");
    let made = append(&store, vec![create("a", 1, 1)]);
    assert_eq!(of(made), live(), "the served file has it");
    let meta = append(&store, vec![change(ChangeKind::Meta, "a", 1, with(1, live()), with(1, live()))]);
    assert_eq!(of(made), live());
    store.settled(meta, NodeId(1), &blob(1)).expect("appended");
    assert_eq!((of(made), of(meta)), (blob(1), blob(1)), "it left the content alone");
    let written = append(&store, vec![change(ChangeKind::Write, "a", 1, with(1, blob(1)), with(2, live()))]);
    let mut moved = change(ChangeKind::Rename, "b", 1, with(2, live()), with(2, live()));
    moved.from = Some(path("a"));
    let moved = append(&store, vec![moved]);
    assert_eq!((of(made), of(written), of(moved)), (blob(1), live(), live()));
    for _ in 0..200 {
        append(&store, vec![change(ChangeKind::Meta, "b", 1, with(2, live()), with(2, live()))]);
    }
    let aside = Content::Aside("1-2-3".into());
    append(&store, vec![change(ChangeKind::Remove, "b", 1, with(2, aside.clone()), None)]);
    assert_eq!((of(written), of(moved)), (aside.clone(), aside));
    // Written over, and nobody kept it: never what came after.
    let other = |op| store.content_of(NodeId(2), op).expect("answered");
    let lost = append(&store, vec![create("c", 2, 1)]);
    let after = append(&store, vec![change(ChangeKind::Write, "c", 2, with(1, live()), with(2, live()))]);
    assert_eq!((other(lost), other(after)), (Content::Lost(Loss::External), live()));
}

#[test]
fn a_file_aside_with_a_known_hash_is_verified() {
    let ground = Ground::new();
    let store = ground.open();
    let aside = |name: &str| Content::Aside(name.to_owned());
    for (node, name, is, said) in
        [(1, "1-0-1", "good", Some("good")), (2, "2-0-2", "bad", Some("good")), (3, "3-0-3", "any", None)]
    {
        let known = state(Kind::File, 4, Content::Live(said.map(|said| Hash::of(said.as_bytes()))));
        append(&store, vec![change(ChangeKind::Create, name, node, None, Some(known))]);
        std::fs::write(ground.store().join("aside").join(name), is).expect("written");
        let gone = state(Kind::File, 4, aside(name));
        append(&store, vec![change(ChangeKind::Remove, name, node, Some(gone), None)]);
    }
    assert_eq!(store.read_all(&aside("1-0-1"), 4).expect("it has its hash"), b"good");
    assert!(matches!(store.read_all(&aside("2-0-2"), 4), Err(StoreError::Corrupt(_))));
    assert_eq!(store.read_all(&aside("3-0-3"), 4).expect("no hash is known"), b"any");
    let over = store.read_all(&aside("3-0-3"), 2).expect_err("too large");
    assert_eq!(over.errno(), rustix::io::Errno::FBIG);
    let gone = store.read_all(&aside("4-0-4"), 2).expect_err("not there");
    assert_eq!(gone.errno(), rustix::io::Errno::NOENT);
}

#[test]
fn numbers_of_what_was_taken_back_are_not_given_again() {
    let ground = Ground::new();
    let store = ground.open();
    let (op, node) = (store.next_op(), store.next_node());
    store.append(&operation(op, vec![create("a", node.0, 1)])).expect("appended");
    store.aborted(op).expect("taken back");
    assert_eq!(store.operation(op).expect("answered"), None);
    drop(store);
    for _ in 0..2 {
        let store = ground.open();
        assert!(store.next_op() > op && store.next_node() > node);
        drop(store);
        ground.without_index();
    }
}
