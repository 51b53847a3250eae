//! Changes on served file systems as the kernel reports them, whoever makes them: by handle and name, through fanotify.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fs::{CWD, Mode, OFlags, openat},
};

use super::{Errno, Fs, Result, sys};
use crate::types::EntryName;

/// The mounts at or below directories (as [`super::HostRef::path_hint`] names them), as lines of mountinfo.
pub fn mounts_below(directories: &[Vec<u8>]) -> Vec<Vec<u8>> {
    below(&super::process_file(std::process::id(), "mountinfo").unwrap_or_default(), directories)
}

fn below(mountinfo: &[u8], directories: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let escaped: Vec<Vec<u8>> = directories.iter().map(|path| escaped(path)).collect();
    let is_below = |line: &&[u8]| {
        let Some(at) = line.split(|byte| *byte == b' ').nth(4) else { return false };
        escaped.iter().any(|dir| {
            at.strip_prefix(dir.as_slice()).is_some_and(|rest| dir.ends_with(b"/") || matches!(rest, [] | [b'/', ..]))
        })
    };
    mountinfo.split(|byte| *byte == b'\n').filter(is_below).map(<[u8]>::to_vec).collect()
}

/// A path as mountinfo writes it.
fn escaped(path: &[u8]) -> Vec<u8> {
    let byte = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        other => vec![*other],
    };
    path.iter().flat_map(byte).collect()
}

/// Bytes read at once; the largest event takes less than 1 KiB.
const BUFFER: usize = 64 << 10;
/// No event is larger.
const EVENT_MAX: usize = 4 << 10;
/// File systems that nobody but this kernel changes, so that all changes are told.
const LOCAL: [&str; 8] = ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"];
/// What is asked for. Changes through a mapping are told when the file is closed.
const MASK: u64 = libc::FAN_MODIFY
    | libc::FAN_CLOSE_WRITE
    | libc::FAN_ATTRIB
    | libc::FAN_CREATE
    | libc::FAN_DELETE
    | libc::FAN_RENAME
    | libc::FAN_ONDIR;

/// What happened to one inode or name: several things, if they were reported together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct What(u64);

impl What {
    /// Both.
    #[must_use]
    pub fn and(self, other: What) -> What {
        What(self.0 | other.0)
    }

    /// The content changed.
    pub fn modified(self) -> bool {
        self.0 & libc::FAN_MODIFY != 0
    }

    /// Somebody who had it open for writing closed it.
    pub fn closed(self) -> bool {
        self.0 & libc::FAN_CLOSE_WRITE != 0
    }

    /// Mode, owner, times, links or extended attributes changed.
    pub fn attributes(self) -> bool {
        self.0 & libc::FAN_ATTRIB != 0
    }

    /// The name was made.
    pub fn made(self) -> bool {
        self.0 & libc::FAN_CREATE != 0
    }

    /// The name was removed.
    pub fn removed(self) -> bool {
        self.0 & libc::FAN_DELETE != 0
    }

    /// The name became another.
    pub fn renamed(self) -> bool {
        self.0 & libc::FAN_RENAME != 0
    }

    /// The inode is a directory.
    pub fn is_dir(self) -> bool {
        self.0 & libc::FAN_ONDIR != 0
    }
}

/// A name in a directory that is known by its handle (as in a [`super::FileKey`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryRef {
    /// The directory.
    pub dir: Box<[u8]>,
    /// The name; none for the directory itself.
    pub name: Option<EntryName>,
}

/// One report. It says where to look: what is there may have changed again since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What happened.
    pub what: What,
    /// The process that did it, as this process sees it; 0 if it cannot be seen.
    pub pid: u32,
    /// The file system.
    pub fsid: [u8; 8],
    /// Where: of a rename, the old place. None for an inode whose name the kernel does not know.
    pub at: Option<EntryRef>,
    /// Of a rename, the new place.
    pub to: Option<EntryRef>,
    /// The inode itself, by handle.
    pub file: Option<Box<[u8]>>,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// There are reports.
    pub events: bool,
    /// Something was mounted or unmounted, which no report tells.
    pub mounts: bool,
    /// [`Watch::stop`] was called.
    pub stopped: bool,
    /// [`Watch::wake`] was called since the last wait.
    pub asked: bool,
}

