//! Mounting: made whole before anybody can see it, and taken away without leaving anything behind.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags},
};

use super::{door::Door, notifier::KernelNotify, nudge, stale};
use crate::view::View;

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Shown as the device in `mount` and `df`.
    pub source: String,
    /// Refuse changes at the mount already.
    pub read_only: bool,
    /// Let users other than the daemon's in.
    pub allow_other: bool,
    /// Honour setuid bits.
    pub suid: bool,
    /// Honour device nodes.
    pub dev: bool,
    /// Refuse to run programs.
    pub noexec: bool,
    /// How long the kernel believes names and attributes.
    pub ttl: Duration,
    /// Wake watchers for what tools change.
    pub nudge: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: "wardfs".into(),
            read_only: false,
            allow_other: false,
            suid: false,
            dev: false,
            noexec: false,
            ttl: Duration::from_secs(1),
            nudge: true,
        }
    }
}

/// Why a mount could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mountpoint is not a directory that can be used.
    #[error("{}: {reason}", path.display())]
    Mountpoint {
        /// Which.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// `/dev/fuse` cannot be opened.
    #[error("/dev/fuse: {0}; `wardfs doctor` tells what is missing, `wardfs serve` works without a mount")]
    Device(io::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// Which.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// A view that is mounted.
pub struct Mount {
    view: Arc<View>,
    mountpoint: PathBuf,
    notify: Arc<KernelNotify>,
    session: Mutex<Option<BackgroundSession>>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

/// Mounts a view. When this returns, the mount answers.
///
/// # Errors
/// `MountError`; then nothing is mounted.
pub fn mount(view: &Arc<View>, mountpoint: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    let system = |what| move |source: io::Error| MountError::System { what, source };
    stale::clear_stale(mountpoint).map_err(system("clearing a dead mount"))?;
    let bad = |reason: String| MountError::Mountpoint { path: mountpoint.to_owned(), reason };
    let target = rustix::fs::openat(CWD, mountpoint, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| bad(format!("{error}; the mountpoint must be an existing directory")))?;
    let attr = crate::host::stat(target.as_fd()).map_err(|error| bad(error.to_string()))?;
    if !view.sources().iter().any(|source| source.root.key().ino == attr.ino && source.fs.dev() == attr.dev) {
        view.hide(attr.dev, attr.ino);
    }
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let privileged = rustix::process::geteuid().is_root();
    let door = Door::new(Arc::clone(view), options.ttl, privileged, Arc::clone(&ended));
    let mut config = Config::default();
    config.n_threads = Some(std::thread::available_parallelism().map_or(2, usize::from).max(2) + 2);
    // The kernel itself keeps others out, unless allow_other lets them in.
    config.acl = if options.allow_other || privileged { SessionACL::All } else { SessionACL::Owner };
    let (session, place) = if privileged {
        let (session, tree) = own_mount(door, options, config)?;
        (session, Some(tree))
    } else {
        config.mount_options = vec![
            MountOption::FSName(options.source.replace(',', "_")),
            MountOption::Subtype("wardfs".into()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        config.mount_options.extend(options.read_only.then_some(MountOption::RO));
        config.mount_options.extend(options.noexec.then_some(MountOption::NoExec));
        (Session::new(door, mountpoint, &config).map_err(system("mounting by fusermount3"))?, None)
    };
    let background = session.spawn().map_err(system("starting the session"))?;
    let nudger = if options.nudge { nudge::start(mountpoint) } else { None };
    view.set_nudger(nudger.as_ref().map_or(0, std::process::Child::id));
    let notify = KernelNotify::start(background.notifier(), nudger);
    if let Some(tree) = place {
        let moved = rustix::mount::move_mount(
            &tree,
            c"",
            &target,
            c"",
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
        );
        if let Err(error) = moved {
            notify.stop();
            return Err(MountError::System { what: "attaching the mount", source: error.into() });
        }
    }
    let as_notify: Arc<dyn crate::view::Notify> = Arc::clone(&notify) as Arc<dyn crate::view::Notify>;
    view.set_notify(as_notify);
    Ok(Mount {
        view: Arc::clone(view),
        mountpoint: mountpoint.to_owned(),
        notify,
        session: Mutex::new(Some(background)),
        ended,
    })
}

/// A mount made by our own system calls: nobody sees it before it answers, and options cannot be smuggled in.
fn own_mount(door: Door, options: &MountOptions, config: Config) -> Result<(Session<Door>, OwnedFd), MountError> {
    let system = |what| move |source: rustix::io::Errno| MountError::System { what, source: source.into() };
    let device = rustix::fs::openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| MountError::Device(error.into()))?;
    let fs = rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(system("fsopen"))?;
    let set = |key: &str, value: &str| {
        rustix::mount::fsconfig_set_string(fs.as_fd(), key, value).map_err(system("configuring the mount"))
    };
    let flag = |key: &str| rustix::mount::fsconfig_set_flag(fs.as_fd(), key).map_err(system("configuring the mount"));
    set("source", &options.source)?;
    set("subtype", "wardfs")?;
    set("fd", &device.as_raw_fd().to_string())?;
    set("rootmode", "40755")?;
    set("user_id", &rustix::process::geteuid().as_raw().to_string())?;
    set("group_id", &rustix::process::getegid().as_raw().to_string())?;
    flag("default_permissions")?;
    if options.allow_other {
        flag("allow_other")?;
    }
    if options.read_only {
        flag("ro")?;
    }
    rustix::mount::fsconfig_create(fs.as_fd()).map_err(system("making the mount"))?;
    let mut attributes = MountAttrFlags::empty();
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOSUID, !options.suid);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NODEV, !options.dev);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, options.noexec);
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, options.read_only);
    let tree =
        rustix::mount::fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(system("fsmount"))?;
    let acl = config.acl;
    let session = Session::from_fd(door, device, acl, config)
        .map_err(|source| MountError::System { what: "greeting the kernel", source })?;
    Ok((session, tree))
}

impl Mount {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The view that is mounted.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// True once the kernel has ended the mount: it was unmounted, by us or by somebody else.
    pub fn has_ended(&self) -> bool {
        *self.ended.0.lock()
    }

    /// Waits until the mount has ended, or the time is over. True if it has ended.
    pub fn wait_ended(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut ended = self.ended.0.lock();
        while !*ended {
            if self.ended.1.wait_until(&mut ended, until).timed_out() {
                break;
            }
        }
        *ended
    }

    /// Detaches the mount, waits for its end, and seals what was open. Programs that still have files of it open get errors.
    ///
    /// # Errors
    /// The mount could not be detached.
    pub fn unmount(&self, time: Duration) -> io::Result<()> {
        let Some(session) = self.session.lock().take() else { return Ok(()) };
        if !self.has_ended() {
            // Seals while the kernel still answers for the files.
            if let Err(error) = self.view.release_all() {
                tracing::error!(%error, "a file could not be sealed at the end");
            }
            stale::detach(&self.mountpoint)?;
        }
        self.notify.stop();
        if self.wait_ended(time) {
            session.join()?;
        } else {
            // Somebody keeps the detached mount busy: the connection dies with our process.
            tracing::warn!(mountpoint = %self.mountpoint.display(), "the mount is still in use; it is cut off");
            drop(session);
        }
        if let Err(error) = self.view.release_all() {
            tracing::error!(%error, "a file could not be sealed at the end");
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(Duration::from_secs(5)) {
            tracing::error!(%error, mountpoint = %self.mountpoint.display(), "unmounting failed");
        }
    }
}
