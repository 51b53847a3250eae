//! The daemon: one store, and the views that are served from it.

use std::{
    collections::{BTreeMap, HashSet},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};
use rustix::fs::{CWD, Mode as FileMode, OFlags};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Result, RunError,
    launch::Started,
    place, registry,
    reload::{PolicyReader, compile},
    serving::Serving,
};
use crate::{
    config::{SourceConfig, ViewConfig},
    host::Errno,
    types::EntryName,
    versions::{Durability, Mode, Store},
    view::{Core, Source, SourceSpec, View, ViewSpec},
};

/// What a daemon that ends says to those who ask for a view.
pub(super) const ENDING: &str = "this daemon is ending";

/// The set of views became smaller, or a mount of one has ended.
pub(super) struct Fewer;

/// A daemon's state.
///
/// Lock order: `turn`, `sources`, `state`; neither `sources` nor `state` is held across a mount or an unmount.
pub(super) struct Daemon {
    pub core: Arc<Core>,
    pub store: PathBuf,
    pub admin_socket: PathBuf,
    pub state: Mutex<State>,
    /// Held by whoever changes the set of views, or a view's policy.
    pub turn: Mutex<()>,
    sources: Mutex<Vec<(SourceConfig, Weak<Source>)>>,
    /// What the human was told of a recovery: not twice.
    told: Mutex<HashSet<String>>,
    gone: Condvar,
    next: AtomicU32,
    events: UnboundedSender<Fewer>,
}

/// What is served.
#[derive(Default)]
pub(super) struct State {
    pub views: BTreeMap<String, Serving>,
    /// No view is added any more.
    ending: bool,
}

