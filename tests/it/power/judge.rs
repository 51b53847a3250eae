//! What must hold after a power cut.

use std::{collections::BTreeSet, process::Command};

use crate::{
    crash::{
        load::{Leaves, Passed, Played, Sure},
        oracle::{Rules, judge_by},
    },
    harness::{Item, Mounted, Shell, Times, Tree},
};

/// The disk is mounted as a cut at this moment left it, the daemon is down. Looks, takes everything back to `first`, and has the
/// store verified.
pub fn judge(mount: &mut Mounted, played: &[Played], first: &Tree, at: u64) {
    let until: Vec<Played> = played.iter().map(|scene| until(scene, at)).collect();
    let stands = |mount: &Mounted, scene: &Played| {
        let all = played.iter().find(|all| all.name == scene.name).unwrap();
        stands(mount, all, scene.passed.len());
    };
    let taken_back = |mount: &Mounted, now: &Tree| taken_back(mount, played, first, now, at);
    // What nobody had put on disk may be lost, if the log says so, or stand in the way without a record.
    judge_by(
        mount,
        &until,
        &Rules {
            stands: &stands,
            on_conflict: "skip",
            taken_back: &taken_back,
            may_be_lost: &|_| true,
            may_stand: true,
        },
    );
    let mut verify = mount.setup().wardfs();
    verified(verify.args(["verify", "--store"]).arg(mount.setup().store_path()));
}

fn verified(command: &mut Command) {
    let said = Shell::of(command);
    assert!(said.status == 0, "the store is not whole: {said:?}");
}

/// What was acknowledged as durable up to a moment.
fn until(scene: &Played, at: u64) -> Played {
    let count = scene.passed.iter().take_while(|passed| passed.at <= at).count();
    let passed = &scene.passed[..count];
    let copy = |passed: &Passed| {
        let sure = match &passed.sure {
            Sure::Nothing => Sure::Nothing,
            Sure::Synced(leaves) => Sure::Synced(leaves.clone()),
            Sure::Operation(op, leaves) => Sure::Operation(*op, leaves.clone()),
        };
        Passed { at: passed.at, tree: passed.tree.clone(), sure }
    };
    let contents = |leaves: &Leaves| -> Vec<(String, Vec<u8>)> {
        let here =
            |(name, content): &(String, Option<Vec<u8>>)| Some((format!("{}/{name}", scene.name), content.clone()?));
        leaves.iter().filter_map(here).collect()
    };
    let saved = passed.iter().flat_map(|passed| match &passed.sure {
        Sure::Synced(leaves) => contents(leaves),
        Sure::Nothing | Sure::Operation(..) => Vec::new(),
    });
    let answered = passed.iter().filter_map(|passed| match passed.sure {
        Sure::Operation(op, _) => Some(op),
        Sure::Nothing | Sure::Synced(_) => None,
    });
    Played {
        name: scene.name,
        acknowledged: passed.last().map_or(&scene.before, |passed| &passed.tree).clone(),
        saved: saved.collect(),
        answered: answered.collect(),
        unanswered: None,
        cut_off: false,
        before: scene.before.clone(),
        passed: passed.iter().map(copy).collect(),
    }
}

/// What is sure of a path: the tree that shows it.
fn sure<'a>(scene: &'a Played, count: usize, path: &[u8]) -> Option<&'a Tree> {
    let mut known = Some(&scene.before);
    let mut last = &scene.before;
    for passed in &scene.passed[..count] {
        let changed = passed.tree.get(path) != last.get(path);
        let said = match &passed.sure {
            Sure::Nothing => false,
            Sure::Synced(leaves) => leaves.iter().any(|(name, _)| name.as_bytes() == path),
            Sure::Operation(..) => changed,
        };
        if said {
            known = Some(&passed.tree);
        } else if changed {
            known = None;
        }
        last = &passed.tree;
    }
    known
}

