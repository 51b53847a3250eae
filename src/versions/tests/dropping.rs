//! Dropping history: what is kept is as it was, what is gone says so, and space comes back.

use std::time::Duration;

use super::ground::{Ground, actor, change, operation, state};
use crate::{
    types::{Actor, Hash, Kind, OpId, SourceId, Timestamp},
    versions::{
        Change, ChangeKind, Content, GcReport, Loss, Operation, PathAt, Retention, Rule, State, Store, StoreError,
        gc::Aim,
    },
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Noise that does not compress, the same for the same number.
pub fn noise(number: u64, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 32);
    let mut block = Hash::of(&number.to_le_bytes());
    while bytes.len() < size {
        bytes.extend_from_slice(&block.0);
        block = Hash::of(&block.0);
    }
    bytes.truncate(size);
    bytes
}

fn kept(store: &Store, bytes: &[u8]) -> State {
    let (hash, _) = store.put_blob(bytes).expect("kept");
    state(Kind::File, bytes.len() as u64, Content::Blob(hash))
}

/// An operation of so many seconds ago.
pub fn ago(store: &Store, seconds: i64, by: &str, changes: Vec<Change>) -> OpId {
    let op = store.next_op();
    let mut now = Timestamp::now();
    now.secs -= seconds;
    let actor = Actor { session: Some(by.to_owned()), ..actor() };
    store.append(&Operation { time: now, actor, ..operation(op, changes) }).expect("appended");
    op
}

/// Writes version after version of one file: each is so many seconds old, by a session, and of its own content.
fn versions(store: &Store, path: &str, node: u64, all: &[(i64, &str)]) -> Vec<(OpId, Vec<u8>)> {
    let mut last: Option<State> = None;
    let mut made = Vec::new();
    for (at, (age, by)) in all.iter().enumerate() {
        let bytes = noise(node * 1000 + at as u64, 3000);
        let after = kept(store, &bytes);
        let kind = if last.is_none() { ChangeKind::Create } else { ChangeKind::Write };
        let op = ago(store, *age, by, vec![change(kind, path, node, last.take(), Some(after.clone()))]);
        last = Some(after);
        made.push((op, bytes));
    }
    made
}

/// Collects as if some time had gone by since anything was stored.
fn collected(store: &Store) -> GcReport {
    store.keeping.told_long_ago(store);
    store.gc(false).expect("collected")
}

/// The content of a path after an operation, or why it is gone.
fn content(store: &Store, path: &str, at: OpId) -> Result<Hash, Loss> {
    let path = super::ground::path(path);
    let found = match store.path_at(SourceId(1), &path, at).expect("answered") {
        PathAt::Was { state, .. } => state.content,
        PathAt::Now(_) | PathAt::Absent => panic!("{path} after {at}: no old state"),
    };
    match store.read_all(&found, 1 << 20) {
        Ok(bytes) => Ok(Hash::of(&bytes)),
        Err(StoreError::Unavailable(loss)) => Err(loss),
        Err(error) => panic!("{path} after {at}: {error}"),
    }
}

fn rule_of(found: &Result<Hash, Loss>) -> Option<Rule> {
    match found {
        Ok(_) => None,
        Err(Loss::Trimmed(trim)) => {
            assert!(trim.time.secs > Timestamp::now().secs - HOUR, "{trim}");
            Some(trim.rule)
        }
        Err(other) => panic!("{other}"),
    }
}

/// All but the last version, each by the rule that dropped it.
fn check(store: &Store, path: &str, made: &[(OpId, Vec<u8>)], expected: &[Option<Rule>]) {
    for (at, ((op, bytes), expected)) in made.iter().zip(expected).enumerate() {
        let found = content(store, path, *op);
        assert_eq!(rule_of(&found), *expected, "version {at} of {path}");
        if let Ok(found) = found {
            assert_eq!(found, Hash::of(bytes), "version {at} of {path}");
        }
    }
}

