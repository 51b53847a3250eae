//! The daemon is killed at each named point, in both durabilities, under a load that passes all of them.

use wardfs::versions::crash::POINTS;

use super::{
    load::{Played, play},
    oracle,
    scenes::{BULK, Scene, USUAL},
};
use crate::harness::{Mounted, Random, Setup, Times, Tree};

/// What has to happen before a point of recovery is passed: a crash at this one.
const CAUSES: &[(&str, &str)] = &[
    ("recovery-step-taken-back", "withdrawal-recorded"),
    ("recovery-step-applied", "intent-flushed"),
    ("recovery-intent-recorded", "step-applied"),
    ("recovery-begun-recorded", "made"),
    ("recovery-open-recorded", "sealing"),
    ("recovery-aside-unlinked", "aside-linked"),
];

/// What has to be planted for a point to be passed.
const PLANTED: &[(&str, &str)] = &[
    ("exchanged-back", "exchange-mismatch"),
    ("withdrawal-recorded", "exchange-mismatch"),
    ("recovery-step-taken-back", "exchange-mismatch"),
    ("step-taken-back", "exchange-mismatch"),
    ("abort-recorded", "exchange-mismatch"),
    ("reserve-released", "disk-full-at-the-end"),
];

/// Points that need much content.
const BULKY: &[&str] = &["roll-flushed", "roll-created", "index-checkpoint"];

/// Under relaxed durability, nobody puts files on disk.
const STRICT_ONLY: &[&str] = &["files-flushed"];

/// What happens when a person accepts: proved where reviews are.
const REVIEWING: &[&str] = &["review-recorded"];

/// What happens when history is dropped: proved beside the code, where little history is enough.
const DROPPING: &[&str] = &[
    "trim-appended",
    "trim-flushed",
    "trimmed-unlinked",
    "forgetting-appended",
    "deltas-said",
    "segment-buried",
    "segment-burial-flushed",
    "segment-packed",
    "segment-replaced",
    "segments-joined",
    "segment-unlinked",
];

pub fn seeds() -> u64 {
    std::env::var("WARDFS_TEST_SEEDS").ok().map_or(1, |value| value.parse().unwrap())
}

fn of(table: &[(&'static str, &'static str)], point: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == point).map(|(_, of)| *of)
}

/// A source with what the scenes find there, mounted once, with the checkpoint `start`. The daemon is dead again.
pub fn begin(durability: &str, scenes: &[Scene]) -> Option<(Mounted, Tree)> {
    begin_in(Setup::new().with(&["--durability", durability]), scenes)
}

/// The same, in a setup of the caller.
pub fn begin_in(setup: Setup, scenes: &[Scene]) -> Option<(Mounted, Tree)> {
    for scene in scenes {
        std::fs::create_dir(setup.source().join(scene.name)).unwrap();
        (scene.before)(&setup.source().join(scene.name));
    }
    let first = Tree::of(setup.source(), Times::Compare);
    let mount = setup.mount()?;
    mount.client().call("checkpoint", &serde_json::json!({"name": "start"}));
    mount.kill();
    Some((mount, first))
}

/// Lets the daemon live until it passes `point` for the `count`th time. False if it never did.
fn live(
    mount: &mut Mounted,
    point: &str,
    count: u64,
    fault: Option<&str>,
    scenes: &[Scene],
    seed: u64,
    played: &mut Vec<Played>,
) -> bool {
    let mark = mount.setup().dir().join("mark");
    let _ = std::fs::remove_file(&mark);
    let at = format!("{point}:{count}");
    let mut environment = vec![
        ("WARDFS_CRASH_POINT", at.as_str()),
        ("WARDFS_CRASH_MARK", mark.to_str().unwrap()),
        ("WARDFS_CRASH_SMALL", "1"),
    ];
    environment.extend(fault.map(|fault| ("WARDFS_PLANTED_FAULT", fault)));
    mount.set_environment(&environment);
    match mount.try_mount() {
        Ok(()) => {
            *played = play(mount, scenes, seed, fault == Some("exchange-mismatch"), &|| 0);
            if !mark.exists() {
                // It may die of this; then the command may say so.
                let _ = mount.umount();
            }
            assert!(mount.gone_within(30), "{at}: the daemon lives on");
        }
        Err(said) => assert!(mark.exists(), "{at}: {said}"),
    }
    mount.set_environment(&[("WARDFS_CRASH_SMALL", "1")]);
    mark.exists()
}

