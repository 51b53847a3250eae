//! Where a store goes: the first place that lies on the source's file system and mount, so that files can move into it.

use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags};

use super::{Result, RunError};
use crate::host;

/// The store for a source, and whether files can move into it.
pub(super) fn choose(source: &Path, asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let at = place(source).ok_or_else(|| RunError::on(source.display(), "cannot be opened"))?;
    let name = source.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let (device, inode) = identity(source).ok_or_else(|| RunError::on(source.display(), "cannot be opened"))?;
    let id = format!("{name}-{:x}-{inode:x}", device);
    let state = std::env::var_os("WARDFS_STATE_HOME")
        .or_else(|| std::env::var_os("XDG_STATE_HOME"))
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    let in_state = state.map(|state| state.join("wardfs").join(&id));
    let beside = source.parent().map(|parent| parent.join(format!(".wardfs-{name}")));
    let inside = source.join(".wardfs");
    let all: Vec<PathBuf> = in_state.into_iter().chain(beside).chain([inside]).collect();
    // One that is there already holds the history.
    if let Some(known) = all.iter().find(|path| path.join("FORMAT").is_file()) {
        return Ok(known.clone());
    }
    for candidate in &all {
        if usable(candidate, at) {
            return Ok(candidate.clone());
        }
    }
    all.first().cloned().ok_or_else(|| RunError("no place for a store; name one with --store DIR".into()))
}

/// Prepares a store inside a source so that no repository sees it.
pub(super) fn hide_inside(store: &Path, source: &Path) {
    if store.starts_with(source) {
        // Without it the store still works; git shows it as untracked.
        let _ = std::fs::write(store.join(".gitignore"), "*\n");
    }
}

/// Can it be made, and does it lie where the source lies?
fn usable(candidate: &Path, source: (u64, u64)) -> bool {
    let mut above = candidate;
    while let Some(parent) = above.parent() {
        above = parent;
        if above.is_dir() {
            return place(above) == Some(source) && rustix::fs::access(above, rustix::fs::Access::WRITE_OK).is_ok();
        }
    }
    false
}

fn place(path: &Path) -> Option<(u64, u64)> {
    let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    host::place(fd.as_fd()).ok()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    host::stat(fd.as_fd()).ok().map(|attr| (attr.dev, attr.ino))
}