impl Daemon {
    /// A daemon that serves nothing yet.
    pub fn new(store: Arc<Store>, admin_socket: PathBuf, events: UnboundedSender<Fewer>) -> Arc<Daemon> {
        Arc::new(Daemon {
            store: std::fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().to_owned()),
            core: Core::new(store),
            admin_socket,
            state: Mutex::default(),
            turn: Mutex::default(),
            sources: Mutex::default(),
            told: Mutex::default(),
            gone: Condvar::new(),
            next: AtomicU32::new(1),
            events,
        })
    }

    /// Opens a view for somebody who found this daemon running.
    ///
    /// # Errors
    /// As `add`.
    pub fn join(&self, config: ViewConfig, relaxed: bool) -> Result<Started> {
        let mut started = self.add(config)?;
        let (has, word) = match self.core.store().durability() {
            Durability::Strict => (false, "strict"),
            Durability::Relaxed => (true, "relaxed"),
        };
        if relaxed && !has {
            started.notes.push(format!("the store is open already, and {word}; it stays so"));
        }
        Ok(started)
    }

    /// Opens a view: its sources, its socket, its mount.
    ///
    /// # Errors
    /// In words for the human; then nothing of it is there.
    pub fn add(&self, config: ViewConfig) -> Result<Started> {
        let _turn = self.turn.lock();
        if self.state.lock().ending {
            return Err(RunError(ENDING.into()));
        }
        let runtime = registry::runtime_dir()?;
        let name = self.free_name(&config.name);
        let policy = config.policy_file.as_ref().map(PolicyReader::open).transpose()?;
        let compiled = compile(&config, policy.as_ref())?;
        let mut notes = Vec::new();
        let mut sources = Vec::new();
        for source in &config.sources {
            sources.push(self.source(source, &mut notes)?);
        }
        let spec = ViewSpec { name: name.clone(), sources, policy: compiled };
        let view = View::new(&self.core, spec).map_err(|e| RunError::on(&name, e))?;
        view.set_review(config.policy.review).map_err(|e| RunError::on(&name, e))?;
        for (dev, ino) in place::ours(&runtime).iter().filter_map(|path| identity(path)) {
            view.hide(dev, ino);
        }
        for alias in &config.alias {
            view.add_root(alias.as_bytes());
        }
        if let Some(mountpoint) = &config.mountpoint {
            view.add_root(std::os::unix::ffi::OsStrExt::as_bytes(mountpoint.as_os_str()));
        }
        let socket = config.socket.clone().unwrap_or_else(|| {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            runtime.join(format!("{}-{number}.sock", std::process::id()))
        });
        let serving = Serving::open(view, config, socket, policy)?;
        let started = Started {
            view: name.clone(),
            mountpoint: serving.config.mountpoint.clone(),
            socket: serving.socket.clone(),
            store: self.store.clone(),
            stores: vec![self.store.clone()],
            pid: std::process::id(),
            admin_socket: self.admin_socket.clone(),
            notes,
        };
        self.watch(&serving);
        self.state.lock().views.insert(name.clone(), serving);
        if let Err(error) = self.announce() {
            self.take_away(&name)?;
            return Err(error);
        }
        Ok(started)
    }

    /// Sends word when somebody takes the mount away.
    fn watch(&self, serving: &Serving) {
        let Some(mount) = serving.mount.clone() else { return };
        let events = self.events.clone();
        let watched = std::thread::Builder::new().name("watch".into()).spawn(move || {
            mount.wait_unmounted();
            // Nobody hears it once the daemon ends.
            let _ = events.send(Fewer);
        });
        if let Err(error) = watched {
            tracing::warn!(%error, "an unmount by somebody else will not be noticed");
        }
    }

    fn free_name(&self, wanted: &str) -> String {
        let wanted = if wanted.is_empty() { "view" } else { wanted };
        let state = self.state.lock();
        let names = std::iter::once(wanted.to_owned()).chain((2..).map(|n: u64| format!("{wanted}-{n}")));
        names.into_iter().find(|name| !state.views.contains_key(name)).expect("numbers do not end")
    }

    /// A source, opened once however many views show it. What a crash left in it is finished first.
    fn source(&self, config: &SourceConfig, notes: &mut Vec<String>) -> Result<Arc<Source>> {
        let mut sources = self.sources.lock();
        sources.retain(|(_, source)| source.strong_count() > 0);
        if let Some(source) = sources.iter().find(|(known, _)| known == config).and_then(|(_, source)| source.upgrade())
        {
            return Ok(source);
        }
        let failed = |error: crate::view::ViewError| RunError::on(config.path.display(), error);
        let name = EntryName::new(config.name.as_bytes()).map_err(|e| RunError::on(&config.name, e))?;
        let spec = SourceSpec { path: config.path.clone(), name, read_only: config.read_only };
        let source = Source::open(&self.core, spec).map_err(failed)?;
        place::settle(&self.store, &config.path);
        let mut found = self.core.recover(std::slice::from_ref(&source)).map_err(failed)?;
        if let Err(error) = self.core.watch(&source) {
            found.push(format!(
                "{}: what others change beside the mount is seen within a second, not at once: {}",
                config.path.display(),
                untold(error, &source)
            ));
        }
        if source.mode == Mode::Copying {
            found.push(format!(
                "{}: its store {} lies on another file system or mount, so that removed files are copied, and those over \
                 64 MiB not kept",
                config.path.display(),
                self.store.display()
            ));
        }
        let mut told = self.told.lock();
        notes.extend(found.into_iter().filter(|note| told.insert(note.clone())));
        sources.push((config.clone(), Arc::downgrade(&source)));
        Ok(source)
    }

    /// Where views are mounted.
    pub fn mountpoints(&self) -> Vec<PathBuf> {
        self.state.lock().views.values().filter_map(|serving| serving.config.mountpoint.clone()).collect()
    }

    /// The view with a control socket.
    ///
    /// # Errors
    /// There is none.
    pub fn view(&self, socket: &Path) -> Result<Arc<View>> {
        let state = self.state.lock();
        let found = state.views.values().find(|serving| serving.socket == socket);
        found.map(|serving| Arc::clone(&serving.view)).ok_or_else(|| no_view(socket))
    }

    /// How the view with a control socket is configured.
    ///
    /// # Errors
    /// There is none.
    pub fn config(&self, socket: &Path) -> Result<ViewConfig> {
        let state = self.state.lock();
        let found = state.views.values().find(|serving| serving.socket == socket).map(|serving| serving.config.clone());
        found.ok_or_else(|| no_view(socket))
    }

    /// Takes a view away; returns when all is sealed, flushed and unmounted. True if it was the last.
    ///
    /// # Errors
    /// There is none; the mount could not be taken away, and is served as before; or the store not be flushed.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let _turn = self.turn.lock();
        let mount = self.state.lock().views.get(name).and_then(|serving| serving.mount.clone());
        if let Some(mount) = mount {
            mount.detach().map_err(|e| RunError::on(mount.mountpoint().display(), e))?;
        }
        self.take_away(name)?;
        self.announce()?;
        Ok(self.state.lock().views.is_empty())
    }

    fn take_away(&self, name: &str) -> Result<()> {
        let serving = self.state.lock().views.remove(name);
        let serving = serving.ok_or_else(|| RunError::on(name, "there is no such view"))?;
        let closed = serving.close();
        let flushed = self.core.store().sync_all().map_err(|e| RunError(e.to_string()));
        self.gone.notify_all();
        // Nobody hears it once the daemon ends.
        let _ = self.events.send(Fewer);
        closed.and(flushed)
    }

    /// Waits until a view is gone.
    pub fn wait_gone(&self, name: &str) {
        let mut state = self.state.lock();
        while state.views.contains_key(name) {
            self.gone.wait(&mut state);
        }
    }

    /// Takes views away whose mount has ended. True if none is left; then none is added any more.
    pub fn drop_ended(&self) -> bool {
        let _turn = self.turn.lock();
        let ended = |(name, serving): (&String, &Serving)| serving.has_ended().then(|| name.clone());
        let names: Vec<String> = self.state.lock().views.iter().filter_map(ended).collect();
        for name in &names {
            if let Err(error) = self.take_away(name) {
                tracing::error!(%error, view = %name, "a view did not end cleanly");
            }
        }
        if !names.is_empty()
            && let Err(error) = self.announce()
        {
            tracing::warn!(%error, "the registry could not be written");
        }
        let mut state = self.state.lock();
        state.ending = state.views.is_empty();
        state.ending
    }

    /// Ends everything: no view is added, calls end, mounts go, what is open is sealed, the store is flushed and closed.
    pub fn end(&self) {
        let _turn = self.turn.lock();
        let all = {
            let mut state = self.state.lock();
            state.ending = true;
            std::mem::take(&mut state.views)
        };
        for (name, serving) in all {
            if let Err(error) = serving.close() {
                tracing::error!(%error, view = %name, "a view did not end cleanly");
            }
        }
        self.gone.notify_all();
        self.core.shutdown();
        if let Err(error) = self.core.store().close() {
            tracing::error!(%error, "the store did not end cleanly");
        }
    }
}

fn no_view(socket: &Path) -> RunError {
    RunError::on(socket.display(), "is not a socket of this daemon")
}

/// Why changes on a source's file system are not told.
fn untold(error: Errno, source: &Source) -> String {
    match error {
        Errno::PERM => "fanotify is for root".into(),
        Errno::OPNOTSUPP | Errno::NODEV | Errno::XDEV => {
            let kind = source.fs.caps().fs_type.as_str();
            let kind = if kind.is_empty() { "of a kind that nothing here names" } else { kind };
            format!("its file system ({kind}) does not tell of changes")
        }
        other => other.to_string(),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, FileMode::empty()).ok()?;
    crate::host::stat(fd.as_fd()).ok().map(|attr| (attr.dev, attr.ino))
}
