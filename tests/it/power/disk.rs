//! File systems on disks that are files, in a world of their own: what is mounted in it goes with it, also when it is killed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Shell, is_root, left_out, program};

/// Set in the world of its own.
const INSIDE: &str = "WARDFS_TEST_POWER";

/// Runs `test` where its mounts are seen by nobody else and end with it, whatever happens to it; `name` is that of the test that
/// calls this.
#[track_caller]
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    if left_out() {
        return;
    }
    assert!(is_root(), "only root can mount a disk: run this test as root, or leave it out by its name");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    let status = command.status().unwrap();
    assert!(status.success(), "{name}: {status}; what it said stands above");
}

/// What a disk is formatted with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// Its name for `mount`.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Makes a disk of it. Nothing is discarded, so that nothing but writes and flushes reaches the disk.
    pub fn make(self, disk: &Path) {
        let (size, arguments): (u64, &[&str]) = match self {
            FileSystem::Ext4 => (256 << 20, &["-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"]),
            FileSystem::Xfs => (320 << 20, &["-q", "-f", "-K"]),
            FileSystem::Btrfs => (512 << 20, &["-q", "-f", "-K"]),
        };
        std::fs::File::create(disk).unwrap().set_len(size).unwrap();
        let make = format!("mkfs.{}", self.name());
        program(&make);
        Shell::of(Command::new(make).args(arguments).arg(disk)).ok();
    }
}

/// A disk that is mounted.
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Mounts a disk over a loop device, which goes when the mount does. `direct`: what is written does not stay in the page
    /// cache of the file below.
    pub fn mount(kind: FileSystem, disk: &Path, at: &Path, direct: bool) -> Disk {
        let options = if kind == FileSystem::Ext4 { "loop,noinit_itable" } else { "loop" };
        let mut mount = Command::new("mount");
        Shell::of(mount.args(["-t", kind.name(), "-o", options]).arg(disk).arg(at)).ok();
        let mounted = Disk { at: at.to_owned() };
        if direct {
            let device = Shell::of(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(at)).ok();
            Shell::of(Command::new("losetup").args(["--direct-io=on", device.trim()])).ok();
        }
        mounted
    }

    /// Unmounts it, which must work.
    pub fn unmount(self) {
        Shell::of(Command::new("umount").arg(&self.at)).ok();
        std::mem::forget(self);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Somebody may still use it, since the test failed; it goes when he does.
        crate::harness::take_away(&self.at);
    }
}
