//! Answers of idempotent calls, checkpoints, sources, actors, times, pages.

use proptest::strategy::{Strategy, ValueTree};

use super::ground::{Ground, actor, append, change, create, file, key, operation, path, write};
use crate::{
    types::{Actor, Channel, Hash, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath},
    versions::{ActorFilter, Bound, ChangeKind, HistoryQuery, Replay, State, Store},
};

#[test]
fn outcomes_of_calls_survive_restarts() {
    let ground = Ground::new();
    let request = Hash([3; 32]);
    let answered = Replay { op: Some(OpId(1)), request, response: Some("{}".into()) };
    let nothing = Replay { op: None, request, response: Some("[]".into()) };
    {
        let store = ground.open();
        for (n, id) in ["answered", "cut off", "taken back", "amended"].iter().enumerate() {
            let mut made = operation(store.next_op(), vec![create(id, n as u64 + 1, 1)]);
            (made.operation_id, made.request, made.intent) = (Some((*id).to_owned()), Some(request), true);
            store.append(&made).expect("appended");
            if *id == "amended" {
                let amended = Replay { op: Some(made.op), ..answered.clone() };
                store.answered("v", id, &amended).expect("kept");
                store.append(&made).expect("appended");
            }
        }
        store.answered("v", "answered", &answered).expect("kept");
        store.answered("v", "nothing", &nothing).expect("kept");
        store.aborted(OpId(3)).expect("taken back");
    }
    for round in 0..3 {
        if round == 2 {
            ground.without_index();
        }
        let store = ground.open();
        let replay = |view: &str, id: &str| store.replay(view, id).expect("answered");
        assert_eq!(replay("v", "answered").as_ref(), Some(&answered));
        assert_eq!(replay("v", "nothing").as_ref(), Some(&nothing));
        assert_eq!(replay("v", "cut off"), Some(Replay { op: Some(OpId(2)), request, response: None }));
        assert_eq!(replay("v", "taken back"), None, "it took no effect, so it may be tried again");
        assert_eq!(replay("v", "amended").and_then(|replay| replay.response), answered.response);
        assert_eq!(replay("other", "answered"), None, "keys are a view's own");
    }
}

#[test]
fn each_actor_is_in_the_log_once() {
    let ground = Ground::new();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = || super::shapes::actor().new_tree(&mut runner).expect("a value").current();
    let actors: Vec<Actor> = (0..40).map(|_| sample()).collect();
    let count = |store: &Store| store.index().ask(|index| index.actors(1000)).expect("answered").0.len();
    let distinct: std::collections::HashSet<_> = actors.iter().cloned().collect();
    {
        let store = ground.open();
        for (n, actor) in actors.iter().cycle().take(400).enumerate() {
            let mut made = operation(store.next_op(), vec![write("f", 1, n as u64, 1)]);
            made.actor = actor.clone();
            store.append(&made).expect("appended");
        }
        assert_eq!(count(&store), distinct.len());
    }
    let store = ground.open();
    for (n, actor) in actors.iter().cycle().take(400).enumerate() {
        let found = store.operation(OpId(n as u64 + 1)).expect("answered").expect("there");
        assert_eq!(&found.actor, actor);
    }
    let mut made = operation(store.next_op(), vec![]);
    made.actor = actors[0].clone();
    store.append(&made).expect("appended");
    assert_eq!(count(&store), distinct.len(), "known from the life before");
}

#[test]
fn checkpoints_sources_and_times() {
    let ground = Ground::new();
    let root = |n: u64| key(1000 + n);
    {
        let store = ground.open();
        assert_eq!(store.op_at_time(Timestamp { secs: i64::MAX, nanos: 0 }).expect("answered"), OpId(0));
        assert_eq!(store.source(&root(1), "/a".as_ref()).expect("known"), SourceId(1));
        assert_eq!(store.source(&root(2), "/b".as_ref()).expect("known"), SourceId(2));
        assert_eq!(store.source(&root(1), "/moved".as_ref()).expect("known"), SourceId(1));
        store.checkpoint("start", None, &actor()).expect("set");
        for n in 1..=5 {
            append(&store, vec![write("f", 1, n, n + 1)]);
            store.checkpoint(&format!("after {n}"), Some("note"), &actor()).expect("set");
        }
        store.checkpoint("after 2", None, &actor()).expect("set again");
    }
    for round in 0..2 {
        if round == 1 {
            ground.without_index();
        }
        let store = ground.open();
        let names: Vec<_> =
            store.checkpoints().expect("answered").into_iter().map(|point| (point.name, point.op.0)).collect();
        let expected = [("after 2", 5), ("after 5", 5), ("after 4", 4), ("after 3", 3), ("after 1", 1), ("start", 0)];
        assert_eq!(names, expected.map(|(name, op)| (name.to_owned(), op)));
        assert_eq!(store.find_checkpoint("after 4").expect("answered").map(|point| point.op), Some(OpId(4)));
        assert_eq!(store.find_checkpoint("none").expect("answered"), None);
        assert_eq!(store.source(&root(2), "/b".as_ref()).expect("known"), SourceId(2));
        assert_eq!(
            store.source(&root(3 + round), "/c".as_ref()).expect("new"),
            SourceId(u32::try_from(3 + round).expect("small"))
        );
        // Operation n was at second 10 n.
        for (secs, op) in [(9, 0), (10, 1), (39, 3), (40, 4), (1000, 5)] {
            let at = store.op_at_time(Timestamp { secs, nanos: 0 }).expect("answered");
            assert_eq!(at, OpId(op), "second {secs}");
        }
    }
}

