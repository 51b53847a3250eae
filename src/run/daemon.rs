//! The daemon: one store, its views, their sockets and mounts, from start to a clean end.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Result, RunError,
    admin::Human,
    launch::{Launch, Report, Started, UNMOUNT_WAIT},
    place,
    registry::{self, Known, KnownView},
};
use crate::{
    config::{PatternConfig, PolicyFile, ViewConfig, load_config, load_policy},
    control::{self, Limits, Server},
    fuse::{self, Mount, MountOptions},
    policy::Policy,
    tools::{self, AccessGroup, ToolSettings},
    types::EntryName,
    versions::{Durability, Mode, Store, StoreError, StoreOptions},
    view::{Core, Source, SourceSpec, View, ViewSpec},
};

/// How often the daemon looks whether a mount was taken away by somebody else.
const TICK: Duration = Duration::from_millis(200);

struct Serving {
    config: ViewConfig,
    view: Arc<View>,
    socket: PathBuf,
    server: Option<Server>,
    mount: Option<Mount>,
}

/// A daemon's state.
pub(super) struct Daemon {
    core: Arc<Core>,
    store: PathBuf,
    admin_socket: PathBuf,
    views: Mutex<BTreeMap<String, Serving>>,
    sources: Mutex<Vec<(PathBuf, bool, Arc<Source>)>>,
    notes: Mutex<Vec<String>>,
    next: std::sync::atomic::AtomicU32,
}

enum OpenError {
    Locked { admin: PathBuf, pid: u32 },
    Failed(RunError),
}

impl From<RunError> for OpenError {
    fn from(error: RunError) -> Self {
        OpenError::Failed(error)
    }
}

/// The hidden `daemon` command: a launch on standard input, a report on standard output.
///
/// # Errors
/// What went wrong after it was up.
pub fn daemon_main() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| RunError::on("standard input", e))?;
    let launch: Launch = serde_json::from_str(&text).map_err(|e| RunError::on("the launch", e))?;
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "this is a session leader already");
    }
    let say = |report: &Report| -> Result<()> {
        let line = serde_json::to_string(report).map_err(|e| RunError::on("the report", e))?;
        let mut out = std::io::stdout();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| RunError::on("standard output", e))
    };
    let stay = launch.stay;
    let (daemon, started) = match open(launch) {
        Ok(opened) => opened,
        Err(OpenError::Locked { admin, pid }) => return say(&Report::Locked { admin, pid }),
        Err(OpenError::Failed(error)) => return say(&Report::Failed(error.to_string())),
    };
    log_to(&daemon.store);
    say(&Report::Started(started))?;
    let quiet = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Ok(null) = quiet {
        // The parent reads to the end of our output before it goes on.
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stdin(&null);
    }
    run(&daemon, stay)
}

/// Runs in the foreground, and tells on standard error what it serves.
pub(super) fn run_foreground(launch: Launch) -> Result<Vec<Started>> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WARDFS_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let stay = launch.stay;
    let (daemon, started) = match open(launch) {
        Ok(opened) => opened,
        Err(OpenError::Locked { pid, .. }) => return Err(RunError(format!("the store is in use by process {pid}"))),
        Err(OpenError::Failed(error)) => return Err(error),
    };
    for view in &started {
        tracing::info!(view = %view.view, mountpoint = ?view.mountpoint, socket = %view.socket.display(), "serving");
        for note in &view.notes {
            tracing::info!("{note}");
        }
    }
    notify_ready();
    run(&daemon, stay)?;
    Ok(Vec::new())
}