#[test]
fn each_rule_drops_what_it_says_and_rows_tell_which() {
    let ground = Ground::new();
    let store = ground.open();
    let (day, some, old) = (DAY + HOUR, 8 * DAY, 31 * DAY);
    let aged = versions(&store, "aged", 4, &[(old + 9, "a"), (old + 8, "b"), (old, "b")]);
    let recent = versions(&store, "recent", 1, &[(5 * HOUR, "a"), (4 * HOUR, "a"), (3 * HOUR, "a"), (2 * HOUR, "b")]);
    // Superseded more than a day ago: the first and the last of each session.
    let thinned =
        versions(&store, "thinned", 2, &[(day + 5, "a"), (day + 4, "a"), (day + 3, "a"), (day + 2, "b"), (day, "b")]);
    // More than a week ago: the last of each.
    let last =
        versions(&store, "last", 3, &[(some + 5, "a"), (some + 4, "a"), (some + 3, "a"), (some + 2, "b"), (some, "c")]);
    let short = versions(&store, "x/target/y", 5, &[(day + 2, "a"), (day + 1, "a"), (2, "a"), (1, "a")]);
    let report = store.gc(true).expect("a dry run");
    let told = |rule| report.versions.iter().find(|(r, _)| *r == rule).map_or(0, |(_, n)| *n);
    assert_eq!((told(Rule::Thinned), told(Rule::Age), told(Rule::Short)), (3, 2, 1), "{report:?}");
    check(&store, "thinned", &thinned, &[None; 4]);
    collected(&store);
    let check_all = |store: &Store| {
        let gone = Some;
        check(store, "recent", &recent, &[None; 3]);
        check(store, "thinned", &thinned, &[None, gone(Rule::Thinned), None, None]);
        check(store, "last", &last, &[gone(Rule::Thinned), gone(Rule::Thinned), None, None]);
        check(store, "x/target/y", &short, &[gone(Rule::Short), None, None]);
    };
    check_all(&store);
    // Operations that are too old are forgotten with their rows, and the history says how far.
    let (horizon, trim) = store.horizon().expect("answered").expect("something was forgotten");
    assert_eq!((horizon, trim.rule), (aged[2].0, Rule::Age));
    assert!(aged.iter().all(|(op, _)| store.operation(*op).expect("answered").is_none()));
    drop(store);
    check_all(&ground.open());
    check_all(&ground.without_index().open());
}

#[test]
fn what_a_checkpoint_and_an_open_file_need_stays() {
    let ground = Ground::new();
    let store = ground.open();
    let old = 40 * DAY;
    let made = versions(&store, "f", 1, &[(old + 3, "a"), (old + 2, "a")]);
    store.checkpoint("mine", None, &actor()).expect("set");
    let more = versions(&store, "g", 2, &[(old, "a"), (old, "a"), (1, "a")]);
    let last = kept(&store, &noise(77, 3000));
    let before = kept(&store, &made[1].1);
    ago(&store, 1, "a", vec![change(ChangeKind::Write, "f", 1, Some(before), Some(last.clone()))]);
    collected(&store);
    assert_eq!(content(&store, "f", made[1].0), Ok(Hash::of(&made[1].1)), "as it was at the checkpoint");
    assert_eq!(store.find_checkpoint("mine").expect("answered").map(|c| c.op), Some(made[1].0));
    assert!(store.horizon().expect("answered").is_none_or(|(op, _)| op <= made[1].0));
    assert_eq!(content(&store, "g", more[1].0), Ok(Hash::of(&more[1].1)), "superseded just now");
}

#[test]
fn a_content_that_goes_gives_its_space_back_and_may_come_again() {
    let ground = Ground::new();
    let store = ground.open();
    let mut last: Option<State> = None;
    let mut ops = Vec::new();
    for n in 0..200 {
        let after = kept(&store, &noise(n, 40_000));
        let kind = if last.is_none() { ChangeKind::Create } else { ChangeKind::Write };
        ops.push(ago(
            &store,
            3 * DAY - i64::try_from(n).expect("small"),
            "a",
            vec![change(kind, "f", 1, last.take(), Some(after.clone()))],
        ));
        last = Some(after);
    }
    let before = store.used().expect("counted");
    let report = collected(&store);
    assert!(report.contents > 190, "{report:?}");
    let after = store.used().expect("counted");
    // What was appended last lies in the segment that is still written.
    assert!(after < before / 3, "{before} -> {after}: {report:?}");
    assert_eq!(content(&store, "f", ops[0]), Ok(Hash::of(&noise(0, 40_000))), "the first of its session");
    assert_eq!(rule_of(&content(&store, "f", ops[5])), Some(Rule::Thinned));
    store.put_blob(&noise(5, 40_000)).expect("kept again");
    assert_eq!(content(&store, "f", ops[5]), Ok(Hash::of(&noise(5, 40_000))));
    let again = store.gc(false).expect("collected");
    assert_eq!(again.contents, 0, "somebody may be about to refer to it: {again:?}");
    drop(store);
    for with_index in [true, false] {
        if !with_index {
            ground.without_index();
        }
        let store = ground.open();
        assert_eq!(store.poisoned(), None);
        assert_eq!(content(&store, "f", ops[0]), Ok(Hash::of(&noise(0, 40_000))));
        assert_eq!(rule_of(&content(&store, "f", ops[6])), Some(Rule::Thinned));
    }
}

