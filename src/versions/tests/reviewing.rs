//! Review: what is pending is never dropped; what is accepted goes as anything else; and all of it is in the log.

use super::{
    dropping::{ago, noise},
    ground::{Ground, answers, change, state},
};
use crate::{
    types::{Hash, Kind, NodeId, OpId, SourceId, Timestamp},
    versions::{
        ChangeKind, Content, GcReport, Mark, PathAt, Retention, Review, ReviewStep, State, Store, Whose, gc::Aim,
    },
};

const YEAR: i64 = 365 * 24 * 3600;

fn step(store: &Store, step: ReviewStep, whose: &Whose, nodes: Option<&[u64]>, upto: Mark) {
    let nodes = nodes.map(|nodes| nodes.iter().copied().map(NodeId).collect());
    let (view, whose, time) = ("v".to_owned(), whose.clone(), Timestamp::now());
    store.review(&Review { view, step, whose, nodes, upto, content: None, time }).expect("recorded");
}

/// Takes away whatever no rule keeps.
fn collected(store: &Store) -> GcReport {
    store.retain(Retention { full: std::time::Duration::ZERO, ..Retention::default() }).expect("chosen");
    store.keeping.told_long_ago(store);
    store.collect(Aim::Space { target: 0, all: true }, false).expect("collected")
}

/// Versions of a file, each of its own noise and session.
fn write(store: &Store, path: &str, node: u64, sessions: &[&str]) -> Vec<OpId> {
    let mut last: Option<State> = None;
    let mut made = Vec::new();
    for (at, by) in sessions.iter().enumerate() {
        let (hash, _) = store.put_blob(&noise(node * 100 + at as u64, 3000)).expect("kept");
        let after = state(Kind::File, 3000, Content::Blob(hash));
        let kind = if last.is_none() { ChangeKind::Create } else { ChangeKind::Write };
        let changes = vec![change(kind, path, node, last.take(), Some(after.clone()))];
        made.push(ago(store, YEAR - at as i64, by, changes));
        last = Some(after);
    }
    made
}

/// Is the content of a path after an operation there?
fn is_there(store: &Store, path: &str, op: OpId) -> bool {
    match store.path_at(SourceId(1), &super::ground::path(path), op).expect("answered") {
        PathAt::Was { state, .. } => store.read_all(&state.content, 1 << 20).is_ok(),
        PathAt::Now(_) | PathAt::Absent => false,
    }
}

fn which(store: &Store, path: &str, ops: &[OpId]) -> Vec<bool> {
    ops.iter().map(|op| is_there(store, path, *op)).collect()
}

#[test]
fn a_base_and_each_turn_from_one_to_another_outlive_age_and_quota() {
    let ground = Ground::new();
    let store = ground.open();
    let old = write(&store, "f", 1, &["a", "a"]);
    step(&store, ReviewStep::Begins, &Whose::All, None, store.now());
    let mut last = old.clone();
    // The base is the second version: a writes twice, b twice, and it is removed at last by a.
    for (at, by) in ["a", "a", "b", "b", "a"].iter().enumerate() {
        let before = state(Kind::File, 3000, Content::Blob(Hash::of(&noise(100 + at as u64 + 1, 3000))));
        store.put_blob(&noise(100 + at as u64 + 2, 3000)).expect("kept");
        let after = state(Kind::File, 3000, Content::Blob(Hash::of(&noise(100 + at as u64 + 2, 3000))));
        last.push(ago(&store, YEAR - 10, by, vec![change(ChangeKind::Write, "f", 1, Some(before), Some(after))]));
    }
    for number in 0..40 {
        write(&store, &format!("other{number}"), 100 + number, &["x"]);
    }
    // What comes after it is somebody else's, by another view.
    step(&store, ReviewStep::Accepted, &Whose::Session("x".into()), None, store.now());
    let told = collected(&store);
    assert_eq!(told.unreviewed.since, [("v".to_owned(), last[2])]);
    assert_eq!(told.unreviewed.contents, 4, "the base, the ends of three runs: {told:?}");
    // The first operation is forgotten by now.
    assert_eq!(which(&store, "f", &last[1..6]), [true, false, true, false, true]);
    assert!(store.horizon().expect("answered").is_none_or(|(op, _)| op < last[2]), "its operations are there");
    // Once it is accepted, nothing of it is special.
    step(&store, ReviewStep::Accepted, &Whose::All, None, store.now());
    let told = collected(&store);
    assert_eq!((told.unreviewed.contents, told.unreviewed.since.len()), (0, 0));
    assert!(!which(&store, "f", &last[1..6]).contains(&true));
    assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
}

#[test]
fn what_is_accepted_of_a_file_in_part_is_kept_until_more_is() {
    let ground = Ground::new();
    let store = ground.open();
    step(&store, ReviewStep::Begins, &Whose::All, None, store.now());
    write(&store, "f", 1, &["a", "a"]);
    let (a, part) = (Whose::Session("a".into()), noise(7, 2000));
    let (hash, _) = store.put_blob(&part).expect("kept");
    let upto = store.reviewed("v").expect("answered").base(&a, NodeId(1));
    let review = Review {
        view: "v".into(),
        step: ReviewStep::Accepted,
        whose: a.clone(),
        nodes: Some(vec![NodeId(1)]),
        upto,
        content: Some(hash),
        time: Timestamp::now(),
    };
    store.review(&review).expect("recorded");
    collected(&store);
    assert_eq!(store.read_all(&Content::Blob(hash), 1 << 20).expect("it is there"), part);
    assert_eq!(store.reviewed("v").expect("answered").content(&a, NodeId(1)), Some(hash));
    step(&store, ReviewStep::Accepted, &a, Some(&[1]), store.now());
    collected(&store);
    assert!(store.read_all(&Content::Blob(hash), 1 << 20).is_err(), "nothing refers to it any more");
    assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
}

#[test]
fn it_is_the_same_from_the_log_alone_however_that_was_packed() {
    let ground = Ground::new();
    let before = {
        let store = ground.open();
        let (a, b) = (Whose::Session("a".into()), Whose::Session("b".into()));
        // Small segments, of which little is needed for long.
        store.retain(Retention { bytes: Some(1 << 20), ..Retention::default() }).expect("chosen");
        for round in 0..30 {
            store.put_blob(&noise(9000 + round, 60_000)).expect("kept");
            step(&store, ReviewStep::Begins, &Whose::All, None, store.now());
            let ops = write(&store, &format!("f{round}"), round + 1, &["a", "b", "a"]);
            step(&store, ReviewStep::Rejected, &a, Some(&[round + 1]), Mark { op: ops[2], ..store.now() });
            step(&store, ReviewStep::Accepted, &b, Some(&[round, round + 1]), store.now());
            if round % 3 == 0 {
                step(&store, ReviewStep::Ends, &Whose::All, None, store.now());
            }
            if round == 7 {
                step(&store, ReviewStep::Accepted, &Whose::All, None, store.now());
            }
            store.sync_all().expect("flushed");
        }
        let packed: u64 = (0..3).map(|_| collected(&store).segments).sum();
        assert!(packed > 2, "{packed} segments were packed");
        let reviewed = store.reviewed("v").expect("answered");
        assert!(reviewed.is_any());
        store.close().expect("closed");
        reviewed
    };
    for without in [false, true] {
        if without {
            ground.without_index();
        }
        let store = ground.open();
        assert_eq!(store.reviewed("v").expect("answered"), before, "without the index: {without}");
        assert_eq!(store.verify().expect("checked").damage, Vec::<String>::new());
        answers(&store).expect("answered");
        store.close().expect("closed");
    }
}
