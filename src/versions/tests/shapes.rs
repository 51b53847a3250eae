//! Every record comes back as it was given, over any restart.

use proptest::{collection::vec, option, prelude::*, strategy::ValueTree};

use crate::{
    types::{Actor, Channel, Hash, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath},
    versions::{
        Change, ChangeKind, Checkpoint, Content, Loss, NodeKey, OpKind, OpenMark, Operation, Replay, Rule, State, Trim,
        codec, tests::ground::Ground,
    },
};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash)
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

fn path() -> impl Strategy<Value = ViewPath> {
    vec(vec(prop_oneof![Just(0xffu8), Just(b'\n'), b'a'..=b'z'], 1..9), 0..4)
        .prop_map(|parts| ViewPath::parse(&parts.join(&b'/')).expect("made of names"))
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::File,
        Kind::Dir,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharDevice,
        Kind::BlockDevice,
    ])
}

fn loss() -> impl Strategy<Value = Loss> {
    prop::sample::select(vec![
        Loss::Policy,
        Loss::Size,
        Loss::Mmap,
        Loss::External,
        Loss::Unstable,
        Loss::Coalesced,
        Loss::NoSpace,
        Loss::Transient,
        Loss::Trimmed(Trim { time: Timestamp { secs: 9, nanos: 1 }, rule: Rule::Quota }),
    ])
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        Just(Content::None),
        bytes().prop_map(Content::Target),
        hash().prop_map(Content::Blob),
        "[0-9a-f-]{1,30}".prop_map(Content::Aside),
        option::of(hash()).prop_map(Content::Live),
        loss().prop_map(Content::Lost),
    ]
}

pub fn actor() -> impl Strategy<Value = Actor> {
    let channel =
        prop::sample::select(vec![Channel::Fuse, Channel::Tool, Channel::External, Channel::Revert, Channel::Recovery]);
    let text = || option::of(".{0,20}");
    (channel, any::<Option<u32>>(), any::<Option<u32>>(), text(), text(), text())
        .prop_map(|(channel, uid, pid, command, session, view)| Actor { channel, uid, pid, command, session, view })
}

fn state() -> impl Strategy<Value = State> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>());
    (kind(), numbers, time(), time(), vec((bytes(), bytes()), 0..3), content()).prop_map(
        |(kind, (mode, uid, gid, rdev, size, nlink), mtime, ctime, xattrs, content)| State {
            kind,
            mode,
            uid,
            gid,
            rdev,
            size,
            nlink,
            mtime,
            ctime,
            xattrs,
            content,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let kind = prop::sample::select(vec![
        ChangeKind::Create,
        ChangeKind::Write,
        ChangeKind::Meta,
        ChangeKind::Remove,
        ChangeKind::Rename,
        ChangeKind::Exchange,
        ChangeKind::Link,
    ]);
    let node = (1u64..1 << 62, option::of(bytes().prop_map(|key| NodeKey(key.into()))));
    let rest = (option::of("[a-z]{1,9}"), any::<bool>(), option::of(loss()));
    (1u32..9, path(), kind, option::of(path()), node, option::of(state()), option::of(state()), rest).prop_map(
        |(source, path, kind, from, (node, key), before, after, (staged, coalesced, unversioned))| Change {
            source: SourceId(source),
            path,
            kind,
            from,
            node: NodeId(node),
            key,
            before,
            after,
            staged,
            coalesced,
            unversioned,
        },
    )
}

pub fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop::sample::select(vec![
        OpKind::Write,
        OpKind::Create,
        OpKind::Remove,
        OpKind::Rename,
        OpKind::Link,
        OpKind::Meta,
        OpKind::Edit,
        OpKind::Revert,
        OpKind::External,
        OpKind::Recovered,
    ]);
    let words = (option::of(".{0,20}"), option::of(hash()), option::of(".{0,20}"), vec(any::<u64>(), 0..3));
    (1u64..1 << 62, time(), actor(), kind, vec(change(), 0..4), words, any::<bool>()).prop_map(
        |(op, time, actor, kind, changes, (operation_id, request, note, undoes), intent)| Operation {
            op: OpId(op),
            time,
            actor,
            kind,
            changes,
            operation_id,
            request,
            note,
            undoes: undoes.into_iter().map(OpId).collect(),
            intent,
        },
    )
}

