//! Dead mounts of ours: found by the error they answer with, and cleared away.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::unmount::{detach, top_mount};
use crate::host::Errno;

/// Detaches a mount of ours at `mountpoint` whose daemon died. True if there was one.
///
/// # Errors
/// It is dead and not ours, or could not be detached.
pub fn clear_stale(mountpoint: &Path) -> io::Result<bool> {
    // What the kernel remembers of a dead mount would look alive: it must ask.
    match rustix::fs::statx(CWD, mountpoint, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {}
        Ok(_) | Err(_) => return Ok(false),
    }
    let path = absolute(mountpoint)?;
    match top_mount(&path)? {
        Some(line) if line.fs_type == "fuse.wardfs" => {}
        Some(_) | None => {
            let path = path.display();
            let message = format!("{path} is a dead mount of another file system; unmount it with `umount -l {path}`");
            return Err(io::Error::other(message));
        }
    }
    detach(&path)?;
    Ok(true)
}

/// The path as the kernel lists it. Only the directory above can be asked, since the dead mount answers nothing.
fn absolute(mountpoint: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(mountpoint)?;
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok(above.canonicalize()?.join(name)),
        _ => Ok(path),
    }
}