/// Told of every change on the file systems that were added, until it is dropped.
pub struct Watch {
    group: OwnedFd,
    stop: OwnedFd,
    wake: OwnedFd,
    /// `/proc/self/mountinfo`; none without `/proc`.
    mounts: Option<OwnedFd>,
    added: Mutex<Vec<Weak<Fs>>>,
}

impl Watch {
    /// A watch of nothing yet.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN; the host's.
    pub fn new() -> Result<Watch> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Watch {
            group: sys::fanotify_group()?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            mounts: openat(CWD, c"/proc/self/mountinfo", flags, Mode::empty()).ok(),
            added: Mutex::default(),
        })
    }

    /// Watches one more file system; what happens from now on is reported.
    ///
    /// # Errors
    /// EOPNOTSUPP if others than this kernel may change it, or its inodes have no handles; the host's.
    pub fn add(&self, fs: &Arc<Fs>) -> Result<()> {
        if !fs.caps().handles || !LOCAL.contains(&fs.caps().fs_type.as_str()) {
            return Err(Errno::OPNOTSUPP);
        }
        let mut added = self.added.lock();
        sys::fanotify_mark_fs(self.group.as_fd(), fs.mount_fd(), MASK)?;
        added.retain(|known| known.strong_count() > 0);
        added.push(Arc::downgrade(fs));
        fs.set_watched(true);
        Ok(())
    }

    /// Spares the watch what happens to the files directly in a directory: of files of our own nothing need be told. Names that
    /// move in and out are told all the same.
    ///
    /// # Errors
    /// EINVAL before Linux 6.0; the host's.
    pub fn ignore_in(&self, dir: &std::path::Path) -> Result<()> {
        let dir = openat(CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        sys::fanotify_ignore_in(self.group.as_fd(), dir.as_fd(), MASK & !libc::FAN_RENAME & !libc::FAN_ONDIR)
    }

    /// Waits until something happens or the time is over.
    ///
    /// # Errors
    /// The host's.
    pub fn wait(&self, time: Option<Duration>) -> Result<Woken> {
        let time = time.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut fds: Vec<_> =
            [&self.group, &self.stop, &self.wake].into_iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        fds.extend(self.mounts.as_ref().map(|mounts| PollFd::new(mounts, PollFlags::PRI)));
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let came = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let woken = Woken { events: came(0), stopped: came(1), asked: came(2), mounts: came(3) };
        if woken.asked {
            // An empty counter was read by another wait, which is as good.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        Ok(woken)
    }

    /// Ends the wait that goes on, or else the next one.
    pub fn wake(&self) {
        // As for `stop`.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Ends all waits, now and later.
    pub fn stop(&self) {
        // A full counter has been written to before, which is all that is wanted.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    /// Reads reports, at most about `most`. False if the kernel had no room for some, which are lost.
    ///
    /// # Errors
    /// The host's.
    pub fn read(&self, most: usize, each: &mut dyn FnMut(Seen)) -> Result<bool> {
        let mut buffer = vec![0; BUFFER];
        let (mut count, mut whole) = (0, true);
        while count < most {
            let got = match rustix::io::read(&self.group, &mut buffer) {
                Ok(got) => got,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            // There was room for more, and no more to read: what comes now may gather until the next time.
            let drained = got + EVENT_MAX < BUFFER;
            let mut rest = buffer.get(..got).unwrap_or_default();
            while let Some((event, after)) = next_event(rest) {
                rest = after;
                count += 1;
                match parse(event) {
                    Some(seen) => each(seen),
                    None => whole = false,
                }
            }
            if drained {
                break;
            }
        }
        Ok(whole)
    }
}

impl Watch {
    /// Nobody reads any more: the file systems are not watched from now on.
    pub fn end(&self) {
        for fs in self.added.lock().drain(..).filter_map(|fs| fs.upgrade()) {
            fs.set_watched(false);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// `struct fanotify_event_metadata`: length (4 bytes), version, reserved, its own length (2), mask (8), fd (4), pid (4).
const METADATA: usize = 24;
/// `struct fanotify_event_info_header` (4 bytes) and the file system's id (8).
const INFO: usize = 12;

fn next_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    (length >= METADATA && length <= bytes.len()).then(|| bytes.split_at(length))
}

/// One event; `None` for the one that says that others were lost, and for what is not understood.
fn parse(event: &[u8]) -> Option<Seen> {
    let mask = u64::from_ne_bytes(*event.get(8..)?.first_chunk()?);
    let pid = i32::from_ne_bytes(*event.get(20..)?.first_chunk()?);
    if mask & libc::FAN_Q_OVERFLOW != 0 {
        return None;
    }
    let pid = u32::try_from(pid).unwrap_or(0);
    let mut seen = Seen { what: What(mask), pid, fsid: [0; 8], at: None, to: None, file: None };
    let own = usize::from(u16::from_ne_bytes(*event.get(6..)?.first_chunk()?));
    let mut rest = event.get(own..)?;
    while let [kind, _, low, high, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let info = rest.get(..length).filter(|_| length >= INFO)?;
        rest = rest.get(length..)?;
        let (handle, name) = handle_of(info.get(INFO..)?)?;
        seen.fsid = *info.get(4..)?.first_chunk()?;
        let entry = || EntryRef { dir: handle.clone(), name: name_of(name) };
        match kind {
            libc::FAN_EVENT_INFO_TYPE_FID => seen.file = Some(handle),
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME
            | libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME
            | libc::FAN_EVENT_INFO_TYPE_DFID => seen.at = Some(entry()),
            libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME => seen.to = Some(entry()),
            // Not asked for.
            _ => {}
        }
    }
    Some(seen)
}

/// A `struct file_handle`, in the form of a key, and what follows it.
fn handle_of(bytes: &[u8]) -> Option<(Box<[u8]>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = i32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let rest = bytes.get(8..)?;
    let handle = rest.get(..length)?;
    Some(([&kind.to_le_bytes(), handle].concat().into(), rest.get(length..)?))
}

/// A name, up to its NUL; none for `.`, which stands for the directory itself.
fn name_of(bytes: &[u8]) -> Option<EntryName> {
    EntryName::new(bytes.split(|byte| *byte == 0).next()?).ok()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::host::testing::{Served, everywhere, name};

    /// Reports in this directory, and of what is in it.
    fn reports(watch: &Watch, served: &Served) -> Vec<Seen> {
        let mut all = Vec::new();
        assert!(watch.read(usize::MAX, &mut |seen| all.push(seen)).unwrap(), "nothing is lost");
        let here = served.root.key().handle.clone();
        all.retain(|seen| seen.fsid == served.fs.fsid() && seen.at.as_ref().is_some_and(|at| at.dir == here));
        all
    }

    fn watched(check: impl Fn(&Watch, &Served)) {
        everywhere(|served| {
            let watch = match Watch::new() {
                Err(Errno::PERM) => return,
                watch => watch.unwrap(),
            };
            assert!(!served.fs.is_watched());
            watch.add(&served.fs).unwrap();
            assert!(served.fs.is_watched());
            check(&watch, served);
            drop(watch);
            assert!(!served.fs.is_watched());
        });
    }

    #[test]
    fn each_kind_of_change_is_told_with_the_handles_that_keys_have() {
        watched(|watch, served| {
            let path = served.put("a", b"one");
            let (file, _) = served.look_up("a");
            let at = |entry: &str| EntryRef { dir: served.root.key().handle.clone(), name: Some(name(entry)) };
            let check = |said: &str, told: fn(What) -> bool, entry: &str| {
                assert!(watch.wait(Some(Duration::from_secs(5))).unwrap().events, "{said}");
                let all = reports(watch, served);
                let fits = |seen: &&Seen| told(seen.what) && seen.at == Some(at(entry));
                let found = all.iter().find(fits).unwrap_or_else(|| panic!("{said}: {all:?}"));
                assert_eq!(found.pid, std::process::id(), "{said}");
                assert_eq!(found.file.as_deref(), Some(&*file.key().handle), "{said}");
                assert_eq!(served.fs.key_of(found.file.as_deref().unwrap()), *file.key(), "{said}");
                found.clone()
            };
            check("made", What::made, "a");
            fs::write(&path, b"two").unwrap();
            let written = check("written", What::modified, "a");
            assert!(written.what.closed() && !written.what.is_dir());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            check("another mode", What::attributes, "a");
            fs::rename(&path, served.dir.path().join("b")).unwrap();
            assert_eq!(check("renamed", What::renamed, "a").to, Some(at("b")));
            fs::remove_file(served.dir.path().join("b")).unwrap();
            check("removed", What::removed, "b");
        });
    }

    #[test]
    fn what_others_do_has_their_pid_and_directories_are_told_from_files() {
        watched(|watch, served| {
            let made = std::process::Command::new("mkdir").arg(served.dir.path().join("d")).spawn();
            let mut made = made.unwrap();
            let pid = made.id();
            made.wait().unwrap();
            let all = reports(watch, served);
            assert!(all.iter().any(|seen| seen.pid == pid && seen.what.made() && seen.what.is_dir()), "{all:?}");
            let (dir, _) = served.look_up("d");
            let hint = served.fs.path_hint(&dir.key().handle).unwrap();
            assert_eq!(hint, std::os::unix::ffi::OsStrExt::as_bytes(served.dir.path().join("d").as_os_str()));
            assert_eq!(dir.path_hint().unwrap(), hint);
        });
    }

    #[test]
    fn mounts_below_a_directory_are_told_from_those_beside_it() {
        let table = b"21 1 254:0 / / rw - ext4 /dev/vda rw\n40 21 0:50 / /a rw - tmpfs none rw\n\
            41 40 0:51 / /a/b\\040c/d rw - tmpfs none rw\n42 21 0:52 / /ab rw - tmpfs none rw\n";
        let check = |directories: &[&str], expected: &[u8]| {
            let directories: Vec<_> = directories.iter().map(|dir| dir.as_bytes().to_vec()).collect();
            let found: Vec<_> = below(table, &directories).into_iter().map(|line| line[1]).collect();
            assert_eq!(found, expected, "{directories:?}");
        };
        check(&["/a"], b"01");
        check(&["/a/b c"], b"1");
        check(&["/x", "/ab"], b"2");
        check(&["/"], b"1012");
        check(&[], b"");
    }

    #[test]
    fn a_stop_ends_the_wait_and_stays() {
        watched(|watch, _| {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| while !watch.wait(None).unwrap().stopped {});
                watch.stop();
                waits.join().unwrap();
            });
            assert!(watch.wait(None).unwrap().stopped);
        });
    }

    #[test]
    fn more_than_the_kernel_keeps_is_said_to_be_lost() {
        watched(|watch, served| {
            let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
            let limit: usize = limit.trim().parse().unwrap();
            for number in 0..limit {
                let path = served.put(&number.to_string(), b"");
                fs::remove_file(path).unwrap();
            }
            let mut names = BTreeSet::new();
            let whole = watch.read(usize::MAX, &mut |seen| names.extend(seen.at.map(|at| at.name))).unwrap();
            assert!(!whole);
            assert!(names.len() > limit / 4, "{}", names.len());
        });
    }

    #[test]
    fn bytes_that_are_no_event_are_not_understood_and_no_panic() {
        for length in 0..64 {
            let bytes: Vec<u8> = (0..length).collect();
            assert_eq!(parse(&bytes).map(|seen| seen.file), None, "{length}");
            assert!(next_event(&bytes).is_none_or(|(event, _)| event.len() <= bytes.len()));
        }
    }
}
