//! A tree that is remembered whole after each operation, against what the store tells of the past.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::ground::{Ground, change, operation, path, state};
use crate::{
    types::{Hash, Kind, NodeId, OpId, SourceId, ViewPath},
    versions::{Change, ChangeKind, Content, HistoryQuery, PathAt, State, Store},
};

const NAMES: [&str; 14] = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "e", "e/a", "e/e", "e/e/a", "ab"];

#[derive(Clone, Debug)]
enum Act {
    Create(usize),
    Mkdir(usize),
    Write(usize),
    Touch(usize),
    Link(usize, usize),
    Rename(usize, usize),
    Exchange(usize, usize),
    Remove(usize),
    /// Removes a directory with all below it, and makes it anew with one file, in one operation.
    Replace(usize),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let at = || 0..NAMES.len();
    prop_oneof![
        5 => at().prop_map(Act::Create),
        5 => at().prop_map(Act::Mkdir),
        4 => at().prop_map(Act::Write),
        1 => at().prop_map(Act::Touch),
        1 => (at(), at()).prop_map(|(from, to)| Act::Link(from, to)),
        6 => (at(), at()).prop_map(|(from, to)| Act::Rename(from, to)),
        3 => (at(), at()).prop_map(|(from, to)| Act::Exchange(from, to)),
        2 => at().prop_map(Act::Remove),
        1 => at().prop_map(Act::Replace),
        1 => Just(Act::Restart),
    ]
}

/// An entry: its inode, and its version. A file's content is its version.
type Entry = (u64, Kind, u64);
type Tree = BTreeMap<ViewPath, Entry>;

fn content(version: u64) -> Vec<u8> {
    format!("version {version}").into_bytes()
}

struct Model {
    tree: Tree,
    /// The tree after each operation; 0 is the empty one.
    past: Vec<Tree>,
    changes: Vec<Vec<Change>>,
    nodes: u64,
    versions: u64,
}

impl Model {
    fn free(&self, at: &ViewPath) -> bool {
        let parent = at.parent().expect("not the root");
        !self.tree.contains_key(at) && (parent.is_root() || self.tree.get(&parent).is_some_and(|e| e.1 == Kind::Dir))
    }

    fn below(&self, at: &ViewPath) -> Vec<ViewPath> {
        self.tree.keys().filter(|path| path.starts_with(at)).cloned().collect()
    }

    /// A state as it is recorded: live, or with its content kept.
    fn state(entry: Entry, kept: bool) -> State {
        let (_, kind, version) = entry;
        let content = match (kind, kept) {
            (Kind::File, true) => Content::Blob(Hash::of(&content(version))),
            (Kind::File, false) => Content::Live(None),
            _ => Content::None,
        };
        state(kind, version, content)
    }

    fn made(&mut self, at: &ViewPath, kind: Kind) -> Change {
        (self.nodes, self.versions) = (self.nodes + 1, self.versions + 1);
        let entry = (self.nodes, kind, self.versions);
        self.tree.insert(at.clone(), entry);
        change(ChangeKind::Create, &at.to_string(), entry.0, None, Some(Self::state(entry, false)))
    }

    fn removed(&mut self, at: &ViewPath) -> Change {
        let entry = self.tree.remove(at).expect("there");
        let others = self.tree.values().any(|other| other.0 == entry.0);
        change(ChangeKind::Remove, &at.to_string(), entry.0, Some(Self::state(entry, !others)), None)
    }

    /// Moves everything at and below `from`.
    fn moved(tree: &mut Tree, from: &ViewPath, to: &ViewPath) -> Vec<(ViewPath, Entry)> {
        let paths: Vec<_> = tree.keys().filter(|path| path.starts_with(from)).cloned().collect();
        paths
            .into_iter()
            .map(|old| {
                let entry = tree.remove(&old).expect("there");
                (to.join_path(&old.strip_prefix(from).expect("below")), entry)
            })
            .collect()
    }