fn log_to(store: &Path) {
    let Ok(file) = std::fs::OpenOptions::new().create(true).append(true).open(store.join("daemon.log")) else { return };
    let filter = tracing_subscriber::EnvFilter::try_from_env("WARDFS_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
}

/// Tells systemd that the service is up, if it asked.
fn notify_ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = std::os::unix::net::UnixDatagram::unbound().and_then(|datagram| datagram.send_to(b"READY=1", socket));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

fn open(launch: Launch) -> std::result::Result<(Arc<Daemon>, Vec<Started>), OpenError> {
    rustix::process::umask(rustix::fs::Mode::empty());
    if let Err(error) = crate::host::raise_fd_limit() {
        tracing::warn!(%error, "the limit of descriptors stays as it is");
    }
    let durability = if launch.config.store.relaxed { Durability::Relaxed } else { Durability::Strict };
    let store = match Store::open(&launch.store, &StoreOptions { durability }) {
        Ok(store) => store,
        Err(StoreError::Locked { pid, admin, .. }) if !admin.is_empty() => {
            return Err(OpenError::Locked { admin: admin.into(), pid });
        }
        Err(error) => return Err(RunError(error.to_string()).into()),
    };
    let path = std::fs::canonicalize(&launch.store).unwrap_or_else(|_| launch.store.clone());
    let admin_socket = registry::runtime_dir()?.join(format!("{}-admin.sock", std::process::id()));
    store.announce(&admin_socket).map_err(|e| RunError(e.to_string()))?;
    let daemon = Arc::new(Daemon {
        core: Core::new(store),
        store: path,
        admin_socket: admin_socket.clone(),
        views: Mutex::default(),
        sources: Mutex::default(),
        notes: Mutex::default(),
        next: std::sync::atomic::AtomicU32::new(1),
    });
    let listener = listen(&admin_socket)?;
    let admin = control::serve_admin(listener, Arc::new(Human(Arc::clone(&daemon))))
        .map_err(|e| RunError::on(admin_socket.display(), e))?;
    let mut started = Vec::new();
    for view in launch.config.views {
        match daemon.add(view) {
            Ok(view) => started.push(view),
            Err(error) => {
                daemon.end();
                admin.shutdown(Duration::from_secs(1));
                return Err(error.into());
            }
        }
    }
    // It serves as long as the process lives.
    std::mem::forget(admin);
    Ok((daemon, started))
}

/// A socket that only its owner can use; a leftover of a dead daemon is replaced, a living one is not.
fn listen(path: &Path) -> Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(RunError::on(path.display(), "is in use by another process; choose another --socket"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(meta) if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) => {
            std::fs::remove_file(path).map_err(|e| RunError::on(path.display(), e))?;
        }
        Ok(_) => return Err(RunError::on(path.display(), "exists and is no socket; choose another --socket")),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|e| RunError::on(path.display(), e))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|e| RunError::on(path.display(), e))?;
    Ok(listener)
}

/// Serves until it is told to end, or nothing is left to serve.
fn run(daemon: &Arc<Daemon>, stay: bool) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| RunError::on("signals", e))?;
    let waited = runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut reload = signal(SignalKind::hangup())?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                _ = end.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                _ = reload.recv() => {
                    if let Err(error) = daemon.reload() {
                        tracing::error!(%error, "the policy stays as it was");
                    }
                }
                _ = tick.tick() => {
                    daemon.drop_ended();
                    if !stay && daemon.views.lock().is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    });
    daemon.end();
    waited.map_err(|e: std::io::Error| RunError::on("signals", e))
}

impl Daemon {
    /// Opens a view: its sources, its socket, its mount.
    pub fn add(&self, config: ViewConfig) -> Result<Started> {
        let name = self.free_name(&config);
        let policy = compile(&config)?;
        let mut sources = Vec::new();
        for source in &config.sources {
            sources.push(self.source(&source.path, &source.name, source.read_only)?);
        }
        let spec = ViewSpec { name: name.clone(), sources, policy };
        let view = View::new(&self.core, spec).map_err(|e| RunError::on(&name, e))?;
        for alias in &config.alias {
            view.add_root(alias.as_bytes());
        }
        if let Some(mountpoint) = &config.mountpoint {
            view.add_root(std::os::unix::ffi::OsStrExt::as_bytes(mountpoint.as_os_str()));
        }
        let socket = match &config.socket {
            Some(socket) => socket.clone(),
            None => {
                let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                registry::runtime_dir()?.join(format!("{}-{number}.sock", std::process::id()))
            }
        };
        let listener = listen(&socket)?;
        view.set_socket(socket.clone());
        let features = config.policy.features.iter();
        let writable = !config.mount.read_only && config.sources.iter().any(|source| !source.read_only);
        let settings = ToolSettings {
            features: AccessGroup::ALL
                .into_iter()
                .filter(|group| features.clone().any(|f| f == group.word()))
                // What cannot work is not offered.
                .filter(|group| *group != AccessGroup::Write || writable)
                .collect(),
            require_hash: config.policy.require_hash,
            profile: config.tools.clone(),
        };
        let toolbox = tools::toolbox(Arc::clone(&view), settings);
        let server = control::serve(listener, toolbox, &name, Limits::default())
            .map_err(|e| RunError::on(socket.display(), e))?;
        let mount = match &config.mountpoint {
            None => None,
            Some(mountpoint) => {
                let options = MountOptions {
                    source: config.sources.first().map_or_else(|| "wardfs".into(), |s| s.path.display().to_string()),
                    read_only: config.mount.read_only,
                    allow_other: config.mount.allow_other,
                    suid: config.mount.suid,
                    dev: config.mount.dev,
                    noexec: config.mount.noexec,
                    nudger: Some(fuse::OWN_PROGRAM.into()),
                    ..MountOptions::default()
                };
                match fuse::mount(&view, mountpoint, &options) {
                    Ok(mount) => Some(mount),
                    Err(error) => {
                        server.shutdown(Duration::from_secs(1));
                        remove_socket(&socket);
                        return Err(RunError::on(mountpoint.display(), error));
                    }
                }
            }
        };
        let started = Started {
            view: name.clone(),
            mountpoint: config.mountpoint.clone(),
            socket: socket.clone(),
            store: self.store.clone(),
            stores: vec![self.store.clone()],
            pid: std::process::id(),
            admin_socket: self.admin_socket.clone(),
            notes: std::mem::take(&mut self.notes.lock()),
        };
        self.views.lock().insert(name, Serving { config, view, socket, server: Some(server), mount });
        self.announce()?;
        Ok(started)
    }

