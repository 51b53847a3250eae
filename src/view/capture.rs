//! Keeping what a change would destroy: the state before it, with its content where the content would be lost.

use std::{os::fd::AsFd, sync::Arc};

use rustix::fs::OFlags;

use super::{
    Result, View,
    core::{COPY_MAX, WHOLE_COPY_MAX},
    file::{File, FileState, Head},
    node::Node,
    record::Place,
};
use crate::{
    crash_point,
    host::{self, Errno},
    types::{Actor, Attr, Channel, Hash, Kind, NodeId, ViewPath},
    versions::{Content, Loss, State, crash},
};

impl View {
    /// Asks the log once what it knows of a file.
    pub(crate) fn load(&self, node: &Node, state: &mut FileState) -> Result<()> {
        if matches!(state.head, Head::Unloaded) {
            state.head = match self.core.store.head(&node.file.stable_key())? {
                Some((id, Some(known))) => {
                    node.file.kept_until(self.core.store.recorded_until(id));
                    Head::Known(id, known)
                }
                Some((id, None)) => Head::Unknown(Some(id)),
                None => Head::Unknown(None),
            };
        }
        Ok(())
    }

    /// The state before a change. `destroys`: the content will be overwritten in place, so it is kept now. A change that
    /// somebody made beside us since the last record is recorded first.
    pub(crate) fn before(
        &self,
        place: &Place,
        node: &Node,
        state: &mut FileState,
        attr: &Attr,
        destroys: bool,
    ) -> Result<State> {
        self.load(node, state)?;
        self.external(place, node, state, attr, &Actor::of(Channel::External))?;
        let mut known = state.known().filter(|known| known.is_current(attr)).cloned();
        if let Some(known) = &mut known {
            // What was dropped since it was stored is in the file alone.
            self.core.store.freshen(known)?;
        }
        let mut before = match known {
            // A directory's times and size change with what is in it; that is not a change of it.
            Some(known) if attr.kind == Kind::Dir => {
                State { mtime: attr.mtime, ctime: attr.ctime, size: attr.size, ..known }
            }
            Some(known) => known,
            None => {
                let mut fresh = State::of(attr, self.fresh_content(place, node, attr)?);
                fresh.nlink = node.file.links(attr);
                fresh.xattrs = self.xattrs_of(node)?;
                fresh
            }
        };
        if place.unversioned {
            if attr.kind == Kind::File {
                before.content = Content::Lost(Loss::Policy);
            }
        } else if attr.kind == Kind::File && destroys && matches!(before.content, Content::Live(_) | Content::Lost(_)) {
            let id = self.number(node, state)?;
            before.content = self.keep(place, &node.file, attr, id)?;
        }
        Ok(before)
    }

    /// The content of a file as it stands, unread.
    pub(crate) fn fresh_content(&self, place: &Place, node: &Node, attr: &Attr) -> Result<Content> {
        Ok(match attr.kind {
            Kind::File if place.unversioned => Content::Lost(Loss::Policy),
            Kind::File => Content::Live(None),
            Kind::Symlink => Content::Target(host::read_link(node.file.host.path_fd()?.as_fd())?),
            Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => Content::None,
        })
    }

    /// Keeps the content of a file that is about to be overwritten: whole in the log, by reflink, or by a copy. Before
    /// anything is changed, a record must name it, and `named` be called.
    pub(crate) fn keep(&self, place: &Place, file: &Arc<File>, attr: &Attr, id: NodeId) -> Result<Content> {
        let store = &self.core.store;
        if crash::planted("pre-image-left-out") {
            return Ok(Content::Blob(Hash([0; 32])));
        }
        let fd = file.host.open(OFlags::RDONLY)?;
        if attr.size <= WHOLE_COPY_MAX {
            return match host::read_whole(fd.as_fd(), WHOLE_COPY_MAX) {
                Ok((bytes, _)) => {
                    let (hash, _) = store.put_blob(&bytes)?;
                    crash_point!("pre-image-appended");
                    file.kept_unnamed();
                    Ok(Content::Blob(hash))
                }
                Err(Errno::AGAIN | Errno::FBIG) => Ok(Content::Lost(Loss::Unstable)),
                Err(error) => Err(error.into()),
            };
        }
        if !place.source.reflink && attr.size > COPY_MAX {
            return Ok(Content::Lost(Loss::Size));
        }
        store.admit()?;
        let name = store.aside_name(id);
        let copy = host::create_file(store.aside_dir(), &name, 0o600)?;
        let cloned = place.source.reflink && host::reflink(fd.as_fd(), copy.as_fd()).is_ok();
        let kept = if cloned {
            Ok(())
        } else if attr.size > COPY_MAX {
            Err(Errno::FBIG)
        } else {
            copy_all(&fd, &copy, attr.size)
        };
        let kept = kept.and_then(|()| match store.durability() {
            crate::versions::Durability::Strict => host::fsync(copy.as_fd(), true),
            crate::versions::Durability::Relaxed => Ok(()),
        });
        crash_point!("pre-image-copied");
        match kept {
            Ok(()) => {
                file.kept_unnamed();
                Ok(Content::Aside(name.to_string()))
            }
            Err(error) => {
                // The name is ours alone and half written: nothing is lost with it.
                host::remove_file(store.aside_dir(), &name)?;
                if error == Errno::FBIG { Ok(Content::Lost(Loss::Size)) } else { Err(error.into()) }
            }
        }
    }

    /// A record in the log names what was kept of a file. Waits until both are on disk, if durability is strict: a content
    /// that no record names cannot be found again.
    pub(crate) fn named(&self, file: &File) -> Result<()> {
        if !self.core.store.has_synced(file.take_needed_log()) {
            self.core.store.settle_all()?;
            crash_point!("pre-image-flushed");
        }
        Ok(())
    }

    /// The path a change is reported under.
    pub(crate) fn shown_path(&self, place: &Place) -> ViewPath {
        self.place(place.source.id, &place.path).unwrap_or_else(|| place.path.clone())
    }
}

/// Copies a file of known size.
fn copy_all(from: &std::os::fd::OwnedFd, to: &std::os::fd::OwnedFd, size: u64) -> host::Result<()> {
    let mut done = 0;
    while done < size {
        match host::copy_range(from.as_fd(), done, to.as_fd(), done, size - done)? {
            // It became shorter meanwhile: what is there is kept.
            0 => return Ok(()),
            n => done += n,
        }
    }
    Ok(())
}
