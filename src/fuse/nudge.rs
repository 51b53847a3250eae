//! The nudger: a small process of its own that touches paths through the mount, so that the kernel tells watchers. The daemon
//! answers its touches and does nothing.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::notifier::below;

/// Starts the nudger for a mountpoint that will be there.
pub(super) fn start(mountpoint: &Path) -> Option<Child> {
    let program = std::env::current_exe().ok()?;
    let child = Command::new(program)
        .arg("nudge")
        .arg(mountpoint)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn();
    match child {
        Ok(child) => Some(child),
        Err(error) => {
            tracing::warn!(%error, "the nudger did not start; watchers are not woken by tools");
            None
        }
    }
}

/// Reads NUL-separated paths below `mountpoint` until its input ends, and touches each.
pub fn nudge_main(mountpoint: &Path, input: impl Read) {
    let mut input = BufReader::new(input);
    let mut path = Vec::new();
    while input.read_until(0, &mut path).is_ok_and(|read| read > 0) {
        if path.last() == Some(&0) {
            path.pop();
        }
        touch(&below(mountpoint, &path));
        path.clear();
    }
}

/// The same mode again wakes ATTRIB; the same size again wakes MODIFY. A path that went away meanwhile wakes by itself.
fn touch(path: &Path) {
    let Ok(stat) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_link = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink;
    if is_link {
        return;
    }
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    if let Err(error) = rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()) {
        tracing::debug!(%error, "a nudge failed");
    }
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if let Err(error) = file.and_then(|file| rustix::fs::ftruncate(&file, size)) {
            tracing::debug!(%error, "a nudge failed");
        }
    }
}
