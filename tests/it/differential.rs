//! The same operations on a mount and on a plain directory: every result, every errno and the trees agree.
//!
//! `WARDFS_TEST_SEEDS` and `WARDFS_TEST_OPERATIONS` ask for more than the quick run.

mod act;
mod world;

use act::Act;
use world::World;

use crate::harness::{Mounted, Random, Setup, Times, Tree};

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |value| value.parse().unwrap())
}

fn compare(mount: &Mounted, seed: u64, operations: usize) {
    let plain = mount.setup().dir().join(format!("plain-{seed}"));
    let through = mount.at(&format!("seed-{seed}"));
    std::fs::create_dir(&plain).unwrap();
    std::fs::create_dir(&through).unwrap();
    let mut random = Random::new(seed);
    let (mut here, mut there) = (World::new(&through), World::new(&plain));
    let mut done: Vec<String> = Vec::new();
    let beginning = Act::beginning().into_iter();
    let acts = beginning.chain(std::iter::repeat_with(|| Act::random(&mut random)));
    for (step, act) in acts.take(operations).enumerate() {
        let (ours, theirs) = (here.apply(&act), there.apply(&act));
        done.push(format!("{act:?} = {theirs}"));
        assert_eq!(ours, theirs, "seed {seed}, step {step} (mount left, plain directory right)\n{}", last(&done));
        if step % 50 == 49 || step + 1 == operations {
            let diff = Tree::of(&through, Times::Ignore).diff(&Tree::of(&plain, Times::Ignore));
            assert!(
                diff.is_empty(),
                "seed {seed}, after step {step} (- mount, + plain directory)\n{diff}\n{}",
                last(&done)
            );
        }
    }
    drop(here);
    drop(there);
    let beside = mount.beside(&format!("seed-{seed}"));
    let what = format!("seed {seed}: the mount (-) and what lies under it (+)");
    Tree::of(&through, Times::Compare).same(&Tree::of(&beside, Times::Compare), &what);
}

/// What was done last, for whoever has to find out.
fn last(done: &[String]) -> String {
    done[done.len().saturating_sub(60)..].join("\n")
}

#[test]
fn random_operations_agree() {
    let Some(mount) = Mounted::new() else { return };
    for seed in 0..number("WARDFS_TEST_SEEDS", 20) {
        compare(&mount, u64::try_from(seed).unwrap(), number("WARDFS_TEST_OPERATIONS", 300));
    }
}

#[test]
fn random_operations_agree_on_paths_without_history() {
    let Some(mount) = Setup::new().policy("unversioned = [\"**\"]\n").mount() else { return };
    for seed in 100..100 + number("WARDFS_TEST_SEEDS", 20) / 4 {
        compare(&mount, u64::try_from(seed).unwrap(), number("WARDFS_TEST_OPERATIONS", 300));
    }
}
