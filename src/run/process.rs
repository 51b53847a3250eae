//! The daemon as a process: how it starts, where it logs, which signals it heeds, how it ends.

use std::{
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};

use super::{
    Result, RunError,
    admin::Human,
    daemon::{Daemon, Fewer},
    launch::{Launch, Report, Started},
    registry, service, socket,
};
use crate::{
    control::{self, Server},
    versions::{Durability, Store, StoreError, StoreOptions},
};

/// A log longer than this is put aside when a daemon starts.
const LOG_MAX: u64 = 8 << 20;
/// How long answers of the admin socket may take to be read at the end.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// A daemon that is up.
pub(super) struct Process {
    daemon: Arc<Daemon>,
    admin: Server,
    heard: Heard,
    runtime: Runtime,
}

/// What a daemon hears.
struct Heard {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
    fewer: UnboundedReceiver<Fewer>,
}

/// Why it is not.
pub(super) enum Refusal {
    Locked { admin: PathBuf, pid: u32 },
    Failed(RunError),
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Self {
        Refusal::Failed(error)
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
        return Err(RunError::on("setsid", error));
    }
    match Process::open(&launch, log_to) {
        Err(Refusal::Locked { admin, pid }) => say(&Report::Locked { admin, pid }),
        Err(Refusal::Failed(error)) => say(&Report::Failed(error.to_string())),
        Ok((process, started)) => {
            say(&Report::Started(started))?;
            leave_terminal(&process.daemon.store);
            process.run();
            Ok(())
        }
    }
}

fn say(report: &Report) -> Result<()> {
    let line = serde_json::to_string(report).map_err(|e| RunError::on("the report", e))?;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| RunError::on("standard output", e))
}

fn log_file(store: &Path) -> Option<std::fs::File> {
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(store.join("daemon.log")).ok()
}

fn log_to(store: &Path) {
    let path = store.join("daemon.log");
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > LOG_MAX) {
        // It goes on growing where it is, if it can't be moved.
        let _ = std::fs::rename(&path, store.join("daemon.log.old"));
    }
    let Some(file) = log_file(store) else { return };
    subscriber().with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
}

/// Logs on standard error, for a daemon in the foreground.
pub(super) fn log_here() {
    subscriber().with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_writer(std::io::stderr).init();
}

fn subscriber() -> tracing_subscriber::fmt::SubscriberBuilder<
    tracing_subscriber::fmt::format::DefaultFields,
    tracing_subscriber::fmt::format::Format,
    tracing_subscriber::EnvFilter,
> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WARDFS_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter)
}

/// Lets go of what the command gave us: who waits for the end of its output waits for us, else. A panic goes to the log.
fn leave_terminal(store: &Path) {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        // There is nobody to tell.
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(log_file(store).as_ref().unwrap_or(&null));
    }
}

impl Process {
    /// Opens the store, the admin socket and the views.
    ///
    /// # Errors
    /// Another daemon has the store; or why it cannot be, then nothing is left.
    pub fn open(launch: &Launch, log: impl FnOnce(&Path)) -> std::result::Result<(Process, Vec<Started>), Refusal> {
        // Modes come from who creates a file, through the mount or by a tool.
        rustix::process::umask(rustix::fs::Mode::empty());
        let durability = if launch.config.store.relaxed { Durability::Relaxed } else { Durability::Strict };
        let store = match Store::open(&launch.store, &StoreOptions { durability }) {
            Ok(store) => store,
            Err(StoreError::Locked { pid, admin, .. }) => return Err(Refusal::Locked { admin: admin.into(), pid }),
            Err(error) => return Err(RunError(error.to_string()).into()),
        };
        log(&launch.store);
        super::keeping::remember(&launch.store, &launch.config.store.keep);
        let kept = store.retain(super::keeping::retention(&launch.config.store.keep)).and_then(|()| store.keep());
        kept.map_err(|e| RunError(e.to_string()))?;
        if let Err(error) = crate::host::raise_fd_limit() {
            tracing::warn!(%error, "the limit of descriptors stays as it is");
        }
        let admin_socket = registry::runtime_dir()?.join(format!("{}-admin.sock", std::process::id()));
        let (sender, fewer) = unbounded_channel();
        let (runtime, heard) = listen_for(fewer).map_err(|e| RunError::on("signals", e))?;
        let daemon = Daemon::new(Arc::clone(&store), admin_socket.clone(), sender);
        let listener = socket::listen(&admin_socket)?;
        let admin = control::serve_admin(listener, Arc::new(Human(Arc::clone(&daemon))))
            .map_err(|e| RunError::on(admin_socket.display(), e))?;
        let process = Process { daemon, admin, heard, runtime };
        let mut started = Vec::new();
        for view in &launch.config.views {
            match process.daemon.add(view.clone()) {
                Ok(view) => started.push(view),
                Err(error) => {
                    process.end();
                    return Err(error.into());
                }
            }
        }
        // From now on others find it.
        if let Err(error) = store.announce(&admin_socket) {
            process.end();
            return Err(RunError(error.to_string()).into());
        }
        Ok((process, started))
    }

    /// Serves until it is told to end, or nothing is left to serve.
    pub fn run(mut self) {
        service::ready();
        self.runtime.block_on(self.heard.until_the_end(&self.daemon));
        service::stopping();
        self.end();
    }

    fn end(self) {
        self.daemon.end();
        self.admin.shutdown(ANSWER_WAIT);
        socket::remove(&self.daemon.admin_socket);
        registry::withdraw(std::process::id());
    }
}

/// Signals are heard from before the daemon is known to anybody, so that none ends it without its end.
fn listen_for(fewer: UnboundedReceiver<Fewer>) -> std::io::Result<(Runtime, Heard)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let reload = signal(SignalKind::hangup())?;
    drop(entered);
    Ok((runtime, Heard { terminate, interrupt, reload, fewer }))
}

impl Heard {
    async fn until_the_end(&mut self, daemon: &Daemon) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.reload.recv() => {
                    service::reloading();
                    // It says itself what went wrong: in the log, and in `status`.
                    let _ = daemon.reload();
                    service::ready();
                }
                Some(Fewer) = self.fewer.recv() => {
                    if daemon.drop_ended() {
                        return;
                    }
                }
            }
        }
    }
}
