//! Many cuts of one load, and the proof that cuts show what is wrong.

use super::{
    disk::{FileSystem, alone},
    load::{Recorded, record},
    record::{Cut, Unflushed},
};
use crate::harness::Random;

/// How many cuts each file system sees, if many are asked for.
fn states() -> Option<u64> {
    std::env::var("WARDFS_TEST_STATES").ok().map(|value| value.parse().unwrap())
}

/// So many are tried always.
const FEW: u64 = 24;

/// Moments at which the power could go, and what is left then; every other one comes right after something was acknowledged.
fn cuts(recorded: &Recorded, count: u64) -> Vec<Cut> {
    let moments: Vec<u64> = recorded.recording.moments().collect();
    let acknowledged: Vec<u64> =
        recorded.played.iter().flat_map(|scene| &scene.passed).map(|passed| passed.at).collect();
    let one = |number: u64| {
        let mut random = Random::new(number);
        let at = *random.pick(if number.is_multiple_of(2) { &acknowledged } else { &moments });
        let seed = random.next();
        let unflushed = match number / 2 % 4 {
            0 => Unflushed::Nothing,
            1 => Unflushed::Some(seed),
            2 => Unflushed::Torn(seed),
            _ => Unflushed::All,
        };
        Cut { at, unflushed }
    };
    (0..count).map(one).collect()
}

fn holds(name: &str, kind: FileSystem) {
    let count = states().unwrap_or(FEW);
    alone(name, || {
        // A new load now and then: its threads and flushes never meet in the same way twice.
        let mut complaints = Vec::new();
        let mut done = 0;
        while done < count {
            let mut recorded = record(kind, None, done);
            let some = (count - done).min(100);
            for cut in cuts(&recorded, done + some).into_iter().skip(usize::try_from(done).unwrap()) {
                if let Some(said) = recorded.cut(cut) {
                    eprintln!("{}: load {done}, {cut:?}: {said}\n", kind.name());
                    complaints.push(cut);
                }
            }
            done += some;
            eprintln!(
                "{}: {done} cuts, {} flushes, {} wrong",
                kind.name(),
                recorded.recording.flushes(),
                complaints.len()
            );
        }
        assert!(complaints.is_empty(), "{}: {} of {count} cuts left something wrong", kind.name(), complaints.len());
    });
}

/// What cuts show of a planted fault, when they come right after something was acknowledged and leave nothing unflushed.
fn notices(name: &str, fault: &str, complaints: &[&str]) {
    alone(name, || {
        let mut recorded = record(FileSystem::Ext4, Some(fault), 0);
        let all = cuts(&recorded, 200);
        let mut bare = all.into_iter().filter(|cut| cut.unflushed == Unflushed::Nothing);
        let said = bare.find_map(|cut| recorded.cut(cut)).expect("no cut shows the fault");
        assert!(complaints.iter().any(|complaint| said.contains(complaint)), "it complains of something else: {said}");
    });
}

#[test]
fn a_log_that_is_not_flushed_is_noticed() {
    notices(
        "power::cuts::a_log_that_is_not_flushed_is_noticed",
        "log-flush-left-out",
        &["taken back", "should be", "neither whole nor undone"],
    );
}

#[test]
fn a_content_that_is_not_flushed_is_noticed() {
    notices("power::cuts::a_content_that_is_not_flushed_is_noticed", "file-flush-left-out", &["should be"]);
}

macro_rules! file_systems {
    ($($name:ident: $kind:ident;)+) => {
        $(#[test]
        fn $name() {
            holds(concat!("power::cuts::", stringify!($name)), FileSystem::$kind);
        })+
    };
}

file_systems! {
    ext4_comes_back_with_all_that_was_durable: Ext4;
    xfs_comes_back_with_all_that_was_durable: Xfs;
    btrfs_comes_back_with_all_that_was_durable: Btrfs;
}