    /// What the act changes; none if it cannot be.
    fn run(&mut self, act: &Act) -> Option<Vec<Change>> {
        let name = |at: &usize| path(NAMES[*at]);
        match act {
            Act::Create(at) | Act::Mkdir(at) => {
                let kind = if matches!(act, Act::Mkdir(_)) { Kind::Dir } else { Kind::File };
                self.free(&name(at)).then(|| vec![self.made(&name(at), kind)])
            }
            Act::Write(at) | Act::Touch(at) => {
                let at = name(at);
                let old = *self.tree.get(&at).filter(|entry| entry.1 == Kind::File)?;
                let writes = matches!(act, Act::Write(_));
                let mut new = old;
                if writes {
                    self.versions += 1;
                    new.2 = self.versions;
                }
                // All names of the inode show it; the record has one.
                self.tree.values_mut().filter(|entry| entry.0 == old.0).for_each(|entry| *entry = new);
                let kind = if writes { ChangeKind::Write } else { ChangeKind::Meta };
                let (before, after) = (Self::state(old, writes), Self::state(new, false));
                Some(vec![change(kind, &at.to_string(), old.0, Some(before), Some(after))])
            }
            Act::Link(from, to) => {
                let (from, to) = (name(from), name(to));
                let entry = *self.tree.get(&from).filter(|entry| entry.1 == Kind::File)?;
                if !self.free(&to) {
                    return None;
                }
                self.tree.insert(to.clone(), entry);
                let state = Some(Self::state(entry, false));
                let mut link = change(ChangeKind::Link, &to.to_string(), entry.0, state.clone(), state);
                link.from = Some(from);
                Some(vec![link])
            }
            Act::Rename(from, to) => {
                let (from, to) = (name(from), name(to));
                let entry = *self.tree.get(&from)?;
                let target = self.tree.get(&to).copied();
                let fits = match target {
                    None => self.free(&to),
                    Some(target) => target.1 == entry.1 && target.0 != entry.0 && self.below(&to).len() == 1,
                };
                if !fits || to.starts_with(&from) {
                    return None;
                }
                let mut changes: Vec<_> = target.iter().map(|_| self.removed(&to)).collect();
                let moved = Self::moved(&mut self.tree, &from, &to);
                self.tree.extend(moved);
                let state = Some(Self::state(entry, false));
                let mut rename = change(ChangeKind::Rename, &to.to_string(), entry.0, state.clone(), state);
                rename.from = Some(from);
                changes.push(rename);
                Some(changes)
            }
            Act::Exchange(from, to) => {
                let (from, to) = (name(from), name(to));
                let (one, other) = (*self.tree.get(&from)?, *self.tree.get(&to)?);
                if from.starts_with(&to) || to.starts_with(&from) || one.0 == other.0 {
                    return None;
                }
                let mut moved = Self::moved(&mut self.tree, &from, &to);
                moved.extend(Self::moved(&mut self.tree, &to, &from));
                self.tree.extend(moved);
                let states = (Some(Self::state(one, false)), Some(Self::state(other, false)));
                let mut exchange = change(ChangeKind::Exchange, &to.to_string(), one.0, states.0, states.1);
                exchange.from = Some(from);
                Some(vec![exchange])
            }
            Act::Remove(at) => {
                let at = name(at);
                (self.below(&at).len() == 1).then(|| vec![self.removed(&at)])
            }
            Act::Replace(at) => {
                let at = name(at);
                self.tree.get(&at).filter(|entry| entry.1 == Kind::Dir)?;
                let mut changes: Vec<_> = self.below(&at).iter().rev().map(|path| self.removed(path)).collect();
                changes.push(self.made(&at, Kind::Dir));
                let inner = at.join_path(&path("a"));
                changes.push(self.made(&inner, Kind::File));
                Some(changes)
            }
            Act::Restart => None,
        }
    }
}

fn check_past(store: &Store, model: &Model) {
    for name in NAMES {
        let at = path(name);
        for (op, tree) in model.past.iter().enumerate() {
            let op = OpId(op as u64);
            let expected = tree.get(&at);
            let got = store.path_at(SourceId(1), &at, op).expect("answered");
            let what = format!("{name} after {op}: {got:?}, expected {expected:?}");
            match &got {
                PathAt::Absent => assert_eq!(expected, None, "{what}"),
                PathAt::Now(now) => {
                    let now = model.tree.get(now);
                    assert_eq!(now.map(|entry| entry.0), expected.map(|entry| entry.0), "{what}");
                    // A second name that shows a write through the first one is told by the inode's operations.
                    let linked = expected.is_some_and(|entry| is_linked(model, entry.0));
                    assert!(linked || now == expected, "{what}");
                }
                PathAt::Was { node, state, next } => {
                    let entry = expected.unwrap_or_else(|| panic!("{what}"));
                    assert!(*next > op, "{what}");
                    assert_eq!((node.0, state.kind), (entry.0, entry.1), "{what}");
                    assert!(is_linked(model, entry.0) || state.size == entry.2, "{what}");
                }
            }
        }
    }
}

fn is_linked(model: &Model, node: u64) -> bool {
    model.past.iter().any(|tree| tree.values().filter(|entry| entry.0 == node).count() > 1)
}

