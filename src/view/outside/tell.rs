//! What kernels must be told of reports: names and attributes that they may have cached.

use std::collections::{HashMap, HashSet};

use super::super::{Core, Invalidate, file::File};
use crate::{
    host::{EntryRef, Fs, Seen},
    types::EntryName,
};

/// Events for the kernels of the views, each once, in order.
#[derive(Default)]
struct Telling {
    views: HashMap<u32, (HashSet<Invalidate>, Vec<Invalidate>)>,
}

impl Telling {
    fn add(&mut self, view: u32, event: Invalidate) {
        let (known, events) = self.views.entry(view).or_default();
        if known.insert(event.clone()) {
            events.push(event);
        }
    }

    /// Attributes and content of a file.
    fn file(&mut self, file: &File) {
        for node in file.live_nodes() {
            self.add(node.view(), Invalidate::Node(node.ino));
        }
    }

    /// A name, and what its directory shows.
    fn name(&mut self, dir: &File, name: &EntryName, removed: Option<&File>) {
        let children = removed.map(File::live_nodes).unwrap_or_default();
        for parent in dir.live_nodes() {
            let child = children.iter().find(|child| child.view() == parent.view());
            let event = match child {
                Some(child) => Invalidate::Removed { parent: parent.ino, child: child.ino, name: name.clone() },
                None => Invalidate::Name(parent.ino, name.clone()),
            };
            self.add(parent.view(), event);
            self.add(parent.view(), Invalidate::Node(parent.ino));
        }
    }
}

impl Core {
    /// Tells the kernels of all views. No lock is held.
    pub(super) fn tell_outside(&self, batch: &[Seen]) {
        let ours = std::process::id();
        let mut telling = Telling::default();
        for seen in batch {
            for fs in self.watched(seen) {
                self.gather(seen, &fs, seen.pid == ours, &mut telling);
            }
        }
        for view in self.views() {
            let Some((_, events)) = telling.views.remove(&view.id) else { continue };
            if let Some(notify) = view.notify.get() {
                notify.tell(events);
            }
        }
    }

    /// Of what we did ourselves only those kernels must be told by which it was not done. With one node they are the same.
    fn gather(&self, seen: &Seen, fs: &Fs, ours: bool, telling: &mut Telling) {
        let skip = |file: &File| ours && file.live_nodes().len() <= 1;
        let dir = |at: &EntryRef| self.reported(fs, Some(&at.dir)).filter(|dir| !skip(dir));
        let file = self.reported(fs, seen.file.as_deref());
        let of_names = seen.what.made() || seen.what.removed() || seen.what.renamed();
        for at in [&seen.at, &seen.to].into_iter().flatten() {
            let Some(dir) = dir(at) else { continue };
            match &at.name {
                Some(name) if of_names => {
                    let removed = file.as_deref().filter(|_| seen.what.removed() && !ours);
                    telling.name(&dir, name, removed);
                }
                // Somebody may be looking it up at this moment, with the old attributes in hand: telling the name waits for
                // them.
                Some(name) if file.is_none() && !ours => telling.name(&dir, name, None),
                Some(_) => {}
                None => telling.file(&dir),
            }
        }
        if let Some(file) = file.filter(|file| !skip(file)) {
            telling.file(&file);
        }
    }
}
