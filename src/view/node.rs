//! A node: a file as one view shows it under one class of policy; it owns the number the kernel knows it by.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::file::File;
use crate::{
    host::DirStream,
    policy::Class,
    types::{EntryName, Ino, ViewPath},
};

/// The first number given where the host's own cannot be used.
const FIRST_FREE: u64 = 1 << 63;

/// A file in a view.
pub(crate) struct Node {
    pub ino: Ino,
    pub file: Arc<File>,
    pub class: Class,
    /// The names by which it was reached, the latest last. A directory has one, the root none.
    pub names: Mutex<Vec<(Arc<Node>, EntryName)>>,
    /// Where a directory is being read.
    pub stream: Mutex<Option<DirStream>>,
    /// What a reloaded policy says of it: 0 as its class, else `READ_ONLY`, `HIDDEN` or `FREE`.
    verdict: AtomicU8,
    view: u32,
    table: Weak<Table>,
}

/// Changes are refused since a reload.
const READ_ONLY: u8 = 1;
/// It does not exist any more since a reload.
const HIDDEN: u8 = 2;
/// Changes were refused until a reload.
const FREE: u8 = 3;

struct Slot {
    node: Weak<Node>,
    /// The kernel's references, and what keeps the node while there are any.
    lookups: u64,
    held: Option<Arc<Node>>,
}

struct Table {
    slots: RwLock<HashMap<u64, Slot>>,
    next: AtomicU64,
    primary: u32,
}

/// All nodes of a view.
pub(crate) struct NodeTable {
    table: Arc<Table>,
    pub root: Arc<Node>,
}

impl NodeTable {
    pub fn new(root: Arc<File>, class: Class, view: u32) -> Self {
        let primary = root.host.key().fs;
        let table = Arc::new(Table { slots: RwLock::default(), next: AtomicU64::new(FIRST_FREE), primary });
        let root = Arc::new(Node {
            ino: Ino::ROOT,
            file: root,
            class,
            names: Mutex::default(),
            stream: Mutex::default(),
            verdict: AtomicU8::new(0),
            view,
            table: Arc::downgrade(&table),
        });
        root.file.nodes.lock().push((view, class, Arc::downgrade(&root)));
        let slot = Slot { node: Arc::downgrade(&root), lookups: 1, held: Some(Arc::clone(&root)) };
        table.slots.write().insert(Ino::ROOT.0, slot);
        NodeTable { table, root }
    }

    /// The node of `file` under `class`: the one there is, or a new one.
    pub fn intern(&self, view: u32, file: &Arc<File>, class: Class) -> Arc<Node> {
        let mut nodes = file.nodes.lock();
        let known = nodes.iter().find(|(v, c, _)| (*v, *c) == (view, class)).and_then(|(_, _, node)| node.upgrade());
        if let Some(node) = known {
            return node;
        }
        nodes.retain(|(_, _, node)| node.strong_count() > 0);
        let mut slots = self.table.slots.write();
        let host = file.host.key();
        let taken = |ino: u64| slots.get(&ino).is_some_and(|slot| slot.node.strong_count() > 0 || slot.lookups > 0);
        let ino = if host.fs == self.table.primary && host.ino < FIRST_FREE && host.ino > 1 && !taken(host.ino) {
            host.ino
        } else {
            self.table.next.fetch_add(1, Ordering::Relaxed)
        };
        let node = Arc::new(Node {
            ino: Ino(ino),
            file: Arc::clone(file),
            class,
            names: Mutex::default(),
            stream: Mutex::default(),
            verdict: AtomicU8::new(0),
            view,
            table: Arc::downgrade(&self.table),
        });
        slots.insert(ino, Slot { node: Arc::downgrade(&node), lookups: 0, held: None });
        nodes.push((view, class, Arc::downgrade(&node)));
        node
    }

    /// The node the kernel means.
    pub fn get(&self, ino: Ino) -> Option<Arc<Node>> {
        self.table.slots.read().get(&ino.0).and_then(|slot| slot.node.upgrade())
    }

    /// One more reference of the kernel's, to be taken before the answer that tells it.
    pub fn hold(&self, node: &Arc<Node>) {
        let mut slots = self.table.slots.write();
        let slot =
            slots.entry(node.ino.0).or_insert_with(|| Slot { node: Arc::downgrade(node), lookups: 0, held: None });
        slot.lookups += 1;
        if slot.held.is_none() {
            slot.held = Some(Arc::clone(node));
        }
    }

    /// `count` references fewer. Returns true if the kernel has none left.
    pub fn forget(&self, ino: Ino, count: u64) -> bool {
        if ino == Ino::ROOT {
            return false;
        }
        let dropped = {
            let mut slots = self.table.slots.write();
            let Some(slot) = slots.get_mut(&ino.0) else { return false };
            slot.lookups = slot.lookups.saturating_sub(count);
            if slot.lookups > 0 {
                return false;
            }
            slot.held.take()
        };
        // Outside the lock: the last reference to a node takes the lock again.
        drop(dropped);
        true
    }

    /// All nodes that live.
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.table.slots.read().values().filter_map(|slot| slot.node.upgrade()).collect()
    }

    /// Nodes that the kernel refers to, the root among them.
    pub fn held(&self) -> usize {
        self.table.slots.read().values().filter(|slot| slot.held.is_some()).count()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut slots = table.slots.write();
        if slots.get(&self.ino.0).is_some_and(|slot| slot.node.strong_count() == 0) {
            slots.remove(&self.ino.0);
        }
    }
}

impl Node {
    /// Changes are refused, by its class or by a reload.
    pub fn read_only(&self) -> bool {
        match self.verdict.load(Ordering::Relaxed) {
            READ_ONLY => true,
            FREE => false,
            _ => self.class.read_only,
        }
    }

    /// A reload hid it.
    pub fn hidden(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) == HIDDEN
    }

    /// Judges it anew.
    pub fn judge(&self, class: Option<Class>) {
        let verdict = match class {
            None => HIDDEN,
            Some(class) if class.read_only == self.class.read_only => 0,
            Some(class) if class.read_only => READ_ONLY,
            Some(_) => FREE,
        };
        self.verdict.store(verdict, Ordering::Relaxed);
    }

    /// The view it belongs to.
    pub fn view(&self) -> u32 {
        self.view
    }

    /// Its path by the name it was last reached by; `None` if it has none left (it was removed).
    pub fn path(&self) -> Option<ViewPath> {
        if self.ino == Ino::ROOT {
            return Some(ViewPath::root());
        }
        let mut names: Vec<EntryName> = Vec::new();
        let (mut parent, name) = self.names.lock().last().cloned()?;
        names.push(name);
        while parent.ino != Ino::ROOT {
            let (above, name) = parent.names.lock().last().cloned()?;
            names.push(name);
            parent = above;
        }
        let mut path = ViewPath::root();
        for name in names.iter().rev() {
            path.push(name);
        }
        Some(path)
    }

    /// Reached by this name: it is the latest now. A directory has no other.
    pub fn named(self: &Arc<Self>, parent: &Arc<Node>, name: &EntryName) {
        let mut names = self.names.lock();
        if names.last().is_some_and(|(p, n)| Arc::ptr_eq(p, parent) && n == name) {
            return;
        }
        if self.file.kind == crate::types::Kind::Dir {
            names.clear();
        } else {
            names.retain(|(p, n)| !(Arc::ptr_eq(p, parent) && n == name));
        }
        names.push((Arc::clone(parent), name.clone()));
        drop(names);
        self.file.host.reached(&parent.file.host, name);
    }
}
