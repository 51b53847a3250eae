//! Collections of random histories by random rules against a model of the rules, and collections while others write.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::{
    dropping::{ago, noise},
    ground::{Ground, actor, change, path, state},
};
use crate::{
    types::{Hash, Kind, OpId, SourceId},
    versions::{ChangeKind, Content, Loss, PathAt, Retention, State, Store, StoreError, gc::Aim},
};

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 += 1;
        u64::from_be_bytes(Hash::of(&self.0.to_le_bytes()).0[..8].try_into().expect("eight bytes")) % below
    }
}

const FILES: [&str; 5] = ["a", "b", "c/d", "x/target/e", "node_modules/f"];
const SESSIONS: [&str; 3] = ["s", "t", "u"];

/// One state of a file: made by an operation of so long ago; none for what stood there before the first.
#[derive(Clone, Debug)]
struct Version {
    op: Option<OpId>,
    age: u64,
    session: Option<usize>,
    content: u64,
}

struct History {
    files: BTreeMap<usize, Vec<Version>>,
    points: Vec<OpId>,
    keep: Retention,
}

fn kept(store: &Store, content: u64) -> State {
    let bytes = noise(content, 1500);
    let (hash, _) = store.put_blob(&bytes).expect("kept");
    state(Kind::File, 1500, Content::Blob(hash))
}

/// A history of operations that are ever younger.
fn play(store: &Store, dice: &mut Dice) -> History {
    let spans = |dice: &mut Dice, below| Duration::from_secs(dice.roll(below));
    let full = spans(dice, 2000);
    let sessions = full + spans(dice, 3000);
    let keep = Retention {
        full,
        sessions,
        age: sessions + spans(dice, 3000),
        short_age: spans(dice, 3000),
        ..Retention::default()
    };
    let mut history = History { files: BTreeMap::new(), points: Vec::new(), keep };
    let mut age = 9000;
    for n in 0..20 + dice.roll(60) {
        age -= 1 + dice.roll(110);
        let file = usize::try_from(dice.roll(5)).expect("small");
        let session = usize::try_from(dice.roll(3)).expect("small");
        // Some contents are those of other versions.
        let content = if dice.roll(4) == 0 { dice.roll(n + 1) } else { 1000 + n };
        let node = file as u64 + 1;
        let versions = history.files.entry(file).or_default();
        let after = kept(store, content);
        let (kind, before) = match versions.last() {
            Some(last) if last.content == content => continue,
            Some(last) => (ChangeKind::Write, Some(kept(store, last.content))),
            None if dice.roll(2) == 0 => (ChangeKind::Create, None),
            None => {
                versions.push(Version { op: None, age: u64::MAX, session: None, content: 2000 + node });
                (ChangeKind::Write, Some(kept(store, 2000 + node)))
            }
        };
        let made = vec![change(kind, FILES[file], node, before, Some(after))];
        let op = ago(store, i64::try_from(age).expect("small"), SESSIONS[session], made);
        versions.push(Version { op: Some(op), age, session: Some(session), content });
        if dice.roll(25) == 0 {
            store.checkpoint(&format!("p{n}"), None, &actor()).expect("set");
            history.points.push(op);
        }
    }
    history
}

impl History {
    /// Is a version that was superseded kept by the rules?
    fn stays(&self, file: usize, at: usize) -> bool {
        let versions = &self.files[&file];
        let (version, next) = (&versions[at], &versions[at + 1]);
        let gone_since = Duration::from_secs(next.age);
        let from = version.op.unwrap_or(OpId(0));
        if self.points.iter().any(|point| *point >= from && next.op.is_some_and(|op| *point < op)) {
            return true;
        }
        if FILES[file].contains("target") || FILES[file].contains("node_modules") {
            return gone_since < self.keep.short_age;
        }
        let of_session = |v: &Version| v.session == version.session;
        let is_last = versions[at + 1..].iter().all(|v| !of_session(v));
        let is_first = versions[..at].iter().all(|v| !of_session(v));
        let by_age = if gone_since < self.keep.full {
            true
        } else if gone_since >= self.keep.age {
            false
        } else if gone_since < self.keep.sessions {
            is_last || is_first
        } else {
            is_last
        };
        if version.op.is_some() {
            return by_age;
        }
        // The base stays while something later does, or while what stands there is young.
        let later = (at + 1..versions.len() - 1).any(|later| self.stays(file, later));
        by_age || later || Duration::from_secs(versions.last().expect("one").age) < self.keep.age
    }

