//! Which daemons of this user run: a file each in the runtime directory, cleared when its process is gone.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};

use super::{Result, RunError, process_ends, socket};

/// SIGKILL, in a mask of signals.
const KILL: u64 = 1 << 8;
/// `PF_EXITING`, in the flags of `/proc/PID/stat`.
const EXITING: u64 = 4;
/// How long a daemon that was killed may take to end.
const END_WAIT: Duration = Duration::from_secs(2);
/// Room for the longest name of a socket in the runtime directory.
const NAME_MAX: usize = 32;

/// A daemon that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Its process.
    pub pid: u32,
    /// When the process started, in clock ticks since boot, so that another process of the same number is not taken for it.
    pub started: u64,
    /// The mount namespace it mounts in, as `/proc/PID/ns/mnt` names it.
    #[serde(default)]
    pub namespace: String,
    /// Its admin socket.
    pub admin_socket: PathBuf,
    /// Its store.
    pub store: PathBuf,
    /// Its views.
    pub views: Vec<KnownView>,
}

/// A view of a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownView {
    /// Its name.
    pub name: String,
    /// Its mountpoint.
    pub mountpoint: Option<PathBuf>,
    /// Its control socket.
    pub socket: PathBuf,
    /// The directories it shows, and their names in it.
    pub sources: Vec<(PathBuf, String)>,
}

/// The places a runtime directory may be at, the first that fits first. Root's services have no session and must meet root's
/// sessions, so that a session's directory does not count for root.
fn candidates(uid: Uid, session: Option<PathBuf>, is_mine: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let own = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let mut dirs = Vec::new();
    let mut add = |dir: PathBuf| {
        let fits = dir.as_os_str().len() + NAME_MAX <= socket::PATH_MAX;
        if fits && dir.is_absolute() && is_mine(&dir) && !(uid.is_root() && dir == own) {
            dirs.push(dir.join("wardfs"));
        }
    };
    session.into_iter().for_each(&mut add);
    add(own.clone());
    dirs.push(if uid.is_root() { "/run/wardfs".into() } else { format!("/tmp/wardfs-{}", uid.as_raw()).into() });
    dirs
}

/// Where sockets and the registry live: in `$XDG_RUNTIME_DIR`, else `/run/wardfs` (root) or `/tmp/wardfs-UID`.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
pub fn runtime_dir() -> Result<PathBuf> {
    let uid = geteuid();
    let is_mine = |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid.as_raw());
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let dir = candidates(uid, session, is_mine).into_iter().next();
    let dir = dir.ok_or_else(|| RunError("there is no place for sockets; set XDG_RUNTIME_DIR".into()))?;
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&dir).map_err(|e| RunError::on(dir.display(), e))?;
    let meta = std::fs::symlink_metadata(&dir).map_err(|e| RunError::on(dir.display(), e))?;
    if !meta.is_dir() || meta.uid() != uid.as_raw() || meta.mode() & 0o077 != 0 {
        return Err(RunError::on(dir.display(), "is not a private directory of this user (mode 0700); remove it"));
    }
    Ok(dir)
}

/// A process as `/proc` has it, also one that ended and that nobody waited for.
struct Process {
    /// In clock ticks since boot.
    started: u64,
    /// Killed, or ended, though perhaps not with all of its threads.
    is_ending: bool,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
        let killed = pending.flat_map(|mask| u64::from_str_radix(mask.trim(), 16)).any(|mask| mask & KILL != 0);
        let exits = number(6).is_some_and(|flags| flags & EXITING != 0);
        let ended = matches!(fields.first(), Some(&("Z" | "X")));
        Some(Process { started: number(19)?, is_ending: killed || exits || ended })
    }
}

/// The start of a process; none if there is none.
pub(super) fn started(pid: u32) -> Option<u64> {
    Process::of(pid).filter(|process| !process.is_ending).map(|process| process.started)
}

/// The mount namespace of this process.
pub(super) fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/mnt").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The daemons that run. Files of dead ones, and their sockets, are removed.
///
/// # Errors
/// The runtime directory.
pub fn known() -> Result<Vec<Known>> {
    let dir = runtime_dir()?;
    let entries = std::fs::read_dir(&dir).map_err(|e| RunError::on(dir.display(), e))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files.iter().filter_map(|path| living(path)).collect())
}

