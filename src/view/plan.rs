//! A plan: the changes of one guarded mutation, in the order in which they are applied, each with its state before and the
//! state it is to have after.

use std::{collections::HashMap, os::fd::AsFd, sync::Arc};

use rustix::fs::OFlags;

use super::{
    Done, Expect, Result, Side, Source, Touched, View, ViewError,
    core::{COPY_MAX, WHOLE_COPY_MAX},
    file::FileState,
    node::Node,
    record::Place,
};
use crate::{
    crash_point,
    host::{self, Errno},
    types::{Attr, Hash, Kind, NodeId, Timestamp, ViewPath},
    versions::{Change, ChangeKind, Content, Loss, Mode, State},
};

/// The changes of one guarded mutation.
#[derive(Default)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    /// Contents at hand, so that they are not read back from the store.
    pub bytes: HashMap<Hash, Arc<Vec<u8>>>,
}

/// One change, and what it changes.
pub(crate) struct Step {
    pub source: Arc<Source>,
    pub change: Change,
    /// The node at the path now, if there is one.
    pub node: Option<Arc<Node>>,
    pub before: Option<Side>,
    pub after: Option<Side>,
}

/// What stands at a path, kept for history.
pub(crate) struct Snapshot {
    pub id: NodeId,
    pub state: State,
    pub bytes: Option<Arc<Vec<u8>>>,
}

impl Snapshot {
    pub fn side(&self) -> Side {
        Side { kind: self.state.kind, size: self.state.size, hash: self.state.hash(), bytes: self.bytes.clone() }
    }
}

impl Plan {
    /// One more change.
    #[expect(clippy::too_many_arguments, reason = "the parts of one change")]
    pub fn push(
        &mut self,
        place: &Place,
        kind: ChangeKind,
        id: NodeId,
        node: Option<&Arc<Node>>,
        from: Option<ViewPath>,
        before: Option<&Snapshot>,
        after: Option<(State, Option<Arc<Vec<u8>>>)>,
    ) {
        let after_side = after.as_ref().map(|(state, bytes)| Side {
            kind: state.kind,
            size: state.size,
            hash: state.hash(),
            bytes: bytes.clone(),
        });
        let known =
            [before.map(|before| (&before.state, &before.bytes)), after.as_ref().map(|(state, bytes)| (state, bytes))];
        for (state, bytes) in known.into_iter().flatten() {
            if let (Some(hash), Some(bytes)) = (state.hash(), bytes) {
                self.bytes.insert(hash, Arc::clone(bytes));
            }
        }
        self.steps.push(Step {
            source: Arc::clone(&place.source),
            change: Change {
                source: place.source.id,
                path: place.path.clone(),
                kind,
                from,
                node: id,
                key: node.map(|node| node.file.stable_key()),
                unversioned: super::record::loss_of(place, before.map(|before| &before.state)),
                before: before.map(|before| before.state.clone()),
                after: after.map(|(state, _)| state),
                staged: None,
                coalesced: false,
            },
            node: node.cloned(),
            before: before.map(Snapshot::side),
            after: after_side,
        });
    }

    /// What it does, path by path.
    pub fn touched(&self, view: &View) -> Vec<Touched> {
        let place = |source: &Source, path: &ViewPath| view.place(source.id, path).unwrap_or_else(|| path.clone());
        self.steps
            .iter()
            .map(|step| Touched {
                path: place(&step.source, &step.change.path),
                from: step.change.from.as_ref().map(|from| place(&step.source, from)),
                change: step.change.kind,
                before: step.before.clone(),
                after: step.after.clone(),
            })
            .collect()
    }

    /// The answer to a request that is not, or need not be, carried out.
    pub fn unapplied(&self, view: &View) -> Done {
        Done { op: None, paths: self.touched(view) }
    }
}