    fn check(&self, store: &Store, what: &str) {
        let mut alive = HashSet::new();
        for (file, versions) in &self.files {
            for at in 0..versions.len() {
                if at + 1 == versions.len() || self.stays(*file, at) {
                    alive.insert(versions[at].content);
                }
            }
        }
        let horizon = store.horizon().expect("answered").map_or(OpId(0), |(op, _)| op);
        for (file, versions) in &self.files {
            for (at, version) in versions.iter().enumerate() {
                let what = format!("{what}: version {at} of {}, {version:?}", FILES[*file]);
                if let Some(op) = version.op {
                    let known = store.operation(op).expect("answered").is_some();
                    assert_eq!(known, op > horizon, "{what}, forgotten up to {horizon}");
                    let too_old = Duration::from_secs(version.age + 60) >= self.keep.age;
                    assert!(known || too_old, "{what} was forgotten too early");
                }
                // What came after the last operation that is forgotten is told in full.
                let Some(next) = versions.get(at + 1).and_then(|next| next.op).filter(|next| *next > horizon) else {
                    continue;
                };
                let found = store.path_at(SourceId(1), &path(FILES[*file]), OpId(next.0 - 1)).expect("answered");
                let PathAt::Was { state, .. } = found else { panic!("{what}: {found:?}") };
                match store.read_all(&state.content, 1 << 20) {
                    Ok(bytes) => {
                        assert!(alive.contains(&version.content), "{what} is still there");
                        assert_eq!(Hash::of(&bytes), Hash::of(&noise(version.content, 1500)), "{what}");
                    }
                    Err(StoreError::Unavailable(Loss::Trimmed(_))) => {
                        assert!(!alive.contains(&version.content), "{what} is gone");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        let report = store.verify().expect("checked");
        assert_eq!(report.damage, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn what_is_kept_is_what_the_rules_say() {
    for seed in 0..25 {
        let ground = Ground::in_memory();
        let store = ground.open();
        let history = play(&store, &mut Dice(seed * 100_000));
        store.retain(history.keep.clone()).expect("set");
        // In a closed segment there is something to pack.
        drop(store);
        let store = ground.open();
        store.retain(history.keep.clone()).expect("set");
        store.collect(Aim::Rules, false).expect("collected");
        history.check(&store, &format!("seed {seed}"));
        store.collect(Aim::Rules, false).expect("collected again");
        drop(store);
        history.check(&ground.open(), &format!("seed {seed}, again"));
        history.check(&ground.without_index().open(), &format!("seed {seed}, without the index"));
    }
}

#[test]
fn writers_go_on_while_history_is_dropped() {
    let ground = Ground::new();
    let store = ground.open();
    let nothing = Duration::ZERO;
    store
        .retain(Retention {
            full: nothing,
            sessions: nothing,
            age: nothing,
            short_age: nothing,
            ..Retention::default()
        })
        .expect("set");
    let ended = AtomicBool::new(false);
    let (mut dropped, mut longest) = (0, Duration::ZERO);
    std::thread::scope(|scope| {
        let (store, ended) = (&store, &ended);
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                scope.spawn(move || {
                    let mut longest = Duration::ZERO;
                    let mut last: Option<State> = None;
                    for n in 0..400u64 {
                        let bytes = noise(writer << 32 | n, 9000);
                        let begun = Instant::now();
                        let hold = store.hold();
                        let (hash, _) = store.put_blob(&bytes).expect("kept");
                        let after = state(Kind::File, 9000, Content::Blob(hash));
                        let kind = if last.is_some() { ChangeKind::Write } else { ChangeKind::Create };
                        let made =
                            vec![change(kind, &format!("f{writer}"), writer + 1, last.take(), Some(after.clone()))];
                        ago(store, 1, "s", made);
                        drop(hold);
                        longest = longest.max(begun.elapsed());
                        last = Some(after);
                        let found = store.read_all(&Content::Blob(hash), 1 << 20).expect("it is what stands there now");
                        assert_eq!(Hash::of(&found), hash);
                    }
                    longest
                })
            })
            .collect();
        let keeper = scope.spawn(move || {
            let mut dropped = 0;
            while !ended.load(Ordering::Relaxed) {
                store.keeping.told_long_ago(store);
                dropped += store.collect(Aim::Rules, false).expect("collected").contents;
            }
            dropped
        });
        longest = writers.into_iter().map(|writer| writer.join().expect("it wrote")).max().expect("some");
        ended.store(true, Ordering::Relaxed);
        dropped = keeper.join().expect("it dropped");
    });
    assert!(dropped > 200, "{dropped}");
    // A bound for a machine that is busy with other things; alone it is a few milliseconds.
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    let report = store.verify().expect("checked");
    assert_eq!(report.damage, Vec::<String>::new());
    drop(store);
    assert_eq!(ground.without_index().open().verify().expect("checked").damage, Vec::<String>::new());
}