fn ops(store: &Store, query: &HistoryQuery) -> (Vec<u64>, bool) {
    let page = store.history(query).expect("answered");
    (page.operations.iter().map(|operation| operation.op.0).collect(), page.more)
}

#[test]
fn history_is_filtered_and_paged() {
    let ground = Ground::in_memory();
    let store = ground.open();
    for n in 1..=30 {
        let mut made = operation(store.next_op(), vec![write(&format!("d{}/f", n % 3), n % 3 + 1, n, n + 1)]);
        made.actor = Actor {
            session: Some(format!("s{}", n % 2)),
            pid: u32::try_from(n % 5).ok(),
            command: Some(format!("/bin/tool --n={n}")),
            ..Actor::of(if n % 10 == 0 { Channel::External } else { Channel::Fuse })
        };
        made.changes[0].source = SourceId(if n > 25 { 2 } else { 1 });
        store.append(&made).expect("appended");
    }
    let all = HistoryQuery { limit: 1000, oldest_first: true, ..HistoryQuery::default() };
    let check = |query: HistoryQuery, keeps: &dyn Fn(u64) -> bool| {
        let expected: Vec<u64> = (1..=30).filter(|n| keeps(*n)).collect();
        assert_eq!(ops(&store, &query), (expected, false), "{query:?}");
    };
    let by = |actor: ActorFilter| HistoryQuery { actor, ..all.clone() };
    check(all.clone(), &|_| true);
    check(by(ActorFilter { channel: Some(Channel::External), ..ActorFilter::default() }), &|n| n % 10 == 0);
    check(by(ActorFilter { session: Some("s1".into()), ..ActorFilter::default() }), &|n| n % 2 == 1);
    check(by(ActorFilter { pid: Some(3), ..ActorFilter::default() }), &|n| n % 5 == 3);
    check(by(ActorFilter { command: Some("n=1".into()), ..ActorFilter::default() }), &|n| n == 1 || n / 10 == 1);
    check(HistoryQuery { sources: vec![SourceId(2)], ..all.clone() }, &|n| n > 25);
    check(HistoryQuery { node: Some(NodeId(2)), ..all.clone() }, &|n| n % 3 == 1);
    check(HistoryQuery { path: Some((SourceId(1), path("d1"))), ..all.clone() }, &|n| n % 3 == 1 && n <= 25);
    check(HistoryQuery { path: Some((SourceId(1), path(""))), ..all.clone() }, &|n| n <= 25);
    check(HistoryQuery { path: Some((SourceId(1), path("d"))), ..all.clone() }, &|_| false);
    let second = |secs| Bound::Time(Timestamp { secs, nanos: 0 });
    check(HistoryQuery { after: Some(second(100)), until: Some(second(200)), ..all.clone() }, &|n| n > 10 && n <= 20);
    check(HistoryQuery { after: Some(Bound::Op(OpId(28))), ..all.clone() }, &|n| n > 28);
    // Pages, newest first, by what the last one ended with.
    let mut seen = Vec::new();
    let mut until = None;
    loop {
        let query = HistoryQuery { limit: 7, until, ..HistoryQuery::default() };
        let (page, more) = ops(&store, &query);
        until = page.last().map(|op| Bound::Op(OpId(op - 1)));
        seen.extend(page);
        if !more {
            break;
        }
    }
    assert_eq!(seen, (1..=30).rev().collect::<Vec<u64>>());
}

#[test]
fn a_file_saved_by_replacement_keeps_its_history() {
    let ground = Ground::in_memory();
    let store = ground.open();
    append(&store, vec![create("f", 1, 1)]);
    append(&store, vec![write("f", 1, 1, 2)]);
    for node in 2..=4 {
        append(&store, vec![create(".f.tmp", node, 3)]);
        append(&store, vec![write(".f.tmp", node, 3, 4)]);
        let mut moved = super::ground::change(ChangeKind::Rename, "f", node, Some(file(4)), Some(file(4)));
        moved.from = Some(path(".f.tmp"));
        let removed = super::ground::change(ChangeKind::Remove, "f", node - 1, Some(file(2)), None);
        append(&store, vec![removed, moved]);
    }
    append(&store, vec![create(".f.tmp", 9, 1)]);
    let query = HistoryQuery { path: Some((SourceId(1), path("f"))), oldest_first: true, ..HistoryQuery::default() };
    // Its own, all replacements, and the life of what it is now: not that of other files of the temporary name.
    assert_eq!(ops(&store, &query).0, [1, 2, 5, 8, 9, 10, 11]);
}

