//! The last recorded state of each inode, in memory: of those that the index has not seen yet, and of those used lately.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use parking_lot::Mutex;

use super::{Change, ChangeKind, Content, NodeKey, Operation, State};
use crate::types::{Kind, NodeId, OpId, SourceId, ViewPath};

/// A generation of so many entries is kept, and the one before it.
const GENERATION: usize = 32 << 10;

/// What is known of a node's last state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// After this operation; none after a removal.
    Known(OpId, Option<State>),
    /// An operation was taken back: the index knows, when it has seen that.
    Ask,
}

/// A map that forgets what was not used lately, but nothing whose pin is beyond what the index has seen and what is on disk.
struct Recent<K, V> {
    young: HashMap<K, (V, u64)>,
    old: HashMap<K, (V, u64)>,
    /// What was carried over as pinned when this generation began; it lasts the longer for it, so that a flood is cheap.
    carried: usize,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent { young: HashMap::new(), old: HashMap::new(), carried: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some(entry) = self.old.remove(key) {
            self.young.insert(key.clone(), entry);
        }
        self.young.get_mut(key).map(|(value, _)| value)
    }

    fn insert(&mut self, key: K, value: V, pin: u64, indexed: u64) {
        if self.young.len() >= 2 * self.carried + GENERATION {
            let older = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.young.extend(older.into_iter().filter(|(_, (_, pin))| *pin > indexed));
            self.carried = self.young.len();
        }
        self.old.remove(&key);
        self.young.insert(key, (value, pin));
    }
}

/// The last operation that touches a path that is no directory's, and the one before it, where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastTouching {
    pub op: Option<OpId>,
    pub before: Option<Option<OpId>>,
    /// As many moves of directories and operations taken back had been seen when this was known.
    turns: u64,
}

#[derive(Default)]
struct Maps {
    keys: Recent<NodeKey, NodeId>,
    states: Recent<NodeId, Head>,
    /// The nodes of operations that may be appended again.
    touched: Recent<OpId, Vec<NodeId>>,
    paths: Recent<(SourceId, ViewPath), LastTouching>,
    turns: u64,
    /// The highest operation that was recorded since the start.
    last: u64,
    indexed: u64,
}

impl Maps {
    fn known(&mut self, path: &(SourceId, ViewPath)) -> Option<LastTouching> {
        let turns = self.turns;
        self.paths.get(path).copied().filter(|known| known.turns == turns)
    }

    /// A change touches its paths. What comes to a path brings its own past along, or none: that is left to the index.
    fn changed(&mut self, op: OpId, change: &Change) {
        let comes = match change.kind {
            ChangeKind::Create | ChangeKind::Rename | ChangeKind::Exchange | ChangeKind::Link => true,
            ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove => false,
        };
        for path in [Some(&change.path), change.from.as_ref()].into_iter().flatten() {
            let path = (change.source, path.clone());
            self.touches(op, path.clone());
            if let Some(entry) = self.paths.get(&path).filter(|_| comes) {
                entry.before = None;
            }
        }
    }

    fn touches(&mut self, op: OpId, path: (SourceId, ViewPath)) {
        let (turns, indexed) = (self.turns, self.indexed);
        let now = match self.known(&path) {
            Some(known) if known.op == Some(op) => return,
            // It is recorded late, and may stand just before the last one.
            Some(known) if known.op > Some(op) => {
                LastTouching { before: known.before.map(|before| before.max(Some(op))), ..known }
            }
            Some(known) => LastTouching { op: Some(op), before: Some(known.op), turns },
            // Of an operation that is recorded late it is not known whether it is the last one.
            None if op.0 < self.last => return,
            None => LastTouching { op: Some(op), before: None, turns },
        };
        self.paths.insert(path, now, 0, indexed);
    }
}

/// The heads of a store. Its lock is taken last.
#[derive(Default)]
pub(super) struct Heads(Mutex<Maps>);

impl Heads {
    /// The number of an inode, if it is in memory.
    pub fn node(&self, key: &NodeKey) -> Option<NodeId> {
        self.0.lock().keys.get(key).copied()
    }

    /// The last state of a node, if it is in memory.
    pub fn state(&self, node: NodeId) -> Option<Head> {
        self.0.lock().states.get(&node).cloned()
    }

    /// Keeps what the index answered, unless something was recorded meanwhile.
    pub fn found(&self, key: &NodeKey, node: NodeId, head: Option<Head>) {
        let mut maps = self.0.lock();
        let indexed = maps.indexed;
        if maps.keys.get(key).is_none() {
            maps.keys.insert(key.clone(), node, 0, indexed);
        }
        if let Some(head) = head
            && maps.states.get(&node).is_none()
        {
            maps.states.insert(node, head, 0, indexed);
        }
    }

    /// The nodes that an operation touched when it was appended before, if that is in memory.
    pub fn touched(&self, op: OpId) -> Option<Vec<NodeId>> {
        self.0.lock().touched.get(&op).cloned()
    }