/// A load with a planted fault, up to a crash. The point must be passed.
pub fn crashed(durability: &str, point: &str, fault: &str, scenes: &[Scene]) -> Option<(Mounted, Tree, Vec<Played>)> {
    let (mut mount, first) = begin(durability, scenes)?;
    let (name, count) = point.split_once(':').unwrap_or((point, "1"));
    let mut played = Vec::new();
    let reached = live(&mut mount, name, count.parse().unwrap(), Some(fault), scenes, 0, &mut played);
    assert!(reached, "{point}: the load never passes it");
    Some((mount, first, played))
}

/// One crash, and what must hold after it. False if the point was not passed so often.
pub fn round(durability: &str, point: &'static str, count: u64, seed: u64) -> Option<bool> {
    let mut scenes: Vec<Scene> = Vec::new();
    scenes.extend_from_slice(USUAL);
    if BULKY.contains(&point) {
        scenes.push(BULK);
    }
    let (mut mount, first) = begin(durability, &scenes)?;
    if point == "index-emptied" {
        std::fs::remove_file(mount.setup().store_path().join("index.db")).unwrap();
    }
    let mut played = Vec::new();
    let cause = of(CAUSES, point);
    if !live(&mut mount, cause.unwrap_or(point), count, of(PLANTED, point), &scenes, seed, &mut played) {
        return Some(false);
    }
    if cause.is_some() {
        // Recovery is cut off, too, twice in a row if it passes there again.
        if !live(&mut mount, point, 1, None, &[], seed, &mut Vec::new()) {
            return Some(false);
        }
        live(&mut mount, point, 1, None, &[], seed, &mut Vec::new());
    }
    oracle::judge(&mut mount, &played, &first);
    Some(true)
}

/// Every fourth point from `from` on, as often as seeds are asked for.
fn rounds(durability: &str, from: usize) {
    for (at, point) in POINTS.iter().enumerate().skip(from).step_by(4) {
        let left_out = std::env::var("WARDFS_TEST_POINT").is_ok_and(|only| only != *point);
        if left_out
            || DROPPING.contains(point)
            || REVIEWING.contains(point)
            || (durability == "relaxed" && STRICT_ONLY.contains(point))
        {
            continue;
        }
        for seed in 0..seeds() {
            // The first time it is passed, and with other seeds some later one, if it is passed so often.
            let mut count = if seed == 0 { 1 } else { 1 + Random::new(seed * 1000 + at as u64).next() % 40 };
            eprintln!("{durability}, {point}:{count}, seed {seed}");
            loop {
                match round(durability, point, count, seed) {
                    None => return,
                    Some(true) => break,
                    Some(false) => assert!(count > 1, "{point} ({durability}): the load never passes it"),
                }
                count = count.div_ceil(2);
            }
        }
    }
}

macro_rules! quarters {
    ($($name:ident: $durability:literal, $from:literal;)+) => {
        $(#[test]
        fn $name() {
            rounds($durability, $from);
        })+
    };
}

quarters! {
    strict_durability_first_quarter: "strict", 0;
    strict_durability_second_quarter: "strict", 1;
    strict_durability_third_quarter: "strict", 2;
    strict_durability_fourth_quarter: "strict", 3;
    relaxed_durability_first_quarter: "relaxed", 0;
    relaxed_durability_second_quarter: "relaxed", 1;
    relaxed_durability_third_quarter: "relaxed", 2;
    relaxed_durability_fourth_quarter: "relaxed", 3;
}