pub fn open_mark() -> impl Strategy<Value = OpenMark> {
    (1u64..1 << 62, actor(), time(), path(), 1u64..1 << 62, bytes(), state()).prop_map(
        |(op, actor, time, path, node, key, before)| OpenMark {
            op: OpId(op),
            actor,
            time,
            source: SourceId(3),
            path,
            node: NodeId(node),
            key: NodeKey(key.into()),
            before,
        },
    )
}

proptest! {
    #[test]
    fn records_come_back_as_they_were_given(
        operation in operation(),
        mark in open_mark(),
        content in content(),
        response in option::of(".{0,20}"),
        root in bytes(),
    ) {
        let known = operation.actor.clone();
        let actor = |number: u32| { assert_eq!(number, 5); Ok(known.clone()) };
        let back = codec::operation_of(&codec::operation(&operation, 5), actor).expect("readable");
        prop_assert_eq!(&back, &operation);
        let actor = |_| Ok(mark.actor.clone());
        prop_assert_eq!(&codec::open_mark_of(&codec::open_mark(&mark, 5), actor).expect("readable"), &mark);
        prop_assert_eq!(codec::actor_of(&codec::actor(9, &mark.actor)).expect("readable"), (9, mark.actor.clone()));
        let point = Checkpoint {
            name: "p".into(), note: response.clone(), op: operation.op, time: operation.time, actor: mark.actor.clone(),
        };
        let actor = |_| Ok(mark.actor.clone());
        prop_assert_eq!(&codec::checkpoint_of(&codec::checkpoint(&point, 5), actor).expect("readable"), &point);
        let replay = Replay { op: operation.undoes.first().copied(), request: Hash([1; 32]), response };
        let answer = codec::answer_of(&codec::answer("v", "i", &replay)).expect("readable");
        prop_assert_eq!(answer, ("v".to_owned(), "i".to_owned(), replay));
        let settled = codec::settled_of(&codec::settled(OpId(1), NodeId(2), &content)).expect("readable");
        prop_assert_eq!(settled, (OpId(1), NodeId(2), content));
        let key = NodeKey(root.clone().into());
        let source = codec::source_of(&codec::source(SourceId(4), &key, &root)).expect("readable");
        prop_assert_eq!(source, (SourceId(4), key, root));
        prop_assert_eq!(codec::number_of(&codec::number(operation.op)).expect("readable"), operation.op);
    }

    #[test]
    fn any_bytes_as_a_payload_are_an_answer_or_an_error(payload in vec(any::<u8>(), 0..200)) {
        let nobody = |_| Ok(Actor::of(Channel::Fuse));
        let _ = codec::operation_of(&payload, nobody);
        let _ = codec::open_mark_of(&payload, nobody);
        let _ = codec::checkpoint_of(&payload, nobody);
        let _ = (codec::actor_of(&payload), codec::answer_of(&payload), codec::source_of(&payload));
        let _ = (codec::settled_of(&payload), codec::number_of(&payload));
    }
}

#[test]
fn operations_and_marks_survive_restarts_with_and_without_an_index() {
    let ground = Ground::in_memory();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut made = |n: u64| {
        let mut operation = operation().new_tree(&mut runner).expect("a value").current();
        operation.op = OpId(n);
        operation
    };
    let operations: Vec<_> = (1..=60).map(&mut made).collect();
    let mark = open_mark().new_tree(&mut proptest::test_runner::TestRunner::deterministic()).expect("one").current();
    let contents: Vec<Vec<u8>> = vec![b"".to_vec(), b"abc".to_vec(), vec![b'x'; 100_000]];
    {
        let store = ground.open();
        for operation in &operations {
            store.append(operation).expect("appended");
        }
        store.opened(&mark).expect("appended");
        for content in &contents {
            store.put_blob(content).expect("kept");
        }
    }
    for round in 0..3 {
        if round == 1 {
            ground.without_index();
        }
        let store = ground.open();
        for operation in &operations {
            assert_eq!(store.operation(operation.op).expect("readable").as_ref(), Some(operation));
        }
        assert_eq!(store.recovered().open, std::slice::from_ref(&mark));
        let intents: Vec<_> = operations.iter().filter(|operation| operation.intent).cloned().collect();
        assert_eq!(store.recovered().intents, intents);
        for content in &contents {
            let read = store.read_all(&Content::Blob(Hash::of(content)), 1 << 20).expect("kept");
            assert_eq!(&read, content);
        }
        assert!(store.next_op() > mark.op, "a number that a mark has is given");
        assert!(store.next_node() > mark.node);
        assert_eq!(store.recovered().notes, Vec::<String>::new());
    }
}
