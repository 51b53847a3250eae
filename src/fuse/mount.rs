//! Mounting: made whole before anybody can see it, and taken away without leaving anything behind.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use fuser::{Config, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{CWD, Mode, OFlags};

use super::{
    backings::Backings,
    detached,
    door::Door,
    fusermount,
    init::Passing,
    notifier::KernelNotify,
    nudge,
    options::MountOptions,
    requests::Requests,
    serve::Serve,
    stale,
    unmount::{self, Device},
};
use crate::{host::Errno, view::View};

/// How long a dropped mount waits for its users.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// How long open files may take to be sealed at the end, at least.
const SEAL_WAIT: Duration = Duration::from_secs(5);

/// Why a mount could not be made. Nothing is mounted then.
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
    #[error("/dev/fuse: {}; {}; or use `wardfs serve`, which works without a mount", .0, mend_device(.0))]
    Device(io::Error),
    /// Neither we may mount, nor is there a program that may.
    #[error(
        "fusermount3 is not installed, and without it only root can mount; as root: apt-get install fuse3; or use \
         `wardfs serve`, which works without a mount"
    )]
    NoFusermount,
    /// `fusermount3` refused.
    #[error("fusermount3: {}{}", .0, mend_refusal(.0))]
    Fusermount(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// Which.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// The command that makes `/dev/fuse` usable.
fn mend_device(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES) => "as root: chmod 0666 /dev/fuse",
        Some(libc::EPERM) => "in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN",
        Some(_) | None => {
            "as root: modprobe fuse (in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN)"
        }
    }
}

/// What `fusermount3` leaves out.
fn mend_refusal(said: &str) -> &'static str {
    if said.contains("user_allow_other") { "; as root: echo user_allow_other >> /etc/fuse.conf" } else { "" }
}

impl MountError {
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> MountError {
        move |source| MountError::System { what, source: source.into() }
    }
}

/// The end of a session, to be waited for.
#[derive(Default)]
pub(super) struct End {
    ended: Mutex<bool>,
    changed: Condvar,
}

/// Says that the session has ended, however it did.
struct Ending(Arc<End>);

/// A view that is mounted. Dropping it unmounts.
pub struct Mount {
    view: Arc<View>,
    mountpoint: PathBuf,
    device: Device,
    notify: Arc<KernelNotify>,
    requests: Arc<Requests>,
    session: Mutex<Option<JoinHandle<()>>>,
    end: Arc<End>,
}

/// Mounts a view. When this returns, the mount answers, and the view tells the kernel of its changes.
///
/// # Errors
/// `MountError`; then nothing is mounted.
pub fn mount(view: &Arc<View>, mountpoint: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    stale::clear_stale(mountpoint).map_err(MountError::system("clearing a dead mount"))?;
    let (target, mountpoint) = open_target(view, mountpoint)?;
    let serve = Serve {
        view: Arc::clone(view),
        ttl: options.ttl,
        negative_ttl: options.negative_ttl,
        told_ttl: options.told_ttl,
        backings: Backings::default(),
    };
    let requests = Arc::<Requests>::default();
    let passing = if options.passthrough { Passing::Allowed } else { Passing::Off };
    let door = Door::new(serve, passing, Arc::clone(&requests));
    let (session, device, place) = greet(door, &mountpoint, options)?;
    let attached = matches!(place, Place::Attached);
    let parts = Parts { view: Arc::clone(view), requests, session, line: device, place };
    let mounted = start(parts, target, mountpoint.clone(), options);
    if mounted.is_err() && attached {
        // Not if a `Mount` was made of it: dropping that detached it.
        match stale::clear_stale(&mountpoint) {
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a mount that failed could not be taken away again"),
        }
    }
    mounted
}

/// What a mount is made of, once the kernel agreed.
struct Parts {
    view: Arc<View>,
    requests: Arc<Requests>,
    session: Session<Door>,
    /// One more descriptor of the device.
    line: OwnedFd,
    place: Place,
}

