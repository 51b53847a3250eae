//! The nudger: a small process of its own that touches paths through the mount, so that the kernel wakes watchers. The daemon
//! answers its touches and does nothing; no thread of the daemon ever touches its own mount.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::fs::{CWD, Mode, OFlags};

use crate::{host::Errno, types::Kind};

/// `f_type` of a FUSE mount.
const FUSE_MAGIC: i128 = 0x6573_5546;
/// What a nudger that is this very program is started by; works also after the program was replaced on disk.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Starts a nudger for a mountpoint. It touches nothing before it is asked to.
///
/// # Errors
/// It could not be started.
pub(super) fn start(program: &Path, mountpoint: &Path) -> io::Result<Child> {
    Command::new(program)
        .arg0("wardfs")
        .arg("nudge")
        .arg(mountpoint)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
}

/// Reads NUL-separated paths below `mountpoint` until its input ends, and touches each. Does nothing unless FUSE is mounted
/// there, and ends when what is mounted there changes: elsewhere its touches would be real.
pub fn nudge_main(mountpoint: &Path, input: impl Read) {
    let mut input = BufReader::new(input);
    let mut path = Vec::new();
    let mut device = None;
    while input.read_until(0, &mut path).is_ok_and(|read| read > 0) {
        if path.last() == Some(&0) {
            path.pop();
        }
        // Looked at when the first path comes: by then the mount is there.
        if device.is_none() {
            device = fuse_device(mountpoint);
        }
        let Some(device) = device else { return };
        match touch(&mountpoint.join(OsStr::from_bytes(&path)), device) {
            // It changed or went away meanwhile, and that woke watchers by itself; or we may not.
            Ok(()) | Err(_) => {}
        }
        path.clear();
    }
}

/// The device number of the FUSE mount at a path.
fn fuse_device(mountpoint: &Path) -> Option<u64> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, mountpoint, flags, Mode::empty()).ok()?;
    let is_fuse = i128::from(rustix::fs::fstatfs(&dir).ok()?.f_type) == FUSE_MAGIC;
    is_fuse.then(|| crate::host::stat(dir.as_fd()).map(|attr| attr.dev).ok()).flatten()
}

/// The same mode again wakes for ATTRIB, the same size again for MODIFY.
fn touch(path: &Path, device: u64) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let attr = crate::host::stat(found.as_fd())?;
    if attr.dev != device || attr.kind == Kind::Symlink {
        return Ok(());
    }
    crate::host::chmod(found.as_fd(), attr.mode)?;
    if attr.kind == Kind::File {
        let file = reopen(&found)?;
        rustix::fs::ftruncate(&file, attr.size)?;
    }
    Ok(())
}

/// The very file that was looked at, for writing.
fn reopen(found: &OwnedFd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}
