//! How to mount.

use std::{path::PathBuf, time::Duration};

/// How to mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// Shown as the device in `mount` and `df`.
    pub source: String,
    /// Refuse changes at the mount already.
    pub read_only: bool,
    /// Let users other than the daemon's in. Root's default; others need `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Honour setuid bits.
    pub suid: bool,
    /// Honour device nodes.
    pub dev: bool,
    /// Refuse to run programs.
    pub noexec: bool,
    /// How long the kernel believes names and attributes where changes that others make on the host are not seen when they
    /// happen. Changes through us are told to it at once.
    pub ttl: Duration,
    /// How long it then believes that a name does not exist.
    pub negative_ttl: Duration,
    /// How long it believes either where such changes are seen, and told to it.
    pub told_ttl: Duration,
    /// Let the kernel read and write the host's files itself where it can.
    pub passthrough: bool,
    /// The program that wakes watchers for what tools change, run as `PROGRAM nudge MOUNTPOINT`; it calls
    /// [`nudge_main`](super::nudge_main). None: watchers are not woken.
    pub nudger: Option<PathBuf>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: "wardfs".into(),
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            suid: false,
            dev: false,
            noexec: false,
            ttl: Duration::from_secs(1),
            negative_ttl: Duration::from_secs(1),
            told_ttl: Duration::from_secs(3600),
            passthrough: true,
            nudger: None,
        }
    }
}
