//! Where a store goes: the first place that lies on the source's file system and mount, so that files can move into it.

use std::{
    io::Write,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Access, CWD, Mode, OFlags};

use super::{Result, RunError};
use crate::{host, types::Hash};

/// A place for a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The directory.
    pub path: PathBuf,
    /// Files of the source can be moved into it.
    pub linked: bool,
    /// A store is there already.
    pub exists: bool,
}

/// Where the store of a source is, or would be. `asked` is what the human named; nothing below `covered` is taken, since
/// that is where the view will be mounted.
///
/// # Errors
/// The source cannot be opened; there is no place; the human named one that cannot be.
pub fn place_of(source: &Path, asked: Option<&Path>, covered: &[PathBuf]) -> Result<Placed> {
    let at = place(source).map_err(|error| RunError::on(source.display(), error))?;
    let placed = |path: &Path| Placed {
        path: path.to_owned(),
        linked: nearest(path).and_then(|dir| place(dir).ok()) == Some(at),
        exists: path.join("FORMAT").is_file(),
    };
    if let Some(asked) = asked {
        let asked = std::path::absolute(asked).map_err(|error| RunError::on(asked.display(), error))?;
        return match covered.iter().find(|mountpoint| asked.starts_with(mountpoint)) {
            Some(mountpoint) => Err(RunError(format!(
                "{}: the mount at {} would cover this store; choose another --store",
                asked.display(),
                mountpoint.display()
            ))),
            None => Ok(placed(&asked)),
        };
    }
    let mut all: Vec<Placed> = candidates(source)?.iter().map(|path| placed(path)).collect();
    all.retain(|place| usable(&place.path) && !covered.iter().any(|mountpoint| place.path.starts_with(mountpoint)));
    // One that is there holds the history, wherever it is.
    let chosen = all.iter().find(|place| place.exists).or_else(|| all.iter().find(|place| place.linked));
    let none = "there is no place for its store that can be written; name one with --store DIR";
    chosen.or(all.first()).cloned().ok_or_else(|| RunError::on(source.display(), none))
}

fn candidates(source: &Path) -> Result<Vec<PathBuf>> {
    let name = source.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    // The identity that the log knows the source by, too: it outlives a restart, and a move of the directory.
    let (_, root) = host::Fs::open_root(source, &[]).map_err(|error| RunError::on(source.display(), error))?;
    let id: String = Hash::of(&root.stable_key()).hex().chars().take(12).collect();
    let in_state = state_dir().map(|state| state.join(format!("{name}-{id}")));
    let beside = source.parent().map(|parent| parent.join(format!(".wardfs-{name}")));
    Ok(in_state.into_iter().chain(beside).chain([source.join(".wardfs")]).collect())
}

/// `$XDG_STATE_HOME/wardfs`.
pub(super) fn state_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state"))).map(|state| state.join("wardfs"))
}

/// Can it be written, or made? One that is there must be this user's alone: a repository might bring one along.
fn usable(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => {
            meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode().trailing_zeros() >= 6
        }
        Err(_) => nearest(path).is_some_and(|dir| rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()),
    }
}

/// The path, or the nearest directory above it that is there.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.is_dir())
}

fn place(path: &Path) -> std::io::Result<(u64, u64)> {
    let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    Ok(host::place(fd.as_fd())?)
}

/// Prepares an open store: one inside a source is hidden from repositories, and one outside the state directory is listed
/// there, so that no later view shows it.
pub(super) fn settle(store: &Path, source: &Path) {
    if store.starts_with(source) {
        // Without it the store still works; git shows it as untracked.
        let _ = std::fs::write(store.join(".gitignore"), "*\n");
    }
    let Some(state) = state_dir().filter(|state| !store.starts_with(state)) else { return };
    if listed(&state).iter().any(|known| known == store) {
        return;
    }
    let line = [store.as_os_str().as_bytes(), b"\n"].concat();
    let listed = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&state).and_then(|()| {
        std::fs::OpenOptions::new().create(true).append(true).open(state.join("stores"))?.write_all(&line)
    });
    if let Err(error) = listed {
        tracing::warn!(%error, "the store could not be listed; a later view of a directory above it would show it");
    }
}

fn listed(state: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(state.join("stores")).unwrap_or_default();
    let path = |line: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(line));
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(path).collect()
}

/// Directories of ours that no view may show: stores, those of the state directory with them, and the sockets.
pub(super) fn ours(runtime: &Path) -> Vec<PathBuf> {
    let state = state_dir();
    let stores = state.as_deref().map(listed).unwrap_or_default();
    state.into_iter().chain(stores).chain([runtime.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_store_that_came_with_the_source_is_not_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let mode = |mode| {
            let path = dir.path().join("s");
            std::fs::create_dir_all(&path).expect("made");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            usable(&path)
        };
        assert!(mode(0o700) && !mode(0o755) && !mode(0o770));
        assert!(usable(&dir.path().join("none/yet")));
        std::fs::write(dir.path().join("file"), "").expect("written");
        assert!(!usable(&dir.path().join("file")));
    }

    #[test]
    fn the_first_place_on_the_same_mount_is_taken_unless_it_will_be_covered() {
        let dir = tempfile::tempdir().expect("a directory");
        let source = dir.path().join("app");
        std::fs::create_dir(&source).expect("made");
        let beside = dir.path().join(".wardfs-app");
        std::fs::DirBuilder::new().mode(0o700).create(&beside).expect("made");
        std::fs::write(beside.join("FORMAT"), "").expect("written");
        let found = place_of(&source, None, &[]).expect("a place");
        assert_eq!(found, Placed { path: beside.clone(), linked: true, exists: true });
        let asked =
            place_of(&source, Some(&source.join("s")), std::slice::from_ref(&source)).expect_err("covered").to_string();
        assert!(asked.contains("would cover"), "{asked}");
        let covered = place_of(&source, None, &[dir.path().to_owned()]).map(|place| place.path);
        assert!(!covered.is_ok_and(|path| path.starts_with(dir.path())));
        assert!(place_of(&dir.path().join("none"), None, &[]).is_err());
    }
}