/// Starts the threads, and shows the mount once they run.
fn start(parts: Parts, target: OwnedFd, mountpoint: PathBuf, options: &MountOptions) -> Result<Mount, MountError> {
    let Parts { view, requests, session, line, place } = parts;
    let end = Arc::new(End::default());
    let device = match &place {
        Place::Detached(tree) => Device::of_tree(tree.as_fd()),
        Place::Attached => Device::of_mountpoint(&mountpoint),
    }
    .map_err(MountError::system("looking at the mount"))?;
    let notify = KernelNotify::start(session.notifier(), line).map_err(MountError::system("starting a thread"))?;
    let session = serve_session(session, Arc::clone(&end)).map_err(MountError::system("starting a thread"))?;
    // From here on dropping it takes everything back.
    let mount = Mount { view, mountpoint, device, notify, requests, session: Mutex::new(Some(session)), end };
    if let Place::Detached(tree) = place {
        detached::attach(&tree, target.as_fd())?;
    }
    if let Some(program) = &options.nudger {
        mount.start_nudger(program);
    }
    let notify: Arc<dyn crate::view::Notify> = Arc::clone(&mount.notify) as Arc<dyn crate::view::Notify>;
    mount.view.set_notify(notify);
    Ok(mount)
}

/// Opens the mountpoint, before anything is mounted there, and hides it from the view if it lies in a source: else the view
/// would contain itself.
fn open_target(view: &View, mountpoint: &Path) -> Result<(OwnedFd, PathBuf), MountError> {
    let bad = |error: Errno| MountError::Mountpoint {
        path: mountpoint.to_owned(),
        reason: format!("{error}; the mountpoint must be an existing directory"),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let target = rustix::fs::openat(CWD, mountpoint, flags, Mode::empty()).map_err(bad)?;
    let attr = crate::host::stat(target.as_fd()).map_err(bad)?;
    let is_source =
        |source: &Arc<crate::view::Source>| (source.fs.dev(), source.root.key().ino) == (attr.dev, attr.ino);
    if !view.sources().iter().any(is_source) {
        view.hide(attr.dev, attr.ino);
    }
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", target.as_raw_fd()), Vec::new()).map_err(bad)?;
    Ok((target, PathBuf::from(OsString::from_vec(path.into_bytes()))))
}

/// Where a session's mount is.
enum Place {
    /// Nowhere yet.
    Detached(OwnedFd),
    /// At the mountpoint.
    Attached,
}

/// Makes a mount, ourselves or by `fusermount3`, and agrees with the kernel.
fn greet(door: Door, mountpoint: &Path, options: &MountOptions) -> Result<(Session<Door>, OwnedFd, Place), MountError> {
    let (device, place) = match detached::make(options)? {
        Some((device, tree)) => (device, Place::Detached(tree)),
        None => (fusermount::mount(mountpoint, options)?, Place::Attached),
    };
    let line = device.try_clone().map_err(MountError::system("one more descriptor of the mount"))?;
    let mut config = Config::default();
    config.n_threads = Some(std::thread::available_parallelism().map_or(2, usize::from).max(2));
    // Whom the kernel lets in without allow_other is no more than its owner; the library would ask again, and get it wrong
    // for requests that the kernel makes in nobody's name.
    match Session::from_fd(door, device, SessionACL::All, config) {
        Ok(session) => Ok((session, line, place)),
        Err(error) => {
            if let Place::Attached = place {
                unmount::detach(mountpoint).map_err(MountError::system("unmounting again"))?;
            }
            Err(MountError::system("greeting the kernel")(error))
        }
    }
}

fn serve_session(session: Session<Door>, end: Arc<End>) -> io::Result<JoinHandle<()>> {
    let ending = Ending(end);
    std::thread::Builder::new().name("fuse".into()).spawn(move || {
        let _ending = ending;
        match session.run() {
            Ok(()) => {}
            // The connection was cut off, by us or by somebody else.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::ENODEV)) => {}
            Err(error) => tracing::error!(%error, "the mount ended with an error"),
        }
    })
}

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.ended.lock() = true;
        self.0.changed.notify_all();
    }
}

