//! Which daemons of this user run: a file each in the runtime directory, cleared when its process is gone.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Result, RunError};

/// A daemon that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Its process.
    pub pid: u32,
    /// When the process started, in clock ticks since boot, so that another process of the same number is not taken for it.
    pub started: u64,
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
    /// The directories it shows.
    pub sources: Vec<PathBuf>,
}

/// Where sockets and the registry live: of root `/run/wardfs`, of a user below `$XDG_RUNTIME_DIR` or `/tmp`.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
pub fn runtime_dir() -> Result<PathBuf> {
    let uid = rustix::process::geteuid();
    let dir = if uid.is_root() {
        PathBuf::from("/run/wardfs")
    } else {
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_dir()) {
            Some(dir) => PathBuf::from(dir).join("wardfs"),
            None => PathBuf::from(format!("/tmp/wardfs-{}", uid.as_raw())),
        }
    };
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&dir).map_err(|e| RunError::on(dir.display(), e))?;
    let meta = std::fs::symlink_metadata(&dir).map_err(|e| RunError::on(dir.display(), e))?;
    if !meta.is_dir() || meta.uid() != uid.as_raw() || meta.mode() & 0o022 != 0 {
        return Err(RunError::on(dir.display(), "is not a private directory of this user; remove it"));
    }
    Ok(dir)
}

/// The start of a process; none if there is none.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A process that ended and that nobody waited for is still listed.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The daemons that run. Files of dead ones, and their sockets, are removed.
///
/// # Errors
/// The runtime directory.
pub fn known() -> Result<Vec<Known>> {
    let dir = runtime_dir()?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(|e| RunError::on(dir.display(), e))?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(daemon) = serde_json::from_str::<Known>(&text) else { continue };
        if started(daemon.pid) == Some(daemon.started) {
            all.push(daemon);
            continue;
        }
        let leftovers = daemon.views.iter().map(|view| view.socket.clone()).chain([daemon.admin_socket.clone(), path]);
        for file in leftovers {
            // Somebody else may be clearing up, too.
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(all)
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