/// Of the scene's first `count` steps, what is sure is there; of the one that was cut off all is, if it is a tool's, or nothing.
fn stands(mount: &Mounted, scene: &Played, count: usize) {
    let now = Tree::of(&mount.beside(scene.name), Times::Ignore);
    let next = scene.passed.get(count);
    let last = count.checked_sub(1).map_or(&scene.before, |at| &scene.passed[at].tree);
    let known: BTreeSet<&[u8]> =
        scene.passed[..count].iter().map(|passed| &passed.tree).chain([&scene.before]).flat_map(Tree::paths).collect();
    let under_way = |path: &[u8]| next.is_some_and(|next| next.tree.get(path) != last.get(path) || names(next, path));
    for path in known.into_iter().filter(|path| !under_way(path)) {
        let Some(tree) = sure(scene, count, path) else { continue };
        assert!(
            now.get(path) == tree.get(path),
            "{}/{}: after {count} steps it should be {:?} and is {:?}",
            scene.name,
            path.escape_ascii(),
            tree.get(path),
            now.get(path)
        );
    }
    let Some(Passed { sure: Sure::Operation(op, leaves), tree, .. }) = next else { return };
    let all_sure = leaves.iter().all(|(name, _)| sure(scene, count, name.as_bytes()).is_some());
    let like = |other: &Tree| leaves.iter().all(|(name, _)| now.get(name.as_bytes()) == other.get(name.as_bytes()));
    assert!(
        !all_sure || like(last) || like(tree),
        "operation {op} of {} is neither whole nor undone:\n{}",
        scene.name,
        last.diff(&now)
    );
}

fn names(passed: &Passed, path: &[u8]) -> bool {
    match &passed.sure {
        Sure::Nothing => false,
        Sure::Synced(leaves) | Sure::Operation(_, leaves) => leaves.iter().any(|(name, _)| name.as_bytes() == path),
    }
}

/// Everything is as it was at the start, but for names and metadata that a shell changed and nobody put on disk: the change may
/// have reached the disk, and its record not. Then what it removed is kept aside, what it moved stands elsewhere, and what it
/// made stays.
fn taken_back(mount: &Mounted, played: &[Played], first: &Tree, now: &Tree, at: u64) {
    let aside = Tree::of(&mount.setup().store_path().join("aside"), Times::Ignore);
    let holds = |tree: &Tree, item: &Item| tree.paths().any(|name| tree.get(name).is_some_and(|a| a.is_copy_of(item)));
    let kept = |item: &Item| !item.is_file() || holds(&aside, item) || holds(now, item);
    let all: BTreeSet<&[u8]> = first.paths().chain(now.paths()).collect();
    for path in all.into_iter().filter(|path| first.get(path) != now.get(path)) {
        let excused = match (first.get(path), now.get(path)) {
            // A name that a step had in between is in no tree.
            (None, _) => by_shell(played, path, at).any(|item| item.is_some()) || !is_in_a_tree(played, path),
            (Some(was), None) => kept(was) && by_shell(played, path, at).any(|item| item.is_none()),
            (Some(was), Some(_)) => {
                by_shell(played, path, at).flatten().any(Item::has_other_names)
                    || (kept(was) && by_shell(played, path, at).any(|item| item.is_some()))
            }
        };
        assert!(
            excused,
            "{}: taken back to the start it should be {:?} and is {:?}",
            path.escape_ascii(),
            first.get(path),
            now.get(path)
        );
    }
}

fn is_in_a_tree(played: &[Played], path: &[u8]) -> bool {
    let in_scene = |scene: &Played| {
        let below = path.strip_prefix(scene.name.as_bytes()).and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|below| scene.passed.iter().any(|passed| passed.tree.get(below).is_some()))
    };
    played.iter().any(in_scene)
}

/// What the steps of a shell that nobody had put on disk until this moment left at a path of the source.
fn by_shell<'a>(played: &'a [Played], path: &'a [u8], at: u64) -> impl Iterator<Item = Option<&'a Item>> {
    let in_scene = played.iter().filter_map(move |scene| Some((scene, path.strip_prefix(scene.name.as_bytes())?)));
    in_scene.flat_map(move |(scene, below)| {
        let unsure = scene.passed.iter().filter(move |passed| match passed.sure {
            Sure::Nothing => true,
            Sure::Synced(_) => passed.at > at,
            Sure::Operation(..) => false,
        });
        unsure.map(move |passed| passed.tree.get(below.strip_prefix(b"/").unwrap_or(below)))
    })
}
