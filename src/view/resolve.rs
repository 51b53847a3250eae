//! Paths as callers write them become nodes: relative, under the mountpoint or the alias; symlinks are followed inside the
//! view only.

use std::sync::Arc;

use super::{Result, View, ViewError, node::Node};
use crate::{
    host,
    types::{Attr, EntryName, Ino, Kind, PathError, ViewPath},
};
use std::os::fd::AsFd;

/// Symlinks on one path, at most (Linux MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// What to do with a symlink at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// What it leads to.
    Yes,
    /// The link itself.
    No,
}

/// Something found at a path.
#[derive(Clone)]
pub struct Found {
    /// Its path with all symlinks on the way resolved.
    pub path: ViewPath,
    /// Its attributes, as the view shows them.
    pub attr: Attr,
    /// Its class by policy.
    pub class: crate::policy::Class,
    pub(crate) node: Arc<Node>,
}

impl View {
    /// A path as a caller wrote it, relative to the root: `src/x`, or absolute under the mountpoint or an alias.
    ///
    /// # Errors
    /// `OutsideView`; `InvalidArgument` for bytes that are no path.
    pub fn parse_path(&self, text: &[u8]) -> Result<ViewPath> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let relative = if text.first() == Some(&b'/') {
            let roots = self.roots.read();
            roots
                .iter()
                .find_map(|root| match text.strip_prefix(root.as_slice())? {
                    [] => Some(&b""[..]),
                    [b'/', rest @ ..] => Some(rest),
                    [..] => None,
                })
                .map(<[u8]>::to_vec)
                .ok_or_else(|| ViewError::OutsideView(shown()))?
        } else {
            text.to_vec()
        };
        let relative: Vec<u8> = relative.iter().copied().skip_while(|b| *b == b'/').collect();
        ViewPath::parse(&relative).map_err(|error| match error {
            PathError::Escapes => ViewError::OutsideView(shown()),
            PathError::NotAName | PathError::BadByte | PathError::TooLong => {
                ViewError::InvalidArgument(format!("{}: {error}", shown()))
            }
        })
    }

    /// Absolute paths that stand for the root: the mountpoint, and what the config names.
    pub fn add_root(&self, path: &[u8]) {
        let mut path = path.to_vec();
        while path.len() > 1 && path.last() == Some(&b'/') {
            path.pop();
        }
        self.roots.write().push(path);
    }

    /// What `add_root` was told.
    pub fn root_names(&self) -> Vec<Vec<u8>> {
        self.roots.read().clone()
    }

    /// What is at a path. Every component is looked up and judged by policy as the kernel's lookups are.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `SymlinkLoop`, `OutsideView` for a link that leaves; the host's.
    pub fn find(&self, path: &ViewPath, follow: Follow) -> Result<Found> {
        let _tree = self.core.tree.read();
        self.find_locked(path, follow)
    }

    /// As `find`, with the tree lock held.
    pub(crate) fn find_locked(&self, path: &ViewPath, follow: Follow) -> Result<Found> {
        let mut rest: Vec<EntryName> = path.components().rev().collect();
        // The way from the root to here, so that `..` in a link's target goes to where the link really stands.
        let mut way: Vec<Arc<Node>> = vec![Arc::clone(&self.nodes.root)];
        let mut links = 0;
        let mut last_attr = None;
        while let Some(name) = rest.pop() {
            let Some(parent) = way.last() else { break };
            if parent.file.kind != Kind::Dir {
                return Err(ViewError::NotADirectory(parent.path().unwrap_or_default()));
            }
            let (node, attr) = self.child(parent, &name)?;
            if attr.kind == Kind::Symlink && (follow == Follow::Yes || !rest.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(ViewError::SymlinkLoop(path.clone()));
                }
                let target = host::read_link(node.file.host.path_fd()?.as_fd())?;
                self.step_into(&target, &mut way, &mut rest)?;
                last_attr = None;
                continue;
            }
            last_attr = Some(attr);
            way.push(node);
        }
        let node = way.pop().ok_or_else(|| ViewError::NotFound(path.clone()))?;
        let attr = match last_attr {
            Some(attr) => attr,
            None => node.file.host.attr()?,
        };
        let path = node.path().ok_or_else(|| ViewError::NotFound(path.clone()))?;
        Ok(Found { path, attr: self.show(&node, attr).attr, class: node.class, node })
    }

    /// Puts a link's target in front of what remains of the path.
    fn step_into(&self, target: &[u8], way: &mut Vec<Arc<Node>>, rest: &mut Vec<EntryName>) -> Result<()> {
        let outside = || ViewError::OutsideView(String::from_utf8_lossy(target).into_owned());
        let mut names = Vec::new();
        let relative = if target.first() == Some(&b'/') {
            way.truncate(1);
            self.parse_path(target)?.as_bytes().to_vec()
        } else {
            target.to_vec()
        };
        for part in relative.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    if names.pop().is_none() {
                        if way.len() <= 1 {
                            return Err(outside());
                        }
                        way.pop();
                    }
                }
                name => names.push(EntryName::new(name).map_err(|_| outside())?),
            }
        }
        rest.extend(names.into_iter().rev());
        Ok(())
    }

    /// Opens a regular file for reading; symlinks inside the view are followed.
    ///
    /// # Errors
    /// As `find`; `IsADirectory`, `NotAFile`.
    pub fn open_path(&self, path: &ViewPath) -> Result<super::Reading> {
        let found = self.find(path, Follow::Yes)?;
        self.reading(&found.node, found.path)
    }

    /// The target of a symlink that was found.
    ///
    /// # Errors
    /// The host's.
    pub fn target_of(&self, found: &Found) -> Result<Vec<u8>> {
        self.readlink_node(&found.node)
    }

    /// The root, as it is found.
    pub(crate) fn is_root(node: &Node) -> bool {
        node.ino == Ino::ROOT
    }
}