    /// The last operation that touches a path, if that is in memory.
    pub fn last_touching(&self, source: SourceId, path: &ViewPath) -> Option<LastTouching> {
        let mut maps = self.0.lock();
        let turns = maps.turns;
        maps.paths.get(&(source, path.clone())).copied().filter(|known| known.turns == turns)
    }

    /// A number to give to [`Heads::found_touching`] with an answer that was looked up after it.
    pub fn turns(&self) -> u64 {
        self.0.lock().turns
    }

    /// Keeps what the index answered, unless something was recorded meanwhile.
    pub fn found_touching(&self, source: SourceId, path: &ViewPath, op: Option<OpId>, turns: u64) {
        let mut maps = self.0.lock();
        let key = (source, path.clone());
        if maps.turns == turns && maps.paths.get(&key).is_none_or(|known| known.turns != turns) {
            let indexed = maps.indexed;
            maps.paths.insert(key, LastTouching { op, before: None, turns }, 0, indexed);
        }
    }

    /// An operation was appended, up to log position `end`. `before`: the nodes it touched when it was appended before.
    pub fn recorded(&self, operation: &Operation, before: &[NodeId], end: u64) {
        let mut maps = self.0.lock();
        let indexed = maps.indexed;
        let mut nodes = HashSet::new();
        for change in &operation.changes {
            if let Some(key) = &change.key {
                maps.keys.insert(key.clone(), change.node, end, indexed);
            }
            let state = if change.kind == ChangeKind::Exchange { &change.before } else { &change.after };
            maps.states.insert(change.node, Head::Known(operation.op, state.clone()), end, indexed);
            nodes.insert(change.node);
            let is_dir = change.before.as_ref().or(change.after.as_ref()).is_some_and(|state| state.kind == Kind::Dir);
            if is_dir && change.from.is_some() {
                maps.turns += 1;
            }
            maps.changed(operation.op, change);
        }
        maps.last = maps.last.max(operation.op.0);
        for node in before.iter().filter(|node| !nodes.contains(node)) {
            maps.states.insert(*node, Head::Ask, end, indexed);
        }
        maps.touched.insert(operation.op, nodes.into_iter().collect(), end, indexed);
    }

    /// A node got its number in an OPEN record.
    pub fn bound(&self, key: &NodeKey, node: NodeId, end: u64) {
        let mut maps = self.0.lock();
        let indexed = maps.indexed;
        maps.keys.insert(key.clone(), node, end, indexed);
    }

    /// An operation was taken back.
    pub fn aborted(&self, nodes: &[NodeId], end: u64) {
        let mut maps = self.0.lock();
        if !nodes.is_empty() {
            maps.turns += 1;
        }
        let indexed = maps.indexed;
        for node in nodes {
            maps.states.insert(*node, Head::Ask, end, indexed);
        }
    }

    /// The live content of a node after `op` is in the store now.
    pub fn settled(&self, op: OpId, node: NodeId, content: &Content, end: u64) {
        let mut maps = self.0.lock();
        let indexed = maps.indexed;
        let Some(Head::Known(last, Some(state))) = maps.states.get(&node).cloned() else { return };
        if last == op && matches!(state.content, Content::Live(_)) {
            let state = State { content: content.clone(), ..state };
            maps.states.insert(node, Head::Known(op, Some(state)), end, indexed);
        }
    }

    /// Where the last record that gave a node the state in memory ends; 0 if that record is on disk, and the index has seen it.
    pub fn recorded_until(&self, node: NodeId) -> u64 {
        let maps = self.0.lock();
        let entry = maps.states.young.get(&node).or_else(|| maps.states.old.get(&node));
        entry.map_or(0, |(_, end)| *end)
    }

    /// The index has seen all up to `end`, and it is on disk.
    pub fn indexed(&self, end: u64) {
        self.0.lock().indexed = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_index_has_not_seen_is_never_forgotten() {
        let mut map: Recent<usize, usize> = Recent::default();
        for n in 0..GENERATION * 3 {
            map.insert(n, n, if n == 7 { 100 } else { 1 }, 50);
        }
        assert_eq!(map.get(&7), Some(&mut 7), "its pin is beyond 50");
        assert_eq!(map.get(&8), None);
        assert!(map.young.len() + map.old.len() <= 2 * GENERATION + 1);
    }

    #[test]
    fn a_flood_that_the_index_has_not_seen_costs_as_much_an_entry_as_a_few_do() {
        let mut map: Recent<usize, usize> = Recent::default();
        let mut turns = 0;
        for n in 0..GENERATION * 8 {
            let old = map.old.len();
            map.insert(n, n, 100, 50);
            turns += usize::from(map.old.len() > old);
        }
        assert!(turns < 8, "{turns} turns of generations");
        assert!((0..GENERATION * 8).all(|n| map.get(&n) == Some(&mut n.clone())));
        for n in 0..GENERATION * 24 {
            map.insert(n, n, 100, 101);
        }
        assert!(map.young.len() + map.old.len() < GENERATION * 6, "what is seen goes in the end");
    }
}
