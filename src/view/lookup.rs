//! Names become nodes here, and nowhere else: one component, one policy check, for the kernel and for tools.

use std::{os::fd::AsFd, sync::Arc};

use super::{Entry, Result, View, ViewError, node::Node};
use crate::{
    host::{self, Errno},
    policy::Class,
    types::{Attr, EntryName, Ino, Kind, ViewPath},
};

/// Names of our own staged files in a source whose store lies on another device.
pub(crate) const STAGE_PREFIX: &[u8] = b".wardfs-stage-";

impl View {
    /// The root's number.
    pub fn root(&self) -> Ino {
        Ino::ROOT
    }

    /// Looks a name up; the kernel holds one reference more.
    ///
    /// # Errors
    /// `NotFound`, also for what policy hides; the host's.
    pub fn lookup(&self, parent: Ino, name: &EntryName) -> Result<Entry> {
        let parent = self.node(parent)?;
        let (node, attr) = {
            let _tree = self.core.tree.read();
            self.child(&parent, name)?
        };
        self.nodes.hold(&node);
        Ok(Entry { node: self.show(&node, attr) })
    }

    /// The kernel drops references. True if it has none left, so that what it was given can go too.
    pub fn forget(&self, ino: Ino, count: u64) -> bool {
        self.nodes.forget(ino, count)
    }

    /// Nodes that the kernel refers to.
    pub fn held_nodes(&self) -> usize {
        self.nodes.held()
    }

    /// The node under a name. The tree lock is held by the caller.
    pub(crate) fn child(&self, parent: &Arc<Node>, name: &EntryName) -> Result<(Arc<Node>, Attr)> {
        let above = parent.path().ok_or(ViewError::Host(Errno::STALE))?;
        let path = above.join(name);
        if self.is_multi() && parent.ino == Ino::ROOT {
            let (source, _) = self.locate(&path).ok_or_else(|| ViewError::NotFound(path.clone()))?;
            let attr = source.root.attr()?;
            return self.enter(parent, name, &path, Arc::clone(&source.root), &attr);
        }
        if parent.file.kind != Kind::Dir {
            return Err(ViewError::NotADirectory(above));
        }
        if name.as_bytes().starts_with(STAGE_PREFIX) {
            return Err(ViewError::NotFound(path));
        }
        let dir = parent.file.host.path_fd()?;
        let fd = match host::open_child(dir.as_fd(), name) {
            Ok(fd) => fd,
            // A mount point is not ours to serve; our own would be answered by ourselves.
            Err(Errno::NOENT | Errno::XDEV) => return Err(ViewError::NotFound(path)),
            Err(error) => return Err(error.into()),
        };
        let (host, attr) = match parent.file.host.fs().adopt(fd) {
            Ok(found) => found,
            Err(Errno::XDEV) => return Err(ViewError::NotFound(path)),
            Err(error) => return Err(error.into()),
        };
        self.enter(parent, name, &path, Arc::new(host), &attr)
    }

    /// Makes the node of an inode just opened under `path`.
    pub(crate) fn enter(
        &self,
        parent: &Arc<Node>,
        name: &EntryName,
        path: &ViewPath,
        host: Arc<host::HostRef>,
        attr: &Attr,
    ) -> Result<(Arc<Node>, Attr)> {
        let class = self.class(path, attr.kind == Kind::Dir).ok_or_else(|| ViewError::NotFound(path.clone()))?;
        if self.is_hidden_inode(attr.dev, attr.ino) {
            return Err(ViewError::NotFound(path.clone()));
        }
        let file = self.core.files.get_or_insert(host, attr);
        let node = self.nodes.intern(self.id, &file, class);
        node.named(parent, name);
        Ok((node, *attr))
    }

    /// How a path may be used; `None` if it does not exist here.
    pub fn class(&self, path: &ViewPath, is_dir: bool) -> Option<Class> {
        let read_only = match self.locate(path) {
            Some((source, _)) => source.read_only,
            None => true,
        };
        self.policy.read().class(path, is_dir).map(|class| Class { read_only: class.read_only || read_only, ..class })
    }

    pub(crate) fn is_hidden_inode(&self, dev: u64, ino: u64) -> bool {
        self.hidden.read().contains(&(dev, ino))
    }

    /// The class that a new name would have.
    ///
    /// # Errors
    /// `CreateDenied` for a hidden one, whether it exists or not; `ReadOnly`.
    pub(crate) fn may_create(&self, path: &ViewPath, is_dir: bool) -> Result<Class> {
        let staged = path.file_name().is_some_and(|name| name.as_bytes().starts_with(STAGE_PREFIX));
        match self.class(path, is_dir) {
            Some(class) if !class.read_only && !staged => Ok(class),
            Some(class) if class.read_only => Err(ViewError::ReadOnly(path.clone())),
            Some(_) | None => Err(ViewError::CreateDenied(path.clone())),
        }
    }
}