    fn free_name(&self, config: &ViewConfig) -> String {
        let views = self.views.lock();
        let base = if config.name.is_empty() { "view" } else { &config.name };
        if !views.contains_key(base) {
            return base.to_owned();
        }
        (2..).map(|n| format!("{base}-{n}")).find(|name| !views.contains_key(name)).unwrap_or_else(|| base.to_owned())
    }

    /// A source, opened once however many views show it. What a crash left in it is finished first.
    fn source(&self, path: &Path, name: &str, read_only: bool) -> Result<Arc<Source>> {
        let mut sources = self.sources.lock();
        let entry = EntryName::new(name.as_bytes()).map_err(|e| RunError::on(name, e))?;
        let known = sources.iter().find(|(at, ro, source)| at == path && *ro == read_only && source.name == entry);
        if let Some((_, _, source)) = known {
            return Ok(Arc::clone(source));
        }
        let spec = SourceSpec { path: path.to_owned(), name: entry, read_only };
        let source = Source::open(&self.core, spec).map_err(|e| RunError::on(path.display(), e))?;
        place::hide_inside(&self.store, path);
        let mut notes =
            self.core.recover(std::slice::from_ref(&source)).map_err(|e| RunError::on(path.display(), e))?;
        if source.mode == Mode::Copying {
            notes.push(format!(
                "{}: the store {} lies on another file system or mount; removed files are copied, those over 64 MiB are not kept",
                path.display(),
                self.store.display()
            ));
        }
        self.notes.lock().extend(notes);
        sources.push((path.to_owned(), read_only, Arc::clone(&source)));
        Ok(source)
    }

    fn announce(&self) -> Result<()> {
        let views = self.views.lock();
        let view = |(name, serving): (&String, &Serving)| KnownView {
            name: name.clone(),
            mountpoint: serving.config.mountpoint.clone(),
            socket: serving.socket.clone(),
            sources: serving.config.sources.iter().map(|source| source.path.clone()).collect(),
        };
        registry::announce(&Known {
            pid: std::process::id(),
            started: registry::started(std::process::id()).unwrap_or(0),
            admin_socket: self.admin_socket.clone(),
            store: self.store.clone(),
            views: views.iter().map(view).collect(),
        })
    }

    /// What runs, for `status`.
    pub fn status(&self) -> Result<Value> {
        let store = self.core.store();
        let stats = store.stats().map_err(|e| RunError(e.to_string()))?;
        let views = self.views.lock();
        let views: Vec<Value> = views
            .iter()
            .map(|(name, serving)| {
                json!({
                    "view": name,
                    "mountpoint": serving.config.mountpoint,
                    "socket": serving.socket,
                    "sources": serving.config.sources.iter().map(|source| json!({
                        "path": source.path, "name": source.name, "read_only": source.read_only,
                    })).collect::<Vec<_>>(),
                    "kernel_nodes": serving.view.held_nodes(),
                })
            })
            .collect();
        Ok(json!({
            "pid": std::process::id(),
            "admin_socket": self.admin_socket,
            "store": {
                "path": self.store,
                "durability": match store.durability() { Durability::Strict => "strict", Durability::Relaxed => "relaxed" },
                "operations": stats.operations,
                "versions": stats.versions,
                "contents": stats.contents,
                "log_bytes": stats.log_bytes,
                "aside_bytes": stats.aside_bytes,
                "stopped": store.poisoned(),
            },
            "views": views,
        }))
    }

    /// How the view with a control socket is configured.
    pub fn config(&self, socket: &Path) -> Result<ViewConfig> {
        let views = self.views.lock();
        let found = views.values().find(|serving| serving.socket == socket).map(|serving| serving.config.clone());
        found.ok_or_else(|| RunError::on(socket.display(), "is not a socket of this daemon"))
    }

