//! From a command to a running daemon: a new one, or the one that serves these directories already.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use control_api::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Result, RunError, place, registry};
use crate::config::{Config, ViewConfig};

/// What a daemon is started with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// Views and store settings.
    pub config: Config,
    /// The store.
    pub store: PathBuf,
    /// Stay when the last view is gone (`serve`).
    pub stay: bool,
}

/// What a started view tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Started {
    /// The view.
    pub view: String,
    /// Where it is mounted.
    pub mountpoint: Option<PathBuf>,
    /// Its control socket.
    pub socket: PathBuf,
    /// The store of its first source.
    pub store: PathBuf,
    /// The stores of all.
    pub stores: Vec<PathBuf>,
    /// The daemon.
    pub pid: u32,
    /// The daemon's admin socket.
    pub admin_socket: PathBuf,
    /// What a human should know: recovered files, degraded modes.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What the daemon says on its standard output when it is up, or why it is not.
#[derive(Serialize, Deserialize)]
pub(super) enum Report {
    Started(Vec<Started>),
    Locked { admin: PathBuf, pid: u32 },
    Failed(String),
}

/// Starts the views of a config: in the daemon that serves their directories, else in a new one.
///
/// # Errors
/// In one line for the human; then nothing was started.
pub fn start(mut config: Config, store: Option<&Path>, stay: bool, foreground: bool) -> Result<Vec<Started>> {
    for view in &mut config.views {
        settle_paths(view)?;
    }
    let first = config.views.first().and_then(|view| view.sources.first()).map(|source| source.path.clone());
    let first = first.ok_or_else(|| RunError("nothing to serve: name a directory".into()))?;
    for daemon in registry::known()? {
        let serves = |path: &Path| {
            let known = daemon.views.iter().flat_map(|view| &view.sources);
            known.clone().any(|source| source.starts_with(path) || path.starts_with(source))
        };
        let overlap = config.views.iter().flat_map(|view| &view.sources).any(|source| serves(&source.path));
        if overlap {
            if let Some(asked) = store
                && !same_place(asked, &daemon.store)
            {
                return Err(RunError(format!(
                    "{} is served by process {} with the store {}; leave --store out, or unmount that first",
                    first.display(),
                    daemon.pid,
                    daemon.store.display()
                )));
            }
            return join(&daemon.admin_socket, &config);
        }
    }
    let store = place::choose(&first, store)?;
    let launch = Launch { config, store, stay };
    if foreground {
        return super::daemon::run_foreground(launch);
    }
    match spawn(&launch)? {
        Report::Started(started) => Ok(started),
        Report::Locked { admin, .. } => join(&admin, &launch.config),
        Report::Failed(reason) => Err(RunError(reason)),
    }
}

fn same_place(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok().is_some_and(|a| std::fs::canonicalize(b).ok() == Some(a))
}

/// Real paths, checked, without touching a dead mount.
fn settle_paths(view: &mut ViewConfig) -> Result<()> {
    for source in &mut view.sources {
        let path = std::fs::canonicalize(&source.path).map_err(|e| RunError::on(source.path.display(), e))?;
        if !path.is_dir() {
            return Err(RunError::on(path.display(), "is not a directory; a source is a directory"));
        }
        source.path = path;
    }
    if let Some(mountpoint) = &mut view.mountpoint {
        let at = std::path::absolute(&*mountpoint).map_err(|e| RunError::on(mountpoint.display(), e))?;
        crate::fuse::clear_stale(&at).map_err(|e| RunError::on(at.display(), e))?;
        let at = std::fs::canonicalize(&at)
            .map_err(|e| RunError::on(at.display(), format!("{e}; the mountpoint must be an existing directory")))?;
        if !at.is_dir() {
            return Err(RunError::on(at.display(), "is not a directory; the mountpoint must be an existing directory"));
        }
        *mountpoint = at;
    }
    if let Some(socket) = &mut view.socket {
        *socket = std::path::absolute(&*socket).map_err(|e| RunError::on(socket.display(), e))?;
    }
    Ok(())
}

/// Asks a running daemon to add the views.
fn join(admin: &Path, config: &Config) -> Result<Vec<Started>> {
    let mut client = Client::connect(admin).map_err(|e| RunError(e.to_string()))?;
    let mut all = Vec::new();
    for view in &config.views {
        let answer = client.request("add_view", &json!({"view": view})).map_err(|e| RunError(e.to_string()))?;
        all.push(serde_json::from_value(answer).map_err(|e| RunError::on("the daemon's answer", e))?);
    }
    Ok(all)
}

/// Starts a daemon and waits until it is up.
fn spawn(launch: &Launch) -> Result<Report> {
    let program = std::env::current_exe().map_err(|e| RunError::on("finding this program", e))?;
    let mut command = Command::new(program);
    command.arg("daemon").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    let mut child = command.spawn().map_err(|e| RunError::on("starting the daemon", e))?;
    let text = serde_json::to_string(launch).map_err(|e| RunError::on("the launch", e))?;
    let mut stdin = child.stdin.take().ok_or_else(|| RunError("the daemon has no input".into()))?;
    stdin.write_all(text.as_bytes()).map_err(|e| RunError::on("starting the daemon", e))?;
    drop(stdin);
    let stdout = child.stdout.take().ok_or_else(|| RunError("the daemon has no output".into()))?;
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    if read.is_ok_and(|read| read > 0) {
        return serde_json::from_str(&line).map_err(|e| RunError::on("the daemon's report", e));
    }
    let status = child.wait().map_err(|e| RunError::on("the daemon", e))?;
    Err(RunError(format!("the daemon ended before it was up ({status}); run with -f to see why")))
}

/// How long a command waits for a daemon to unmount.
pub(super) const UNMOUNT_WAIT: Duration = Duration::from_secs(10);
