//! A view over a temporary directory, driven as the kernel and as tools would, without a mount.

use std::sync::Arc;

use tempfile::TempDir;
use wardfs::{
    host::{RenameMode, SetTime, XattrMode},
    policy::{Policy, PolicySpec},
    types::{Actor, Caller, Channel, EntryName, Ino, OpId, ViewPath},
    versions::{Durability, Store, StoreOptions},
    view::{
        Access, Core, Entry, Expect, Guard, NewContent, OnConflict, Request, Result, RevertTarget, Reverted, SetAttr,
        Source, SourceSpec, View, ViewError, ViewSpec, WriteFile,
    },
};

use super::tree::Tree;

/// A source, a store and a view.
pub struct Room {
    source: TempDir,
    _store: TempDir,
    core: Arc<Core>,
    view: Arc<View>,
}

const CALLER: Caller = Caller { uid: 0, gid: 0, pid: 0 };

impl Room {
    pub fn new() -> Room {
        let (source, store) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let opened = Store::open(&store.path().join("store"), &StoreOptions { durability: Durability::Relaxed })
            .expect("a new store");
        let core = Core::new(opened);
        let name = EntryName::new(b"source").expect("a name");
        let spec = SourceSpec { path: source.path().to_owned(), name, read_only: false };
        let opened = Source::open(&core, spec).expect("a source");
        let policy = Policy::compile(&PolicySpec::default()).expect("the default policy");
        let view = View::new(&core, ViewSpec { name: "test".into(), sources: vec![opened], policy }).expect("a view");
        Room { source, _store: store, core, view }
    }

    pub fn tree(&self) -> Tree {
        Tree::of(self.source.path())
    }

    pub fn last_op(&self) -> OpId {
        self.core.store().last_op()
    }

    /// Looks a path up as the kernel does, and forgets it again.
    fn at<T>(&self, path: &str, work: impl FnOnce(Ino) -> Result<T>) -> Result<T> {
        let mut held: Vec<Entry> = Vec::new();
        let mut at = self.view.root();
        let mut outcome = Ok(());
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match self.view.lookup(at, &EntryName::new(name.as_bytes()).expect("a name")) {
                Ok(entry) => {
                    at = entry.node.ino;
                    held.push(entry);
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let outcome = outcome.and_then(|()| work(at));
        for entry in held {
            self.view.forget(entry.node.ino, 1);
        }
        outcome
    }

    fn in_parent<T>(&self, path: &str, work: impl FnOnce(Ino, &EntryName) -> Result<T>) -> Result<T> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = EntryName::new(name.as_bytes()).expect("a name");
        self.at(parent, |dir| work(dir, &name))
    }

    fn made(&self, entry: Entry) {
        self.view.forget(entry.node.ino, 1);
    }

    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.put(path, bytes, Access { read: false, write: true, append: false, truncate: true })
    }

    pub fn append(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.put(path, bytes, Access { read: false, write: true, append: true, truncate: false })
    }

    fn put(&self, path: &str, bytes: &[u8], access: Access) -> Result<()> {
        self.in_parent(path, |dir, name| {
            let (entry, opened) = self.view.create(&CALLER, dir, name, 0o644, access, false)?;
            self.view.write(entry.node.ino, opened.fh, 0, bytes, false)?;
            self.view.flush(opened.fh)?;
            self.view.release(opened.fh)?;
            self.made(entry);
            Ok(())
        })
    }

    fn set(&self, path: &str, set: SetAttr) -> Result<()> {
        self.at(path, |ino| self.view.setattr(&CALLER, ino, None, &set).map(drop))
    }

    pub fn truncate(&self, path: &str, size: u64) -> Result<()> {
        self.set(path, SetAttr { size: Some(size), ..SetAttr::default() })
    }

    pub fn chmod(&self, path: &str, mode: u32) -> Result<()> {
        self.at(path, |ino| {
            if self.view.getattr(ino, None)?.attr.kind == wardfs::types::Kind::Symlink {
                return Err(ViewError::InvalidArgument("the kernel follows links".into()));
            }
            let set = SetAttr { mode: Some(mode), mtime: Some(SetTime::Keep), ..SetAttr::default() };
            self.view.setattr(&CALLER, ino, None, &set).map(drop)
        })
    }

    pub fn mkdir(&self, path: &str) -> Result<()> {
        self.in_parent(path, |dir, name| self.view.mkdir(&CALLER, dir, name, 0o755).map(|entry| self.made(entry)))
    }

    pub fn symlink(&self, path: &str, target: &str) -> Result<()> {
        self.in_parent(path, |dir, name| {
            self.view.symlink(&CALLER, dir, name, target.as_bytes()).map(|entry| self.made(entry))
        })
    }

    pub fn link(&self, from: &str, to: &str) -> Result<()> {
        self.at(from, |ino| {
            if self.view.getattr(ino, None)?.attr.kind == wardfs::types::Kind::Dir {
                return Err(ViewError::InvalidArgument("the kernel refuses".into()));
            }
            self.in_parent(to, |dir, name| self.view.link(&CALLER, ino, dir, name).map(|entry| self.made(entry)))
        })
    }

    pub fn unlink(&self, path: &str) -> Result<()> {
        self.in_parent(path, |dir, name| self.view.unlink(&CALLER, dir, name))
    }

    pub fn rmdir(&self, path: &str) -> Result<()> {
        self.in_parent(path, |dir, name| self.view.rmdir(&CALLER, dir, name))
    }

    pub fn rename(&self, from: &str, to: &str, exchange: bool) -> Result<()> {
        let mode = if exchange { RenameMode::Exchange } else { RenameMode::Replace };
        self.in_parent(from, |from_dir, from| {
            self.in_parent(to, |to_dir, to| self.view.rename(&CALLER, (from_dir, from), (to_dir, to), mode))
        })
    }

    pub fn xattr(&self, path: &str, value: &[u8]) -> Result<()> {
        self.at(path, |ino| self.view.set_xattr(&CALLER, ino, b"user.test", value, XattrMode::Set))
    }

    fn request(&self) -> Request {
        Request {
            actor: Actor { session: Some("test".into()), ..Actor::of(Channel::Tool) },
            tool: "test".into(),
            operation: None,
            dry_run: false,
            require_hash: false,
            owner: (0, 0),
        }
    }

    fn path(path: &str) -> ViewPath {
        ViewPath::parse(path.as_bytes()).expect("a path")
    }

    pub fn tool_write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let write = WriteFile {
            path: Self::path(path),
            content: NewContent::Bytes(bytes.to_vec()),
            expect: Expect::Any,
            executable: None,
            parents: true,
        };
        self.view.write_file(&self.request(), write).map(drop)
    }

    pub fn tool_delete(&self, path: &str) -> Result<()> {
        self.view.remove(&self.request(), &[(Self::path(path), Expect::Any)], true).map(drop)
    }

    pub fn tool_move(&self, from: &str, to: &str) -> Result<()> {
        self.view.move_path(&self.request(), &Self::path(from), &Self::path(to), true, &Expect::Any).map(drop)
    }

    pub fn revert(&self, target: &RevertTarget, on_conflict: OnConflict) -> Result<Reverted> {
        let dry =
            self.view.revert(&Request { dry_run: true, ..self.request() }, target, on_conflict, Guard::default())?;
        let guard = Guard { confirm_token: dry.confirm_token.as_deref(), if_head: None };
        self.view.revert(&self.request(), target, on_conflict, guard)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.core.shutdown();
    }
}
