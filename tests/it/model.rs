//! Any stream of operations, recorded; then taken back to any earlier moment: the tree is what it was.

mod room;
mod tree;

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use room::Room;
use tree::Tree;
use wardfs::{
    types::OpId,
    view::{At, OnConflict, RevertTarget},
};

use crate::harness::is_root;

/// One thing that a shell may do, on a small set of names so that they meet.
#[derive(Clone, Debug)]
enum Act {
    Write { path: usize, size: usize, byte: u8 },
    Append { path: usize, byte: u8 },
    Truncate { path: usize, size: u64 },
    Mkdir { path: usize },
    Symlink { path: usize, target: usize },
    Link { from: usize, to: usize },
    Unlink { path: usize },
    Rmdir { path: usize },
    Rename { from: usize, to: usize },
    Exchange { from: usize, to: usize },
    Chmod { path: usize, mode: u32 },
    Xattr { path: usize, value: u8 },
    ToolWrite { path: usize, byte: u8 },
    ToolDelete { path: usize },
    ToolMove { from: usize, to: usize },
}

/// Names that acts choose from: files and directories at several depths.
const PATHS: [&str; 10] = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "e", "e/a"];

/// Another user than root must still be able to look into directories afterwards.
fn modes() -> Vec<u32> {
    if is_root() { vec![0o600, 0o644, 0o755, 0o4711] } else { vec![0o700, 0o744, 0o755, 0o4711] }
}

fn act() -> impl Strategy<Value = Act> {
    let path = 0..PATHS.len();
    prop_oneof![
        6 => (path.clone(), 0usize..5000, any::<u8>()).prop_map(|(path, size, byte)| Act::Write { path, size, byte }),
        2 => (path.clone(), any::<u8>()).prop_map(|(path, byte)| Act::Append { path, byte }),
        1 => (path.clone(), 0u64..3000).prop_map(|(path, size)| Act::Truncate { path, size }),
        4 => path.clone().prop_map(|path| Act::Mkdir { path }),
        1 => (path.clone(), path.clone()).prop_map(|(path, target)| Act::Symlink { path, target }),
        2 => (path.clone(), path.clone()).prop_map(|(from, to)| Act::Link { from, to }),
        3 => path.clone().prop_map(|path| Act::Unlink { path }),
        2 => path.clone().prop_map(|path| Act::Rmdir { path }),
        4 => (path.clone(), path.clone()).prop_map(|(from, to)| Act::Rename { from, to }),
        1 => (path.clone(), path.clone()).prop_map(|(from, to)| Act::Exchange { from, to }),
        2 => (path.clone(), prop::sample::select(modes())).prop_map(|(path, mode)| Act::Chmod { path, mode }),
        1 => (path.clone(), any::<u8>()).prop_map(|(path, value)| Act::Xattr { path, value }),
        2 => (path.clone(), any::<u8>()).prop_map(|(path, byte)| Act::ToolWrite { path, byte }),
        1 => path.clone().prop_map(|path| Act::ToolDelete { path }),
        1 => (path.clone(), path).prop_map(|(from, to)| Act::ToolMove { from, to }),
    ]
}

fn run(room: &Room, act: &Act) {
    let name = |at: &usize| PATHS[*at];
    // Many acts meet a missing or unfit path: that they fail is part of the game.
    let _ = match act {
        Act::Write { path, size, byte } => room.write(name(path), &vec![*byte; *size]),
        Act::Append { path, byte } => room.append(name(path), &[*byte; 10]),
        Act::Truncate { path, size } => room.truncate(name(path), *size),
        Act::Mkdir { path } => room.mkdir(name(path)),
        Act::Symlink { path, target } => room.symlink(name(path), name(target)),
        Act::Link { from, to } => room.link(name(from), name(to)),
        Act::Unlink { path } => room.unlink(name(path)),
        Act::Rmdir { path } => room.rmdir(name(path)),
        Act::Rename { from, to } => room.rename(name(from), name(to), false),
        Act::Exchange { from, to } => room.rename(name(from), name(to), true),
        Act::Chmod { path, mode } => room.chmod(name(path), *mode),
        Act::Xattr { path, value } => room.xattr(name(path), &[*value; 3]),
        Act::ToolWrite { path, byte } => room.tool_write(name(path), &[*byte; 100]),
        Act::ToolDelete { path } => room.tool_delete(name(path)),
        Act::ToolMove { from, to } => room.tool_move(name(from), name(to)),
    };
}

fn check(acts: &[Act], back: &[prop::sample::Index]) {
    let room = Room::new();
    let mut moments: Vec<(OpId, Tree)> = vec![(room.last_op(), room.tree())];
    for act in acts {
        run(&room, act);
        moments.push((room.last_op(), room.tree()));
    }
    for index in back {
        let (op, expected) = &moments[index.index(moments.len())];
        let target = RevertTarget::To(At::Op(*op));
        let reverted = room.revert(&target, OnConflict::Fail).unwrap_or_else(|error| panic!("revert to {op}: {error}"));
        assert!(reverted.conflicts.is_empty(), "revert to {op}: {:?}", reverted.conflicts);
        let found = room.tree();
        assert!(found == *expected, "after a revert to operation {op}:\n{}", expected.difference(&found));
    }
}

/// The same cases in every run, so that a change is judged and not the dice; `WARDFS_TEST_SEEDS` asks for more of them.
#[test]
fn a_revert_to_any_moment_gives_the_tree_of_that_moment() {
    let cases = std::env::var("WARDFS_TEST_SEEDS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let streams = (prop::collection::vec(act(), 1..40), prop::collection::vec(any::<prop::sample::Index>(), 1..4));
    let run = TestRunner::new_with_rng(config, rng).run(&streams, |(acts, back)| {
        check(&acts, &back);
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

#[test]
fn a_directory_made_by_a_tool_and_moved_is_taken_back() {
    let acts = [Act::ToolWrite { path: 6, byte: 52 }, Act::Mkdir { path: 4 }, Act::Rename { from: 3, to: 8 }];
    let room = Room::new();
    let mut moments = vec![(room.last_op(), room.tree())];
    for act in &acts {
        run(&room, act);
        moments.push((room.last_op(), room.tree()));
    }
    for (op, expected) in moments.iter().rev() {
        let reverted = room.revert(&RevertTarget::To(At::Op(*op)), OnConflict::Fail);
        assert!(reverted.is_ok(), "to {op}: {:?}", reverted.err());
        assert!(room.tree() == *expected, "to {op}:\n{}", expected.difference(&room.tree()));
    }
}
