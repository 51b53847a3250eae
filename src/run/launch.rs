//! From a command to a running daemon: a new one, or the one that serves these directories already.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use control_api::{Client, ClientError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Result, RunError,
    daemon::ENDING,
    foreground, place,
    process::{Process, Refusal, log_here},
    process_ends,
    registry::{self, Known},
    settle::settle,
};
use crate::config::Config;

/// How long a command waits for another daemon to come up, or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a daemon that comes up.
const PAUSE: Duration = Duration::from_millis(20);

/// What a daemon is started with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// Views and store settings.
    pub config: Config,
    /// The store.
    pub store: PathBuf,
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

/// Why a daemon that runs did not take the views.
enum NotJoined {
    /// It is coming up, or ending: another look will tell.
    Again {
        pid: u32,
    },
    Failed(RunError),
}

/// Starts the views of a config: in the daemon that serves their directories, else in a new one. Tells `up` what is served
/// once it is; in the foreground it returns when that has ended, else at once.
///
/// # Errors
/// In one line for the human; then nothing was started.
pub fn start(mut config: Config, store: Option<&Path>, foreground: bool, up: impl FnOnce(&[Started])) -> Result<()> {
    let daemons = registry::known()?;
    for view in &mut config.views {
        settle(view, &daemons)?;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let tried = match serving(&config, store, &registry::known()?)? {
            Some(daemon) => join(&daemon.admin_socket, daemon.pid, &config),
            None => {
                let launch = launch(&config, store)?;
                if foreground {
                    match Process::open(&launch, |_| log_here()) {
                        Ok((process, started)) => {
                            up(&started);
                            process.run();
                            return Ok(());
                        }
                        Err(Refusal::Locked { admin, pid }) => join(&admin, pid, &config),
                        Err(Refusal::Failed(error)) => return Err(error),
                    }
                } else {
                    match spawn(&launch)? {
                        Report::Started(started) => {
                            up(&started);
                            return Ok(());
                        }
                        Report::Locked { admin, pid } => join(&admin, pid, &config),
                        Report::Failed(reason) => return Err(RunError(reason)),
                    }
                }
            }
        };
        match tried {
            Ok(started) => {
                up(&started);
                return if foreground { foreground::attend(&started) } else { Ok(()) };
            }
            Err(NotJoined::Failed(error)) => return Err(error),
            Err(NotJoined::Again { pid }) if Instant::now() > until => {
                return Err(RunError(format!("process {pid} has the store, and neither answers nor ends; see to it")));
            }
            Err(NotJoined::Again { pid }) => {
                // A daemon that ends is waited for; one that comes up is asked again.
                let _ = process_ends(pid, PAUSE);
            }
        }
    }
}

fn launch(config: &Config, store: Option<&Path>) -> Result<Launch> {
    let first = config.views.first().and_then(|view| view.sources.first());
    let first = first.ok_or_else(|| RunError("nothing to serve: name a directory".into()))?;
    let covered: Vec<PathBuf> = config.views.iter().filter_map(|view| view.mountpoint.clone()).collect();
    let runtime = registry::runtime_dir()?;
    if let Some(mountpoint) = covered.iter().find(|mountpoint| runtime.starts_with(mountpoint)) {
        let say = format!("would cover the sockets in {}; mount elsewhere", runtime.display());
        return Err(RunError::on(mountpoint.display(), say));
    }
    let store = place::place_of(&first.path, store, &covered)?.path;
    Ok(Launch { config: config.clone(), store })
}

/// The daemon that serves one of these directories, or one above or below it: two of them would not know of each other's
/// changes.
fn serving(config: &Config, store: Option<&Path>, daemons: &[Known]) -> Result<Option<Known>> {
    let sources = || config.views.iter().flat_map(|view| &view.sources).map(|source| source.path.as_path());
    let overlaps = |daemon: &&Known| {
        let known = daemon.views.iter().flat_map(|view| &view.sources);
        known.into_iter().any(|(known, _)| sources().any(|path| known.starts_with(path) || path.starts_with(known)))
    };
    let found: Vec<&Known> = daemons.iter().filter(overlaps).collect();
    let daemon = match found.as_slice() {
        [] => return Ok(None),
        [only] => *only,
        [one, other, ..] => {
            return Err(RunError(format!(
                "these directories are served by two daemons, processes {} and {}; unmount what one of them serves",
                one.pid, other.pid
            )));
        }
    };
    let served = sources().next().map(|path| path.display().to_string()).unwrap_or_default();
    if let Some(asked) = store
        && !same_place(asked, &daemon.store)
    {
        return Err(RunError(format!(
            "{served}: served by process {} with the store {}; leave --store out, or unmount that first",
            daemon.pid,
            daemon.store.display()
        )));
    }
    if config.views.iter().any(|view| view.mountpoint.is_some()) && daemon.namespace != registry::namespace() {
        return Err(RunError(format!(
            "{served}: served by process {}, which mounts in a mount namespace of its own; mount from there, or end it",
            daemon.pid
        )));
    }
    Ok(Some(daemon.clone()))
}

