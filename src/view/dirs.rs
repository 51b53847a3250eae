//! Directories read through the mount, filtered entry by entry; the host's cookies are the offsets.

use std::sync::Arc;

use rustix::fs::OFlags;

use super::{Entry, Result, View, ViewError, lookup::STAGE_PREFIX, node::Node};
use crate::{
    host::{DirEntry, DirStream},
    types::{EntryName, Ino, Kind},
};

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirItem {
    /// Its name.
    pub name: EntryName,
    /// Its inode number as `stat` will show it, where that can be told without looking.
    pub ino: u64,
    /// Its type.
    pub kind: Kind,
    /// Where the listing goes on after it.
    pub next: u64,
}

/// One entry with what a lookup would have said. The kernel holds one reference more for each that it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirItemPlus {
    /// The entry.
    pub item: DirItem,
    /// Its node; none if it went away meanwhile, or lies on another mount.
    pub entry: Option<Entry>,
}

impl View {
    /// Lists a directory from `offset` (0 is the start) until `each` answers false.
    ///
    /// # Errors
    /// ENOTDIR; the host's.
    pub fn readdir(&self, ino: Ino, offset: u64, each: &mut dyn FnMut(DirItem) -> bool) -> Result<()> {
        let node = self.node(ino)?;
        self.read_node(&node, offset, each)
    }

    /// Lists with lookups. An entry that `each` refuses costs no reference.
    ///
    /// # Errors
    /// As `readdir`.
    pub fn readdirplus(&self, ino: Ino, offset: u64, each: &mut dyn FnMut(&DirItemPlus) -> bool) -> Result<()> {
        let node = self.node(ino)?;
        let mut items = Vec::new();
        // Listed in pieces first, so that no stream is locked while names are looked up.
        self.read_node(&node, offset, &mut |item| {
            items.push(item);
            items.len() < 256
        })?;
        for item in items {
            let entry = {
                let _tree = self.core.tree.read();
                self.child(&node, &item.name).ok()
            };
            let shown = entry.map(|(child, attr)| {
                self.nodes.hold(&child);
                (child.ino, Entry { node: self.show(&child, attr) })
            });
            let plus = DirItemPlus { item, entry: shown.map(|(_, entry)| entry) };
            if !each(&plus) {
                if let Some((ino, _)) = shown {
                    self.nodes.forget(ino, 1);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lists a node's directory. The stream's lock is held while `each` runs: `each` must not come back here.
    pub(crate) fn read_node(&self, node: &Arc<Node>, offset: u64, each: &mut dyn FnMut(DirItem) -> bool) -> Result<()> {
        if node.file.kind != Kind::Dir {
            return Err(ViewError::NotADirectory(node.path().unwrap_or_default()));
        }
        if self.is_multi() && node.ino == Ino::ROOT {
            for (at, source) in (1u64..).zip(&self.sources).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
                let item = DirItem { name: source.name.clone(), ino: source.root.key().ino, kind: Kind::Dir, next: at };
                if !each(item) {
                    break;
                }
            }
            return Ok(());
        }
        // What has no place any more cannot be judged.
        let path = node.path().ok_or(ViewError::Host(crate::host::Errno::STALE))?;
        let policy = self.policy();
        let uniform = policy.is_uniform();
        let dev = node.file.host.fs().dev();
        let mut stream = node.stream.lock();
        if stream.is_none() {
            *stream = Some(DirStream::new(node.file.host.open(OFlags::RDONLY | OFlags::DIRECTORY)?));
        }
        let Some(open) = stream.as_mut() else { return Ok(()) };
        let mut met = false;
        open.read(offset, &mut |entry: DirEntry| {
            let hidden = entry.name.as_bytes().starts_with(STAGE_PREFIX)
                || self.is_hidden_inode(dev, entry.ino)
                || (!uniform && policy.class(&path.join(&entry.name), entry.kind == Kind::Dir).is_none());
            met = true;
            hidden || each(DirItem { name: entry.name, ino: entry.ino, kind: entry.kind, next: entry.next })
        })?;
        if !met {
            // The end was told: nobody reads on, and a stream costs a descriptor.
            *stream = None;
        }
        Ok(())
    }

    /// The directory that holds a directory, for `..`; its own number for the root and for what is gone.
    pub fn parent(&self, ino: Ino) -> Ino {
        let parent = |node: Arc<Node>| node.names.lock().last().map(|(parent, _)| parent.ino);
        self.nodes.get(ino).and_then(parent).unwrap_or(ino)
    }

    /// Closes the stream of a directory, so that it costs no descriptor while nobody reads it.
    pub fn end_listing(&self, ino: Ino) {
        if let Some(node) = self.nodes.get(ino) {
            *node.stream.lock() = None;
        }
    }
}
