//! Names that moved beside us: nodes are known by where they are now, and judged by the policy of that place.

use std::{os::fd::AsFd, sync::Arc};

use super::super::{Core, View, file::File, resolve::Follow};
use crate::{
    host::{self, EntryRef, Fs, Seen},
    types::{EntryName, Kind, ViewPath},
};

impl Core {
    /// Brings the names of all nodes up to date that others renamed or removed.
    pub(super) fn rename_nodes(&self, batch: &[Seen]) {
        let ours = std::process::id();
        for seen in batch.iter().filter(|seen| seen.pid != ours && (seen.what.renamed() || seen.what.removed())) {
            for fs in self.watched(seen) {
                if let Some(file) = self.reported(&fs, seen.file.as_deref()) {
                    self.rename_file(&fs, seen, &file);
                }
            }
        }
    }

    fn rename_file(&self, fs: &Fs, seen: &Seen, file: &Arc<File>) {
        let names = || [&seen.at, &seen.to].into_iter().flatten();
        let update = || {
            for at in names() {
                let Some((dir, name)) = self.reported(fs, Some(&at.dir)).zip(at.name.as_ref()) else { continue };
                if stands(&dir, name, file) {
                    file.got_name(&dir, name);
                } else {
                    file.lost_name(&dir, name);
                }
            }
        };
        if file.kind == Kind::Dir {
            // All paths below it change.
            let _tree = self.tree.write();
            update();
            self.place_dir(fs, seen.to.as_ref(), file);
        } else {
            let _tree = self.tree.read();
            update();
        }
        for view in self.views() {
            view.judge_moved(file);
        }
    }

    /// A directory that moved to where nobody has looked yet is found from its source's root.
    fn place_dir(&self, fs: &Fs, to: Option<&EntryRef>, dir: &Arc<File>) {
        let Some(to) = to else { return };
        let Some(name) = &to.name else { return };
        for node in dir.live_nodes().into_iter().filter(|node| node.names.lock().is_empty()) {
            let views = self.views();
            let Some(view) = views.iter().find(|view| view.id == node.view()) else { continue };
            let Some(path) = view.path_of_dir(fs, &to.dir) else { continue };
            if let Ok(parent) = view.find_locked(&path, Follow::No)
                && stands(&parent.node.file, name, dir)
            {
                node.named(&parent.node, name);
            }
        }
    }
}

/// Is that file at this name now?
pub(super) fn stands(dir: &File, name: &EntryName, file: &File) -> bool {
    let found = || {
        let fd = host::open_child(dir.host.path_fd()?.as_fd(), name)?;
        dir.host.fs().adopt(fd)
    };
    found().is_ok_and(|(found, _)| found.key() == file.host.key())
}

impl View {
    /// The path in this view of a directory that a report names; a hint, for nobody keeps it still.
    pub(super) fn path_of_dir(&self, fs: &Fs, handle: &[u8]) -> Option<ViewPath> {
        let path = fs.path_hint(handle).ok()?;
        let sources = self.sources.iter().filter(|source| source.fs.id() == fs.id());
        let mut found = sources.filter_map(|source| {
            let root = source.root.path_hint().ok()?;
            let below = match path.strip_prefix(root.as_slice())? {
                below if root.ends_with(b"/") || below.is_empty() => below,
                below => below.strip_prefix(b"/")?,
            };
            self.place(source.id, &ViewPath::parse(below).ok()?)
        });
        found.next()
    }

    /// A node that moved is judged by the policy of its new place; with a directory, all below it.
    fn judge_moved(&self, file: &File) {
        if self.policy().is_uniform() {
            return;
        }
        let all = if file.kind == Kind::Dir { self.nodes.all() } else { file.live_nodes() };
        for node in all.into_iter().filter(|node| node.view() == self.id) {
            if let Some(path) = node.path() {
                node.judge(self.class(&path, node.file.kind == Kind::Dir));
            }
        }
    }
}
