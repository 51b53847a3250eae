//! A view over a temporary directory, and its toolbox.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use wardfs::{
    policy::{Pattern, Policy, PolicySpec},
    tools::{CallContext, Cancelled, ToolCall, ToolOutcome, ToolSettings, Toolbox, toolbox},
    types::{Actor, Channel, EntryName},
    versions::{Durability, Store, StoreOptions},
    view::{Core, Source, SourceSpec, View, ViewSpec},
};

/// A source, a store, a view and its tools.
pub struct Room {
    sources: Vec<TempDir>,
    _store: TempDir,
    pub core: Arc<Core>,
    pub view: Arc<View>,
    pub tools: Arc<dyn Toolbox>,
    pub context: CallContext,
}

/// How a room differs from the plainest one.
#[derive(Default)]
pub struct Plan {
    pub policy: PolicySpec,
    pub settings: ToolSettings,
    pub read_only: bool,
    /// Two sources, `one` and `two`.
    pub two_sources: bool,
    /// The source lies on another file system than the store, so that old contents are copied.
    pub far: bool,
}

/// Patterns of a policy's list.
pub fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern { text: (*text).into(), origin: "test".into() }).collect()
}

impl Room {
    pub fn new() -> Room {
        Room::of(Plan::default())
    }

    pub fn of(plan: Plan) -> Room {
        let store_dir = tempfile::tempdir().expect("a directory");
        let options = StoreOptions { durability: Durability::Relaxed };
        let store = Store::open(&store_dir.path().join("store"), &options).expect("a new store");
        let core = Core::new(store);
        let names = if plan.two_sources { vec!["one", "two"] } else { vec!["source"] };
        let mut dirs = Vec::new();
        let mut sources = Vec::new();
        for name in names {
            let dir = if plan.far { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
            let dir = dir.expect("a directory");
            let name = EntryName::new(name.as_bytes()).expect("a name");
            let spec = SourceSpec { path: dir.path().to_owned(), name, read_only: plan.read_only };
            sources.push(Source::open(&core, spec).expect("a source"));
            dirs.push(dir);
        }
        let policy = Policy::compile(&plan.policy).expect("a policy");
        let view = View::new(&core, ViewSpec { name: "test".into(), sources, policy }).expect("a view");
        view.add_root(b"/workspace");
        let tools = toolbox(Arc::clone(&view), plan.settings);
        let actor = Actor { session: Some("s1".into()), view: Some("test".into()), ..Actor::of(Channel::Tool) };
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let context = CallContext { actor, owner, cancelled: Cancelled::default() };
        Room { sources: dirs, _store: store_dir, core, view, tools, context }
    }

    /// The host's path.
    pub fn host(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.sources[0].path().join(OsStr::from_bytes(path.as_ref()))
    }

    /// The host's path in the second source.
    pub fn host_two(&self, path: &str) -> PathBuf {
        self.sources[1].path().join(path)
    }

    /// A file put there by someone else.
    pub fn put(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.host(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        std::fs::write(path, content).expect("a file");
    }

    /// A file of so many bytes, all NUL.
    pub fn put_sparse(&self, path: &str, size: u64) {
        std::fs::File::create(self.host(path)).expect("a file").set_len(size).expect("a size");
    }

    /// What is there.
    pub fn get(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.host(path)).expect(path)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.host(path).symlink_metadata().is_ok()
    }

    pub fn mode(&self, path: &str) -> u32 {
        self.host(path).metadata().expect(path).mode() & 0o7777
    }

    pub fn outcome(&self, tool: &str, arguments: Value) -> ToolOutcome {
        let call = ToolCall { name: tool.into(), arguments, operation_id: None };
        self.tools.call(&call, &self.context).expect(tool)
    }

    /// A call that succeeds: its structured result.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.outcome(tool, arguments.clone());
        assert!(!outcome.is_error, "{tool} {arguments}: {}", outcome.structured);
        outcome.structured
    }

    /// A call that fails: its error.
    #[track_caller]
    pub fn fails(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.outcome(tool, arguments.clone());
        assert!(outcome.is_error, "{tool} {arguments}: {}", outcome.structured);
        assert_eq!(outcome.structured["applied"], json!(false));
        outcome.structured
    }

    /// A call that fails with this code.
    #[track_caller]
    pub fn refused(&self, tool: &str, arguments: Value, code: &str) -> Value {
        let error = self.fails(tool, arguments);
        assert_eq!(error["code"], json!(code), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
        error
    }
}

/// The paths of an answer's list.
pub fn paths(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|entry| entry["path"].as_str().expect("a path").to_owned()).collect()
}

/// The hash of a content, as results carry it.
pub fn hash(content: impl AsRef<[u8]>) -> String {
    wardfs::types::Hash::of(content.as_ref()).to_string()
}