#[test]
fn a_file_aside_goes_too_and_is_not_taken_for_one_that_was_left_behind() {
    let ground = Ground::new();
    let store = ground.open();
    let name = store.aside_name(crate::types::NodeId(1)).to_string();
    let path = ground.store().join("aside").join(&name);
    std::fs::write(&path, b"old").expect("written");
    let before = state(Kind::File, 3, Content::Aside(name.clone()));
    let op = ago(&store, 2 * DAY, "a", vec![change(ChangeKind::Create, "f", 1, None, Some(super::ground::file(3)))]);
    ago(&store, 2 * DAY, "a", vec![change(ChangeKind::Write, "f", 1, Some(before), Some(super::ground::file(4)))]);
    let last = state(Kind::File, 3, Content::Blob(store.put_blob(b"four").expect("kept").0));
    ago(&store, DAY + 9, "a", vec![change(ChangeKind::Remove, "f", 1, Some(last), None)]);
    store
        .retain(Retention {
            sessions: Duration::ZERO,
            age: Duration::from_secs(60 * 60 * 24 * 30),
            ..Retention::default()
        })
        .expect("set");
    collected(&store);
    assert!(!path.exists());
    assert_eq!(rule_of(&content(&store, "f", op)), Some(Rule::Thinned));
    drop(store);
    // As if the crash had come before the removal.
    std::fs::write(&path, b"old").expect("written");
    let store = ground.without_index().open();
    assert_eq!(store.recovered().orphans, []);
    assert!(!path.exists());
    assert_eq!(rule_of(&content(&store, "f", op)), Some(Rule::Thinned));
}

#[test]
fn a_store_that_is_too_large_comes_down_and_forgets_its_oldest_rows() {
    let ground = Ground::new();
    let store = ground.open();
    store.retain(Retention { bytes: Some(4 << 20), ..Retention::default() }).expect("set");
    let mut ops = Vec::new();
    let mut most = 0;
    for n in 0..9000 {
        let (at, node) = (format!("f{}", n % 50), n % 50);
        let mut change =
            change(ChangeKind::Write, &at, node, Some(super::ground::file(1)), Some(super::ground::file(1)));
        if n % 10 == 0 {
            let (hash, _) = store.put_blob(&noise(n, 10_000)).expect("kept");
            change.before = Some(state(Kind::File, 10_000, Content::Blob(hash)));
        }
        ops.push(ago(&store, 100, "a", vec![change]));
        if n % 100 == 0 && store.used().expect("counted") > 3 << 20 {
            store.keeping.told_long_ago(&store);
            store.collect(Aim::Space { target: 2 << 20, all: false }, false).expect("collected");
            most = most.max(store.used().expect("counted"));
        }
    }
    assert!(most > 0 && most < 4 << 20, "{most}");
    let (horizon, trim) = store.horizon().expect("answered").expect("rows were forgotten");
    assert_eq!(trim.rule, Rule::Quota);
    assert!(store.operation(ops[0]).expect("answered").is_none() && ops[0] <= horizon);
    let store = {
        drop(store);
        ground.without_index().open()
    };
    assert_eq!(store.horizon().expect("answered").map(|(op, _)| op), Some(horizon));
    assert_eq!(store.last_op(), *ops.last().expect("many"));
    assert!(store.next_node().0 >= 50);
    assert_eq!(store.poisoned(), None);
}
