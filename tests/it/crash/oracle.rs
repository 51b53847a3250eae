//! What must hold after a crash, whenever it came.

use std::{collections::HashSet, ffi::OsStr, os::unix::ffi::OsStrExt};

use serde_json::{Value, json};
use wardfs::{
    types::{Channel, Hash, OpId, ViewPath},
    versions::{Change, ChangeKind, Content, HistoryQuery, Loss, Operation, State, Store, StoreOptions},
};

use super::load::Played;
use crate::harness::{Item, Mounted, Times, Tree};

/// Contents are read whole up to this size.
const CONTENT_MAX: u64 = 64 << 20;

/// The daemon is down. Mounts, looks, and takes everything back to `first`, the tree at the checkpoint `start`.
pub fn judge(mount: &mut Mounted, played: &[Played], first: &Tree) {
    let taken_back = |_: &Mounted, now: &Tree| first.same(now, "taken back to the start, it is not as it was");
    let rules = Rules {
        stands: &stands,
        on_conflict: "fail",
        taken_back: &taken_back,
        may_be_lost: &|path| path == "outside/o",
        may_stand: false,
    };
    judge_by(mount, played, &rules);
}

/// What differs between kinds of crashes.
pub struct Rules<'a> {
    /// Fails unless what must be there of a scene is there.
    pub stands: &'a dyn Fn(&Mounted, &Played),
    /// What a revert does where something is in its way.
    pub on_conflict: &'a str,
    /// Fails unless a tree is what taking everything back has to leave.
    pub taken_back: &'a dyn Fn(&Mounted, &Tree),
    /// May the log say of the file at a path that a content of it was lost beside us?
    pub may_be_lost: &'a dyn Fn(&str) -> bool,
    /// May a saved content be in no version, because its file stands, under a name that the log does not know?
    pub may_stand: bool,
}

/// The same, by other rules.
pub fn judge_by(mount: &mut Mounted, played: &[Played], rules: &Rules<'_>) {
    mount.mount_again();
    for scene in played {
        (rules.stands)(mount, scene);
    }
    let (tree, said) = (Tree::of(mount.source(), Times::Compare), mount.client().history(None));
    mount.kill();
    mount.mount_again();
    tree.same(&Tree::of(mount.source(), Times::Compare), "recovering once more changed files");
    same_history(&said, &mount.client().history(None));
    mount.client().revert(&json!({"checkpoint": "start", "on_conflict": rules.on_conflict}));
    (rules.taken_back)(mount, &Tree::of(mount.source(), Times::Compare));
    mount.umount().ok();
    assert!(mount.gone_within(30), "the daemon does not end");
    remembered(mount, played, rules);
}

/// What was acknowledged is there; a call that was not answered is there whole, or not at all.
fn stands(mount: &Mounted, scene: &Played) {
    let host = mount.beside(scene.name);
    let now = Tree::of(&host, Times::Ignore);
    let differs = scene.acknowledged.diff(&now);
    if differs.is_empty() || scene.cut_off {
        return;
    }
    let whole = scene
        .unanswered
        .as_ref()
        .is_some_and(|leaves| leaves.iter().all(|(name, content)| std::fs::read(host.join(name)).ok() == *content));
    assert!(
        whole,
        "{}: it is neither as acknowledged nor as the call that was cut off would leave it:\n{differs}",
        scene.name
    );
}

fn same_history(before: &[Value], after: &[Value]) {
    let other: Vec<&Value> = after.iter().filter(|row| !before.contains(row)).collect();
    assert!(other.is_empty(), "recovering once more changed history: {other:?}");
    assert_eq!(before.len(), after.len(), "recovering once more took from history");
}