/// The content of each inode after each operation that touched it.
fn check_contents(store: &Store, model: &Model) {
    for (op, changes) in model.changes.iter().enumerate() {
        for change in changes {
            let after = if change.kind == ChangeKind::Exchange { &change.before } else { &change.after };
            let Some(state) = after.as_ref().filter(|state| state.kind == Kind::File) else { continue };
            let op = OpId(op as u64 + 1);
            match store.content_of(change.node, op).expect("answered") {
                Content::Blob(hash) => assert_eq!(hash, Hash::of(&content(state.size)), "{:?} after {op}", change.node),
                Content::Live(None) => {
                    let now = model.tree.values().find(|entry| entry.0 == change.node.0);
                    assert_eq!(now.map(|entry| entry.2), Some(state.size), "{:?} after {op}", change.node);
                }
                other @ (Content::None
                | Content::Target(_)
                | Content::Aside(_)
                | Content::Live(Some(_))
                | Content::Lost(_)) => panic!("{:?} after {op}: {other:?}", change.node),
            }
        }
    }
}

/// Operations that touch a path, or what stands there now wherever it was before: by walking back.
fn history_of(model: &Model, at: &ViewPath) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut name = Some(at.clone());
    let mut followed = false;
    for (op, changes) in model.changes.iter().enumerate().rev() {
        let touched = |path: &ViewPath| {
            changes.iter().any(|change| {
                change.path.starts_with(path)
                    || (change.kind != ChangeKind::Link && change.from.as_ref().is_some_and(|f| f.starts_with(path)))
            })
        };
        if touched(at) || (followed && name.as_ref().is_some_and(touched)) {
            found.insert(op as u64 + 1);
        }
        for change in changes.iter().rev() {
            let Some(path) = name.clone() else { break };
            let from = change.from.clone().unwrap_or_default();
            match change.kind {
                ChangeKind::Create | ChangeKind::Link if change.path == path => name = None,
                ChangeKind::Rename | ChangeKind::Exchange if path.starts_with(&change.path) => {
                    name = path.strip_prefix(&change.path).map(|below| from.join_path(&below));
                    followed = true;
                }
                ChangeKind::Exchange if path.starts_with(&from) => {
                    name = path.strip_prefix(&from).map(|below| change.path.join_path(&below));
                    followed = true;
                }
                ChangeKind::Create
                | ChangeKind::Link
                | ChangeKind::Write
                | ChangeKind::Meta
                | ChangeKind::Remove
                | ChangeKind::Rename
                | ChangeKind::Exchange => {}
            }
        }
    }
    found
}

fn check_history(store: &Store, model: &Model) {
    for name in NAMES {
        let query = HistoryQuery { path: Some((SourceId(1), path(name))), limit: 1000, ..HistoryQuery::default() };
        let page = store.history(&query).expect("answered");
        let got: BTreeSet<u64> = page.operations.iter().map(|operation| operation.op.0).collect();
        assert_eq!(got, history_of(model, &path(name)), "{name}");
        assert!(page.operations.is_sorted_by_key(|operation| std::cmp::Reverse(operation.op)));
    }
    for node in 1..=model.nodes {
        let query =
            HistoryQuery { node: Some(NodeId(node)), limit: 1000, oldest_first: true, ..HistoryQuery::default() };
        let page = store.history(&query).expect("answered");
        let got: Vec<u64> = page.operations.iter().map(|operation| operation.op.0).collect();
        let touches = |changes: &Vec<Change>| changes.iter().any(|change| change.node.0 == node);
        let expected: Vec<u64> = (1..).zip(&model.changes).filter(|(_, c)| touches(c)).map(|(op, _)| op).collect();
        assert_eq!(got, expected, "node {node}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn the_past_is_as_it_was(acts in prop::collection::vec(act(), 1..45)) {
        let ground = Ground::in_memory();
        let mut model =
            Model { tree: Tree::new(), past: vec![Tree::new()], changes: Vec::new(), nodes: 0, versions: 0 };
        let mut store = ground.open();
        for act in &acts {
            if matches!(act, Act::Restart) {
                drop(store);
                store = ground.open();
            }
            let Some(changes) = model.run(act) else { continue };
            let op = store.next_op();
            store.append(&operation(op, changes.clone())).expect("appended");
            model.changes.push(changes);
            model.past.push(model.tree.clone());
        }
        for version in 1..=model.versions {
            store.put_blob(&content(version)).expect("kept");
        }
        check_past(&store, &model);
        check_contents(&store, &model);
        check_history(&store, &model);
        drop(store);
        let store = ground.without_index().open();
        check_past(&store, &model);
        check_history(&store, &model);
    }
}