fn same_place(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok().is_some_and(|a| std::fs::canonicalize(b).ok() == Some(a))
}

/// Asks a running daemon to add the views: all, or none.
fn join(admin: &Path, pid: u32, config: &Config) -> std::result::Result<Vec<Started>, NotJoined> {
    if admin.as_os_str().is_empty() {
        return Err(NotJoined::Again { pid });
    }
    let mut client = match Client::connect(admin) {
        Ok(client) => client,
        Err(ClientError::Connect { source, .. })
            if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused) =>
        {
            return Err(NotJoined::Again { pid });
        }
        Err(error) => return Err(NotJoined::Failed(RunError(error.to_string()))),
    };
    let mut all: Vec<Started> = Vec::new();
    for view in &config.views {
        let asked = json!({"view": view, "relaxed": config.store.relaxed});
        let answer = client.request("add_view", &asked).map_err(|error| match error.to_string() {
            text if text == ENDING => NotJoined::Again { pid },
            text => NotJoined::Failed(RunError(text)),
        });
        let started = answer.and_then(|answer| {
            serde_json::from_value(answer).map_err(|e| NotJoined::Failed(RunError::on("the daemon's answer", e)))
        });
        match started {
            Ok(started) => all.push(started),
            Err(error) => {
                for view in &all {
                    // What went wrong first is what the human hears.
                    let _ = client.request("remove_view", &json!({"view": view.view}));
                }
                return Err(error);
            }
        }
    }
    Ok(all)
}

/// Starts a daemon and waits until it is up.
fn spawn(launch: &Launch) -> Result<Report> {
    // What the shell left open for us is not the daemon's: it would keep pipes and locks for its whole life.
    crate::host::close_on_exec().map_err(|e| RunError::on("marking descriptors", e))?;
    let program = std::env::current_exe().map_err(|e| RunError::on("finding this program", e))?;
    let mut command = Command::new(program);
    command.arg("daemon").stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{SourceConfig, ViewConfig};

    fn daemon(pid: u32, sources: &[&str], namespace: &str) -> Known {
        let sources = sources.iter().map(|path| (PathBuf::from(path), "s".to_owned())).collect();
        let view = registry::KnownView { name: "v".into(), mountpoint: None, socket: "/s".into(), sources };
        Known {
            pid,
            started: 1,
            namespace: namespace.into(),
            admin_socket: "/a".into(),
            store: "/store".into(),
            views: vec![view],
        }
    }

    fn asked(source: &str, mountpoint: Option<&str>) -> Config {
        let source = SourceConfig { path: source.into(), name: "s".into(), read_only: false };
        let view = ViewConfig { mountpoint: mountpoint.map(PathBuf::from), ..ViewConfig::of("v", vec![source]) };
        Config { views: vec![view], ..Config::default() }
    }

    #[test]
    fn the_daemon_of_the_same_files_is_joined_or_a_reason_given() {
        let (here, away) = (registry::namespace(), "mnt:[1]");
        let daemons = [daemon(1, &["/a/b"], &here), daemon(2, &["/c"], away), daemon(3, &["/d/e", "/d/f"], &here)];
        let check = |source: &str,
                     mountpoint: Option<&str>,
                     store: Option<&str>,
                     expected: std::result::Result<Option<u32>, &str>| {
            let found = serving(&asked(source, mountpoint), store.map(Path::new), &daemons);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.map(|daemon| daemon.pid), expected, "{source}"),
                (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{source}: {error}"),
                (found, expected) => assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{source}"),
            }
        };
        check("/a/b", Some("/m"), None, Ok(Some(1)));
        check("/a", Some("/m"), None, Ok(Some(1)));
        check("/a/b/c", None, None, Ok(Some(1)));
        check("/a/bc", None, None, Ok(None));
        check("/a/b", None, Some("/no/such/store"), Err("with the store /store; leave --store out"));
        check("/c", None, None, Ok(Some(2)));
        check("/c", Some("/m"), None, Err("mount namespace"));
        check("/", None, None, Err("two daemons"));
        check("/d", None, None, Ok(Some(3)));
    }
}
