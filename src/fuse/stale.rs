//! Dead mounts of ours: found by the error they answer with, and cleared away.

use std::{io, path::Path};

use rustix::{
    fs::{AtFlags, CWD, StatxFlags},
    io::Errno,
    mount::UnmountFlags,
};

/// Detaches a mount at `mountpoint` whose daemon died. True if there was one.
///
/// # Errors
/// The mount is dead and could not be detached, or is not ours.
pub fn clear_stale(mountpoint: &Path) -> io::Result<bool> {
    match rustix::fs::statx(CWD, mountpoint, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {}
        Ok(_) | Err(_) => return Ok(false),
    }
    if !is_ours(mountpoint) {
        return Err(io::Error::other(format!(
            "{} is a dead mount of another file system; unmount it with `umount -l`",
            mountpoint.display()
        )));
    }
    detach(mountpoint)?;
    Ok(true)
}

fn is_ours(mountpoint: &Path) -> bool {
    let Ok(table) = crate::host::process_file(std::process::id(), "mountinfo") else { return false };
    let table = String::from_utf8_lossy(&table);
    let wanted = escaped(mountpoint);
    table.lines().any(|line| {
        let Some((left, right)) = line.split_once(" - ") else { return false };
        left.split(' ').nth(4) == Some(wanted.as_str()) && right.starts_with("fuse.wardfs ")
    })
}

/// A path as mountinfo writes it.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// Detaches whatever is mounted at a path: by the kernel, or by `fusermount3` for a user.
pub(super) fn detach(mountpoint: &Path) -> io::Result<()> {
    match rustix::mount::unmount(mountpoint, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            let done =
                std::process::Command::new("fusermount3").args(["-u", "-z", "-q", "--"]).arg(mountpoint).status()?;
            if done.success() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
        }
        Err(error) => Err(error.into()),
    }
}