#[test]
fn a_page_of_history_looks_at_its_own_operations_alone() {
    let ground = Ground::new();
    let store = ground.open();
    append(&store, vec![create("a", 1, 1)]);
    let query = HistoryQuery { sources: vec![SourceId(1)], after: Some(Bound::Op(OpId(0))), ..HistoryQuery::default() };
    let root = HistoryQuery { path: Some((SourceId(1), ViewPath::default())), ..query.clone() };
    for query in [query, root] {
        let (sql, values) = store.statement(&query, 10).expect("a statement");
        let index = rusqlite::Connection::open(ground.index()).expect("the index");
        let mut explained = index.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let plan: Vec<String> = explained
            .query_map(rusqlite::params_from_iter(&values), |row| row.get(3))
            .expect("a plan")
            .collect::<Result<_, _>>()
            .expect("a plan");
        let touched: Vec<&String> = plan.iter().filter(|step| step.contains("touch")).collect();
        assert!(!touched.is_empty() && touched.iter().all(|step| step.contains("touch_op (op=?)")), "{plan:#?}");
    }
}

#[test]
fn a_large_operation_recorded_again_costs_the_index_as_much_an_entry_as_a_small_one() {
    let ground = Ground::new();
    let store = ground.open();
    let indexed = |count: u64| {
        let op = store.next_op();
        let changes: Vec<_> = (0..count).map(|n| create(&format!("f{n}"), op.0 * 1_000_000 + n, 1)).collect();
        let start = std::time::Instant::now();
        for _ in 0..2 {
            store.append(&operation(op, changes.clone())).expect("appended");
        }
        store.index().ask(super::super::index::Reader::counts).expect("answered");
        start.elapsed()
    };
    let (small, large) = (indexed(2_000), indexed(16_000));
    assert!(large < small * 24, "8 times as many took {large:?} and not {small:?}");
}

#[test]
fn who_touched_a_path_last_is_the_same_from_memory_and_from_the_index() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let ground = Ground::new();
    let store = ground.open();
    let dir = || State { kind: Kind::Dir, ..file(1) };
    let names = ["a", "b", "d/x", "d/y", "e/x"];
    let mut late = Vec::new();
    let (mut from_memory, mut asked) = (0, 0);
    for round in 0..200u64 {
        let pick = |most: usize| (0..most, 0..most);
        let (first, second) = pick(names.len()).new_tree(&mut runner).expect("a value").current();
        let (what, _) = pick(10).new_tree(&mut runner).expect("a value").current();
        let (one, other) = (names[first], names[second]);
        let node = 1 + first as u64;
        let renamed = |from: &str, to: &str, node, state: State| {
            let mut made = change(ChangeKind::Rename, to, node, Some(state.clone()), Some(state));
            made.from = Some(path(from));
            made
        };
        let changes = match what {
            0..5 => vec![write(one, node, 1, round)],
            5 | 6 => vec![renamed(one, other, node, file(1))],
            7 => vec![renamed("d", "e", 90, dir()), renamed("e", "d", 91, dir())],
            _ => vec![create(one, node, round)],
        };
        let op = store.next_op();
        match what {
            // A number given early and recorded late.
            8 => late.push((op, changes)),
            9 => {
                store.append(&operation(op, changes)).expect("appended");
                store.aborted(op).expect("taken back");
            }
            _ => drop(store.append(&operation(op, changes)).expect("appended")),
        }
        if late.len() > 2 {
            let (op, changes) = late.remove(0);
            store.append(&operation(op, changes)).expect("appended");
        }
        for name in names {
            for before in [None, Some(op), Some(OpId(op.0 / 2 + 1))] {
                let until = before.map(|before| Bound::Op(OpId(before.0 - 1)));
                let query =
                    HistoryQuery { path: Some((SourceId(1), path(name))), until, limit: 1, ..HistoryQuery::default() };
                let said = store.history(&query).expect("answered").operations.first().map(|found| found.op);
                from_memory += usize::from(store.heads.last_touching(SourceId(1), &path(name)).is_some());
                asked += 1;
                let found = store.last_touching(SourceId(1), &path(name), before).expect("answered");
                assert_eq!(found, said, "round {round}: {name} before {before:?}");
            }
        }
    }
    assert!(from_memory * 2 > asked, "memory answered {from_memory} of {asked}");
}
