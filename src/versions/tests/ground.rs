//! A place for stores, and small operations to put into them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::{
    types::{Actor, Channel, Hash, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath},
    versions::{
        Change, ChangeKind, Content, Durability, NodeKey, OpKind, Operation, Review, ReviewStep, State, Store,
        StoreError, StoreOptions, Whose,
    },
};

/// A directory that goes away with all stores in it.
pub struct Ground {
    dir: tempfile::TempDir,
    mounted: bool,
}

impl Ground {
    /// On a real disk.
    pub fn new() -> Ground {
        Ground { dir: tempfile::tempdir().expect("a temporary directory"), mounted: false }
    }

    /// In memory, where there is a place for that.
    pub fn in_memory() -> Ground {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory");
        Ground { dir, mounted: false }
    }

    /// In memory, of a fixed size (as `4m`). Only root can make it.
    pub fn limited(size: &str) -> Ground {
        let mut ground = Ground::new();
        let options = std::ffi::CString::new(format!("size={size}")).expect("no NUL in it");
        rustix::mount::mount("tmpfs", ground.dir.path(), "tmpfs", MountFlags::empty(), options.as_c_str())
            .expect("these tests need the right to mount");
        ground.mounted = true;
        ground
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn store(&self) -> PathBuf {
        self.dir().join("store")
    }

    pub fn index(&self) -> PathBuf {
        self.store().join("index.db")
    }

    /// The segment files in order.
    pub fn segments(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            std::fs::read_dir(self.store().join("log")).expect("a log").map(|e| e.expect("an entry").path()).collect();
        files.sort();
        files
    }

    pub fn open(&self) -> Arc<Store> {
        self.try_open().expect("the store opens")
    }

    pub fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        Store::open(&self.store(), &StoreOptions { durability: Durability::Relaxed })
    }

    /// Forgets the index.
    pub fn without_index(&self) -> &Ground {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.index().display()));
        }
        self
    }

    /// Puts a copy of `from` in place of the store.
    pub fn copy(&self, from: &Path) {
        let _ = std::fs::remove_dir_all(self.store());
        copy(from, &self.store());
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.mounted {
            rustix::mount::unmount(self.dir.path(), UnmountFlags::DETACH).expect("unmounted");
        }
    }
}

/// Copies a directory.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}

pub fn path(text: &str) -> ViewPath {
    ViewPath::parse(text.as_bytes()).expect("a path")
}

pub fn key(node: u64) -> NodeKey {
    NodeKey(node.to_le_bytes().into())
}

pub fn actor() -> Actor {
    Actor { session: Some("s".into()), view: Some("v".into()), pid: Some(7), ..Actor::of(Channel::Tool) }
}

pub fn state(kind: Kind, size: u64, content: Content) -> State {
    State {
        kind,
        mode: 0o644,
        uid: 1,
        gid: 2,
        rdev: 0,
        size,
        nlink: 1,
        mtime: Timestamp { secs: 5, nanos: 6 },
        ctime: Timestamp { secs: 7, nanos: 8 },
        xattrs: Vec::new(),
        content,
    }
}

pub fn file(size: u64) -> State {
    state(Kind::File, size, Content::Live(None))
}

pub fn change(kind: ChangeKind, at: &str, node: u64, before: Option<State>, after: Option<State>) -> Change {
    Change {
        source: SourceId(1),
        path: path(at),
        kind,
        from: None,
        node: NodeId(node),
        key: Some(key(node)),
        before,
        after,
        staged: None,
        coalesced: false,
        unversioned: None,
    }
}

pub fn create(at: &str, node: u64, size: u64) -> Change {
    change(ChangeKind::Create, at, node, None, Some(file(size)))
}

pub fn write(at: &str, node: u64, from: u64, to: u64) -> Change {
    let old = state(Kind::File, from, Content::Blob(Hash([9; 32])));
    change(ChangeKind::Write, at, node, Some(old), Some(file(to)))
}

pub fn operation(op: OpId, changes: Vec<Change>) -> Operation {
    Operation {
        op,
        time: Timestamp { secs: i64::try_from(op.0).expect("small") * 10, nanos: 0 },
        actor: actor(),
        kind: OpKind::Write,
        changes,
        operation_id: None,
        request: None,
        note: None,
        undoes: Vec::new(),
        intent: false,
    }
}

/// Appends one operation under the next number.
pub fn append(store: &Store, changes: Vec<Change>) -> OpId {
    let op = store.next_op();
    store.append(&operation(op, changes)).expect("appended");
    op
}

/// All that a store says, or the first error.
pub fn answers(store: &Store) -> Result<String, StoreError> {
    use crate::versions::HistoryQuery;
    let history = store.history(&HistoryQuery { limit: 100_000, oldest_first: true, ..HistoryQuery::default() })?;
    let mut said = format!("{:?} {:?}\n", store.last_op(), store.checkpoints()?);
    said += &format!("{:?}\n", store.reviewed("v")?);
    for operation in &history.operations {
        said += &format!("{operation:?}\n");
        for change in &operation.changes {
            if let Some(key) = &change.key {
                said += &format!("{:?} ", store.head(key)?);
            }
            for state in change.before.iter().chain(&change.after) {
                if let Content::Blob(_) = state.content {
                    said += &format!("{:?}", store.read_all(&state.content, 1 << 20)?);
                }
            }
            said += &format!("{:?}\n", store.path_at(change.source, &change.path, OpId(operation.op.0 - 1))?);
        }
        if let Some(id) = &operation.operation_id {
            said += &format!("{:?}\n", store.replay("v", id)?);
        }
    }
    Ok(said)
}

/// A file of which everything so far is accepted.
pub fn accepted(store: &Store, node: u64) -> Review {
    Review {
        view: "v".into(),
        step: ReviewStep::Accepted,
        whose: Whose::Session("s".into()),
        nodes: Some(vec![NodeId(node)]),
        upto: store.now(),
        content: None,
        time: Timestamp { secs: 3, nanos: 4 },
    }
}

/// A store with a little of everything, flushed as it goes.
pub fn furnish(store: &Store, rounds: u64) {
    for round in 0..rounds {
        let at = format!("f{round}");
        let (hash, _) = store.put_blob(format!("content {round}").as_bytes()).expect("kept");
        let first = store.next_op();
        let node = store.next_node().0;
        let mut made = operation(first, vec![create(&at, node, 3)]);
        made.operation_id = Some(format!("id{round}"));
        made.request = Some(Hash::of(at.as_bytes()));
        store.append(&made).expect("appended");
        let old = state(Kind::File, 3, Content::Blob(hash));
        append(store, vec![change(ChangeKind::Write, &at, node, Some(old), Some(file(4)))]);
        store.sync_all().expect("flushed");
        if round % 4 == 0 {
            store.review(&accepted(store, node)).expect("recorded");
        }
        if round % 3 == 0 {
            store.checkpoint(&format!("c{round}"), None, &actor()).expect("set");
        }
        store.sync_all().expect("flushed");
    }
}