impl View {
    /// What stands at a node, with its content safe in the store, or to be moved aside when the change is applied.
    pub(crate) fn snapshot(&self, place: &Place, node: &Arc<Node>, state: &mut FileState) -> Result<Snapshot> {
        let attr = node.file.host.attr()?;
        if attr.kind != Kind::File {
            let before = self.before(place, node, state, &attr, false)?;
            return Ok(Snapshot { id: self.number(node, state)?, state: before, bytes: None });
        }
        if attr.size <= WHOLE_COPY_MAX {
            return self.snapshot_small(place, node, state);
        }
        let shared = node.file.links(&attr) > 1;
        let written = state.session.is_some();
        let copies = shared || written || place.source.mode == Mode::Copying;
        let mut before = self.before(place, node, state, &attr, copies)?;
        let id = self.number(node, state)?;
        match &before.content {
            Content::Live(_) => {
                self.core.store.admit()?;
                before.content = Content::Aside(self.core.store.aside_name(id).to_string());
            }
            Content::Lost(reason) if !place.unversioned => {
                return Err(ViewError::Unversionable { path: self.shown_path(place), reason: *reason });
            }
            Content::Lost(_) | Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_) => {}
        }
        Ok(Snapshot { id, state: before, bytes: None })
    }

    fn snapshot_small(&self, place: &Place, node: &Arc<Node>, state: &mut FileState) -> Result<Snapshot> {
        let fd = node.file.host.open(OFlags::RDONLY)?;
        let (bytes, attr) = host::read_whole(fd.as_fd(), WHOLE_COPY_MAX)?;
        let mut before = self.before(place, node, state, &attr, false)?;
        let id = self.number(node, state)?;
        if !place.unversioned {
            // One that is stored already is not stored twice. Not synced by itself: the record that commits the change is, and
            // it stands behind this one.
            before.content = Content::Blob(self.core.store.put_blob(&bytes)?.0);
        }
        Ok(Snapshot { id, state: before, bytes: Some(Arc::new(bytes)) })
    }

    /// Puts a new content into the store: whole in the log, or as a file aside.
    pub(crate) fn store_content(&self, place: &Place, id: NodeId, bytes: &[u8]) -> Result<Content> {
        let store = &self.core.store;
        if bytes.len() as u64 <= WHOLE_COPY_MAX {
            let (hash, _) = store.put_blob(bytes)?;
            return Ok(Content::Blob(hash));
        }
        if bytes.len() as u64 > COPY_MAX {
            return Err(ViewError::TooLarge {
                path: self.shown_path(place),
                size: bytes.len() as u64,
                limit: COPY_MAX,
            });
        }
        store.admit()?;
        let name = store.aside_name(id);
        let file = host::create_file(store.aside_dir(), &name, 0o600)?;
        let written = write_whole(file.as_fd(), bytes);
        crash_point!("large-content-written");
        let written = written.and_then(|()| match store.durability() {
            crate::versions::Durability::Strict => host::fsync(file.as_fd(), true),
            crate::versions::Durability::Relaxed => Ok(()),
        });
        if let Err(error) = written {
            host::remove_file(store.aside_dir(), &name)?;
            return Err(error.into());
        }
        Ok(Content::Aside(name.to_string()))
    }

    /// The bytes of a file, for a rewrite.
    pub(crate) fn bytes_for_rewrite(
        &self,
        path: &ViewPath,
        node: &Arc<Node>,
        snapshot: &Snapshot,
    ) -> Result<Arc<Vec<u8>>> {
        if let Some(bytes) = &snapshot.bytes {
            return Ok(Arc::clone(bytes));
        }
        let fd = node.file.host.open(OFlags::RDONLY)?;
        match host::read_whole(fd.as_fd(), COPY_MAX) {
            Ok((bytes, _)) => Ok(Arc::new(bytes)),
            Err(Errno::FBIG) => {
                Err(ViewError::TooLarge { path: path.clone(), size: snapshot.state.size, limit: COPY_MAX })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses if what is there is not what the caller expects.
    pub(crate) fn check_expected(
        &self,
        path: &ViewPath,
        expect: &Expect,
        now: Option<(&Arc<Node>, &mut FileState, &Snapshot)>,
        require_hash: bool,
    ) -> Result<()> {
        match (expect, now) {
            (Expect::Any, Some((node, _, _))) if require_hash && node.file.kind == Kind::File => {
                Err(ViewError::HashRequired(path.clone()))
            }
            (Expect::Any, _) | (Expect::Absent, None) => Ok(()),
            (Expect::Absent, Some((node, state, snapshot))) => {
                let current = self.current_hash(node, state, snapshot)?;
                Err(ViewError::HashConflict { path: path.clone(), current })
            }
            (Expect::Hash(_), None) => Err(ViewError::HashConflict { path: path.clone(), current: None }),
            (Expect::Hash(wanted), Some((node, state, snapshot))) => {
                let current = self.current_hash(node, state, snapshot)?;
                if current.is_some_and(|hash| wanted.matches(&hash)) {
                    return Ok(());
                }
                Err(ViewError::HashConflict { path: path.clone(), current })
            }
        }
    }

    fn current_hash(&self, node: &Arc<Node>, state: &mut FileState, snapshot: &Snapshot) -> Result<Option<Hash>> {
        if let Some(bytes) = &snapshot.bytes {
            return Ok(Some(snapshot.state.hash().unwrap_or_else(|| Hash::of(bytes))));
        }
        if node.file.kind != Kind::File {
            return Ok(None);
        }
        let fd = node.file.host.open(OFlags::RDONLY)?;
        self.hash_locked(node, state, &fd).map(Some)
    }

    /// Why a state's content cannot be put back, if it cannot.
    pub(crate) fn unavailable(&self, state: &State) -> Option<Loss> {
        match (&state.content, state.kind) {
            (Content::Lost(reason), _) => Some(*reason),
            (Content::Live(_), Kind::File) => Some(Loss::External),
            // Somebody took it out of the store, or a power cut did.
            (Content::Aside(name), _) if !self.core.store.has_aside(name) => Some(Loss::External),
            (Content::Live(_) | Content::None | Content::Target(_) | Content::Blob(_) | Content::Aside(_), _) => None,
        }
    }

    /// Refuses while somebody has the file open for writing.
    pub(crate) fn no_writer(&self, path: &ViewPath, state: &FileState) -> Result<()> {
        let Some(session) = &state.session else { return Ok(()) };
        let writer = session.writers.first().map(|(_, actor)| actor);
        Err(ViewError::WriterOpen {
            path: path.clone(),
            pid: writer.and_then(|actor| actor.pid).unwrap_or(0),
            command: writer.and_then(|actor| actor.command.clone()).unwrap_or_default(),
        })
    }
}

/// The state a new inode is to have.
pub(crate) fn new_state(kind: Kind, mode: u32, owner: (u32, u32), size: u64, content: Content) -> State {
    State {
        kind,
        mode,
        uid: owner.0,
        gid: owner.1,
        rdev: 0,
        size,
        nlink: 1,
        mtime: Timestamp::now(),
        ctime: Timestamp::default(),
        xattrs: Vec::new(),
        content,
    }
}

/// Owner and set-group-id bit of something new in a directory: a set-group-id directory hands its group down.
pub(crate) fn inherited(dir: &Attr, owner: (u32, u32), kind: Kind, mode: u32) -> ((u32, u32), u32) {
    if dir.mode & 0o2000 == 0 {
        return (owner, mode);
    }
    ((owner.0, dir.gid), if kind == Kind::Dir { mode | 0o2000 } else { mode })
}

/// Writes all bytes at the start of a file.
pub(crate) fn write_whole(fd: std::os::fd::BorrowedFd<'_>, bytes: &[u8]) -> host::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let offset = u64::try_from(done).map_err(|_| Errno::FBIG)?;
        match host::write_at(fd, &bytes[done..], offset)? {
            0 => return Err(Errno::NOSPC),
            n => done += n,
        }
    }
    Ok(())
}