impl End {
    /// Waits until the session has ended, or the time is over. True if it has ended.
    fn wait_for(&self, time: Option<Duration>) -> bool {
        let mut ended = self.ended.lock();
        match time {
            None => self.changed.wait_while(&mut ended, |ended| !*ended),
            // Whether it timed out shows in the value.
            Some(time) => drop(self.changed.wait_while_for(&mut ended, |ended| !*ended, time)),
        }
        *ended
    }
}

impl Mount {
    /// Where it is mounted: absolute, symlinks resolved.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The view that is mounted.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// True if the kernel reads and writes files itself; false once it has refused the first one.
    pub fn passthrough(&self) -> bool {
        self.view.passes()
    }

    /// How often the kernel asked for what since the start, by FUSE's names; not what it never asked for.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.requests.told()
    }

    /// True once the kernel has ended the mount: it was unmounted, by us or by somebody else.
    pub fn has_ended(&self) -> bool {
        *self.end.ended.lock()
    }

    /// Waits until the mount has ended, by us or by somebody else.
    pub fn wait_unmounted(&self) {
        self.end.wait_for(None);
    }

    /// Waits until the mount has ended, or the time is over. True if it has ended.
    pub fn wait_ended(&self, time: Duration) -> bool {
        self.end.wait_for(Some(time))
    }

    /// Takes the mount out of the tree; whoever uses it may go on until `unmount`.
    ///
    /// # Errors
    /// The kernel's, or `fusermount3`'s; then it is served as before.
    pub fn detach(&self) -> io::Result<()> {
        if self.has_ended() { Ok(()) } else { self.device.detach_from(&self.mountpoint) }
    }

    /// Takes the mount away: nobody can enter it from now on; programs that still have files of it open may use them until
    /// the deadline, and get errors afterwards. Everything is sealed when this returns. The second call does nothing.
    ///
    /// # Errors
    /// The mount could not be detached, and still works.
    pub fn unmount(&self, deadline: Duration) -> io::Result<()> {
        // Held to the end: another caller returns when it is done.
        let mut session = self.session.lock();
        if session.is_none() {
            return Ok(());
        }
        self.detach()?;
        self.notify.stop();
        self.view.set_nudger(0);
        let mut ended = self.end.wait_for(Some(deadline));
        if !ended {
            tracing::warn!(mountpoint = %self.mountpoint.display(), "the mount is still in use; it is cut off");
            if let Err(error) = self.device.abort() {
                tracing::error!(%error, "the mount could not be cut off; it ends with this process");
            }
            ended = self.end.wait_for(Some(DROP_WAIT));
        }
        self.seal(deadline.max(SEAL_WAIT));
        if ended {
            self.notify.join();
        }
        match session.take() {
            Some(thread) if ended => {
                if thread.join().is_err() {
                    tracing::error!("a thread of the mount panicked");
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Records what files that are still open hold. One whose request hangs may never be free for that: it is looked at by the
    /// next start.
    fn seal(&self, time: Duration) {
        let (done, wait) = std::sync::mpsc::channel();
        let view = Arc::clone(&self.view);
        let sealing = std::thread::Builder::new().name("sealing".into()).spawn(move || {
            // Nobody hears it who has given up waiting.
            let _ = done.send(view.release_all());
        });
        if sealing.is_err() {
            tracing::error!("no thread could be started; open files are not sealed");
            return;
        }
        match wait.recv_timeout(time) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a file could not be sealed at the end"),
            Err(_) => tracing::error!("a request hangs, and what it holds is not sealed"),
        }
    }

    /// Its touches are known for what they are before it is asked for any.
    fn start_nudger(&self, program: &Path) {
        match nudge::start(program, &self.mountpoint) {
            Ok(nudger) => {
                self.view.set_nudger(nudger.id());
                self.notify.feed(nudger);
            }
            Err(error) => tracing::warn!(%error, "the nudger did not start; watchers are not woken for tools' changes"),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(DROP_WAIT) {
            tracing::error!(%error, mountpoint = %self.mountpoint.display(), "unmounting failed");
        }
    }
}