    /// Takes away the view that is mounted somewhere.
    pub fn unmount(&self, mountpoint: &Path) -> Result<()> {
        let name = {
            let views = self.views.lock();
            let found = views.iter().find(|(_, serving)| serving.config.mountpoint.as_deref() == Some(mountpoint));
            found.map(|(name, _)| name.clone())
        };
        let name = name.ok_or_else(|| RunError::on(mountpoint.display(), "is not mounted by this daemon"))?;
        self.remove(&name)
    }

    /// Takes a view away; returns when all is sealed, flushed and unmounted.
    pub fn remove(&self, name: &str) -> Result<()> {
        let serving = self.views.lock().remove(name).ok_or_else(|| RunError::on(name, "there is no such view"))?;
        let ended = close(serving);
        self.core.store().sync_all().map_err(|e| RunError(e.to_string()))?;
        self.announce()?;
        ended
    }

    /// Views whose mount somebody else took away.
    fn drop_ended(&self) {
        let ended: Vec<Serving> = {
            let mut views = self.views.lock();
            let gone = |serving: &Serving| serving.mount.as_ref().is_some_and(Mount::has_ended);
            let names: Vec<String> = views.iter().filter(|(_, s)| gone(s)).map(|(name, _)| name.clone()).collect();
            names.iter().filter_map(|name| views.remove(name)).collect()
        };
        if ended.is_empty() {
            return;
        }
        for serving in ended {
            if let Err(error) = close(serving) {
                tracing::error!(%error, "a view did not end cleanly");
            }
        }
        if let Err(error) = self.announce() {
            tracing::warn!(%error, "the registry could not be written");
        }
    }

    /// Reads the policies again. A view whose policy is wrong keeps the one it has.
    pub fn reload(&self) -> Result<()> {
        let all: Vec<(String, ViewConfig, Arc<View>)> = {
            let views = self.views.lock();
            views.iter().map(|(n, s)| (n.clone(), s.config.clone(), Arc::clone(&s.view))).collect()
        };
        let mut failed = Vec::new();
        for (name, mut config, view) in all {
            let policy = match &config.policy_file {
                None => continue,
                Some(PolicyFile::Policy(path)) => load_policy(path),
                Some(PolicyFile::Config(path)) => load_config(path).and_then(|file| {
                    let found = file.views.into_iter().find(|view| view.name == config.name);
                    found.map(|view| view.policy).ok_or_else(|| crate::config::ConfigError {
                        place: path.display().to_string(),
                        problem: format!("it has no [view.{name}] any more"),
                    })
                }),
            };
            let done = policy.map_err(|e| RunError(e.to_string())).and_then(|policy| {
                config.policy = policy;
                compile(&config)
            });
            match done {
                Ok(policy) => {
                    view.set_policy(policy);
                    tracing::info!(view = %name, "the policy was read again");
                }
                Err(error) => failed.push(error.to_string()),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(RunError(failed.join("; "))) }
    }

    /// Ends everything.
    fn end(&self) {
        let all = std::mem::take(&mut *self.views.lock());
        for serving in all.into_values() {
            if let Err(error) = close(serving) {
                tracing::error!(%error, "a view did not end cleanly");
            }
        }
        self.core.shutdown();
        if let Err(error) = self.core.store().close() {
            tracing::error!(%error, "the store did not end cleanly");
        }
        remove_socket(&self.admin_socket);
        registry::withdraw(std::process::id());
    }
}

/// The policy of a view; the file it came from is not part of what the view shows.
fn compile(config: &ViewConfig) -> Result<Policy> {
    let mut policy = config.policy.clone();
    let file = config.policy_file.as_ref().map(|file| match file {
        PolicyFile::Config(path) | PolicyFile::Policy(path) => path,
    });
    if let Some(file) = file.and_then(|file| std::fs::canonicalize(file).ok()) {
        for source in &config.sources {
            let Ok(below) = file.strip_prefix(&source.path) else { continue };
            let below = if config.sources.len() > 1 { Path::new(&source.name).join(below) } else { below.to_owned() };
            policy.deny.push(PatternConfig { text: literal(&below), origin: "the policy's own file".into() });
        }
    }
    Policy::compile(&policy.spec(config.mount.read_only)).map_err(|e| RunError(e.to_string()))
}

/// A pattern that means one path and nothing else.
fn literal(path: &Path) -> String {
    let mut pattern = String::from("/");
    for c in path.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn close(mut serving: Serving) -> Result<()> {
    if let Some(server) = serving.server.take() {
        server.shutdown(Duration::from_secs(5));
    }
    remove_socket(&serving.socket);
    match serving.mount.take() {
        Some(mount) => mount.unmount(UNMOUNT_WAIT).map_err(|e| RunError::on(mount.mountpoint().display(), e)),
        None => Ok(()),
    }
}

fn remove_socket(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, "a socket was gone already");
    }
}
