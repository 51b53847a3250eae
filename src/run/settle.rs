//! Paths as a daemon can use them: real, absolute, checked, and never inside a mount of our own.

use std::path::{Path, PathBuf};

use super::{Result, RunError, registry::Known};
use crate::config::{PolicyFile, ViewConfig};

/// The magic number of FUSE in statfs(2).
const FUSE: i64 = 0x6573_5546;
/// The attribute that every file of a mount of ours answers for.
const SOCKET: &std::ffi::CStr = c"user.wardfs.socket";

/// Settles a view's paths.
///
/// # Errors
/// A path that is not there, is no directory, or lies in a view.
pub(super) fn settle(view: &mut ViewConfig, daemons: &[Known]) -> Result<()> {
    for source in &mut view.sources {
        let path = std::fs::canonicalize(&source.path).map_err(|e| RunError::on(source.path.display(), e))?;
        if !path.is_dir() {
            return Err(RunError::on(path.display(), "is not a directory; a source is a directory"));
        }
        if in_view(&path) {
            return Err(RunError::on(path.display(), "is shown by a view already; serve the directory behind it"));
        }
        source.path = path;
    }
    if let Some(mountpoint) = &mut view.mountpoint {
        *mountpoint = settle_mountpoint(mountpoint, daemons)?;
    }
    if let Some(socket) = &mut view.socket {
        *socket = absolute(socket)?;
    }
    if let Some(PolicyFile::Config(file) | PolicyFile::Policy(file)) = &mut view.policy_file {
        *file = absolute(file)?;
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| RunError::on(path.display(), e))
}

fn settle_mountpoint(mountpoint: &Path, daemons: &[Known]) -> Result<PathBuf> {
    let wanted = "the mountpoint must be an existing directory";
    let at = absolute(mountpoint)?;
    crate::fuse::clear_stale(&at).map_err(|e| RunError::on(at.display(), e))?;
    let at = std::fs::canonicalize(&at).map_err(|e| RunError::on(at.display(), format!("{e}; {wanted}")))?;
    if !at.is_dir() {
        return Err(RunError::on(at.display(), format!("is not a directory; {wanted}")));
    }
    if daemons.iter().flat_map(|daemon| &daemon.views).any(|view| view.mountpoint.as_deref() == Some(&at)) {
        let say = format!("a view is mounted there already; `wardfs umount {}` takes it away", at.display());
        return Err(RunError::on(at.display(), say));
    }
    if in_view(&at) {
        return Err(RunError::on(at.display(), "lies in a view; mount beside it"));
    }
    Ok(at)
}

/// Does a path lie in a mount of ours?
fn in_view(path: &Path) -> bool {
    let fuse = rustix::fs::statfs(path).is_ok_and(|found| found.f_type == FUSE);
    fuse && rustix::fs::getxattr(path, SOCKET, &mut [0u8; 512][..]).is_ok()
}