/// The daemon of a file, if it lives; what a dead one left is removed.
fn living(path: &Path) -> Option<Known> {
    let text = std::fs::read_to_string(path).ok()?;
    let daemon = serde_json::from_str::<Known>(&text).ok()?;
    match Process::of(daemon.pid).filter(|process| process.started == daemon.started) {
        Some(process) if process.is_ending => let_end(&daemon),
        Some(_) => return Some(daemon),
        None => {}
    }
    let sockets = daemon.views.iter().map(|view| &view.socket).chain([&daemon.admin_socket]);
    for file in sockets {
        // A socket that a human chose may be another daemon's by now.
        if std::os::unix::net::UnixStream::connect(file).is_err() {
            socket::remove(file);
        }
    }
    socket::remove(path);
    None
}

/// Waits for the end of a daemon that was killed. A thread of it that waits in the kernel for whoever waits for an answer of
/// the daemon would never end, and hold the mount: then the connection is cut.
fn let_end(daemon: &Known) {
    if process_ends(daemon.pid, END_WAIT) || daemon.namespace != namespace() {
        return;
    }
    for mountpoint in daemon.views.iter().filter_map(|view| view.mountpoint.as_deref()) {
        if let Err(error) = crate::fuse::abort(mountpoint) {
            tracing::warn!(%error, mountpoint = %mountpoint.display(), "the mount of a daemon that was killed could not be cut off");
        }
    }
    if !process_ends(daemon.pid, END_WAIT) {
        tracing::warn!(pid = daemon.pid, "a daemon that was killed does not end");
    }
}

/// Writes this daemon's file.
pub(super) fn announce(daemon: &Known) -> Result<()> {
    let dir = runtime_dir()?;
    let (path, new) = (file_of(&dir, daemon.pid), dir.join(format!("{}.new", daemon.pid)));
    let text = serde_json::to_string(daemon).map_err(|e| RunError::on("the registry", e))?;
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(|e| RunError::on(path.display(), e))
}

/// Removes this daemon's file.
pub(super) fn withdraw(pid: u32) {
    if let Ok(dir) = runtime_dir() {
        // It may never have been written.
        let _ = std::fs::remove_file(file_of(&dir, pid));
    }
}

fn file_of(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("{pid}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_services_of_one_user_meet() {
        let check = |uid: u32, session: Option<&str>, mine: &[&str], expected: &str| {
            let is_mine = |dir: &Path| mine.iter().any(|mine| Path::new(mine) == dir);
            let found = candidates(Uid::from_raw(uid), session.map(PathBuf::from), is_mine);
            assert_eq!(found.first().map(PathBuf::as_path), Some(Path::new(expected)), "{uid} {session:?}");
        };
        check(7, Some("/run/user/7"), &["/run/user/7"], "/run/user/7/wardfs");
        check(7, None, &["/run/user/7"], "/run/user/7/wardfs");
        check(7, None, &[], "/tmp/wardfs-7");
        check(7, Some("/run/user/0"), &[], "/tmp/wardfs-7");
        check(7, Some("relative"), &["relative"], "/tmp/wardfs-7");
        check(0, None, &["/run/user/0"], "/run/wardfs");
        check(0, Some("/run/user/0"), &["/run/user/0"], "/run/wardfs");
        check(0, Some("/run/user/7"), &[], "/run/wardfs");
        check(0, Some("/tmp/x"), &["/tmp/x"], "/tmp/x/wardfs");
        let long = format!("/{}", "x".repeat(90));
        check(7, Some(&long), &[&long], "/tmp/wardfs-7");
    }

    #[test]
    fn what_a_dead_daemon_left_is_cleared() {
        let dir = tempfile::tempdir().expect("a directory");
        let admin_socket = dir.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&admin_socket).expect("a socket"));
        let mut daemon = Known {
            pid: std::process::id(),
            started: started(std::process::id()).expect("this process lives"),
            namespace: namespace(),
            admin_socket,
            store: "/s".into(),
            views: Vec::new(),
        };
        let path = file_of(dir.path(), daemon.pid);
        let write = |daemon: &Known| std::fs::write(&path, serde_json::to_vec(daemon).expect("JSON")).expect("written");
        write(&daemon);
        assert_eq!(living(&path), Some(daemon.clone()));
        // Another process that got the number of a dead one.
        daemon.started += 1;
        write(&daemon);
        assert_eq!(living(&path), None);
        assert!(!path.exists() && !daemon.admin_socket.exists());
    }
}