/// The store alone: all contents read with their hashes, what was acknowledged is recorded, and the index is worth nothing.
fn remembered(mount: &Mounted, played: &[Played], rules: &Rules<'_>) {
    let path = mount.setup().store_path();
    let store = Store::open(path, &StoreOptions::default()).unwrap();
    let said = all(&store);
    let mut known: HashSet<(String, Hash)> = HashSet::new();
    for operation in &said {
        for change in &operation.changes {
            for hash in contents(&store, operation, change, rules) {
                known.insert((change.path.to_string(), hash));
            }
        }
    }
    for scene in played {
        for (path, content) in &scene.saved {
            assert!(
                known.contains(&(path.clone(), Hash::of(content))) || (rules.may_stand && holds(mount, content)),
                "{path}: {} bytes that were saved are in no version of {:#?}",
                content.len(),
                said.iter().filter(|operation| touches(operation, path)).collect::<Vec<_>>()
            );
        }
        for op in &scene.answered {
            let found = store.operation(OpId(*op)).unwrap().unwrap_or_else(|| panic!("operation {op} is gone"));
            assert!(matches!(found.actor.channel, Channel::Tool | Channel::Revert), "{found:?}");
            assert_eq!(found.actor.session.as_deref(), Some(scene.name));
        }
    }
    store.close().unwrap();
    drop(store);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.join("index.db").display()));
    }
    let store = Store::open(path, &StoreOptions::default()).unwrap();
    for (before, after) in said.iter().zip(all(&store)) {
        assert_eq!(*before, after, "the index built anew says something else");
    }
    assert_eq!(said.len(), all(&store).len());
}

/// Does a file of the source hold this?
fn holds(mount: &Mounted, content: &[u8]) -> bool {
    let tree = Tree::of(mount.source(), Times::Ignore);
    let file = |path: &[u8]| mount.source().join(OsStr::from_bytes(path));
    tree.paths().any(|path| tree.get(path).is_some_and(Item::is_file) && std::fs::read(file(path)).unwrap() == content)
}

/// Is an operation about something of this name?
fn touches(operation: &Operation, path: &str) -> bool {
    let named =
        |at: &ViewPath| at.as_bytes().rsplit(|b| *b == b'/').next() == path.as_bytes().rsplit(|b| *b == b'/').next();
    operation.changes.iter().any(|change| named(&change.path) || change.from.as_ref().is_some_and(named))
}

fn all(store: &Store) -> Vec<Operation> {
    let query = HistoryQuery { limit: 100_000, oldest_first: true, ..HistoryQuery::default() };
    store.history(&query).unwrap().operations
}

/// The hashes of a change's contents, before and after it. Each is read whole.
fn contents(store: &Store, operation: &Operation, change: &Change, rules: &Rules<'_>) -> Vec<Hash> {
    let before = change.before.as_ref().map(|state| (state, state.content.clone()));
    // Of an operation's changes of one inode the last says what was after it; of an exchange `after` is the other inode's.
    let last = operation.changes.iter().rev().find(|other| other.node == change.node);
    let says = change.kind != ChangeKind::Exchange && last.is_some_and(|last| std::ptr::eq(last, change));
    let after = change.after.as_ref().filter(|_| says);
    let after = after.map(|state| (state, store.content_of(change.node, operation.op).unwrap()));
    [before, after]
        .into_iter()
        .flatten()
        .filter_map(|(state, content)| hash(store, operation, change, (state, &content), rules))
        .collect()
}

fn hash(
    store: &Store,
    operation: &Operation,
    change: &Change,
    (state, content): (&State, &Content),
    rules: &Rules<'_>,
) -> Option<Hash> {
    let lost = |why: &str| panic!("{} after operation {}: {why}: {operation:#?}", change.path, operation.op);
    match content {
        Content::None | Content::Target(_) | Content::Live(_) => None,
        Content::Lost(Loss::External) if (rules.may_be_lost)(&change.path.to_string()) => None,
        Content::Lost(loss) => lost(&format!("its content is lost: {loss:?}")),
        Content::Blob(_) | Content::Aside(_) => match store.read_all(content, CONTENT_MAX) {
            Ok(bytes) if bytes.len() as u64 != state.size => {
                lost(&format!("{} bytes, not {}", bytes.len(), state.size))
            }
            Ok(bytes) => Some(Hash::of(&bytes)),
            Err(error) => lost(&error.to_string()),
        },
    }
}
