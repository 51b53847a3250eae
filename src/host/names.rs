//! Names: one component below an open directory, never a path, never through a symlink.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, linkat, mkdirat, mknodat, openat2, renameat_with,
    symlinkat, unlinkat,
};

use super::{Errno, Result, cache::with_room, meta::proc_path};
use crate::types::EntryName;

/// For EAGAIN of `openat2`, which ends as soon as nobody moves directories for a moment.
const TRIES: u32 = 128;

/// How `rename` treats an existing target (`renameat2(2)` flags).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// EEXIST.
    NoReplace,
    /// Swap both.
    Exchange,
    /// Replace, leave a whiteout device behind.
    Whiteout,
}

/// O_PATH | O_NOFOLLOW of one entry, by `openat2` with RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS.
///
/// # Errors
/// ENOENT; EXDEV for a mount point; the host's.
pub fn open_child(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::PATH, Mode::empty())
}

/// The directory of this name below `dir`, open for reading: for the store's own directories on the same mount.
///
/// # Errors
/// The host's.
pub fn open_dir_at(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// A regular file below `dir`, open for reading. The caller has seen that it is one: whatever else stands there by now is
/// opened without waiting for it, and to be let go.
///
/// # Errors
/// ENOENT; ELOOP for a symlink; EXDEV for a mount point; the host's.
pub fn open_file_at(dir: BorrowedFd<'_>, name: &EntryName) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())
}

/// `openat(O_CREAT | O_EXCL | O_NOFOLLOW)`: a new regular file, open for reading and writing.
/// `mode` is used as it is: the process's umask is 0.
///
/// # Errors
/// EEXIST; the host's.
pub fn create_file(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<OwnedFd> {
    open_entry(dir, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode & 0o7777))
}

/// `mkdirat`.
///
/// # Errors
/// The host's.
pub fn make_dir(dir: BorrowedFd<'_>, name: &EntryName, mode: u32) -> Result<()> {
    mkdirat(dir, name.as_bytes(), Mode::from_raw_mode(mode & 0o7777))
}

/// `mknodat`: `mode` with its type bits (none means a regular file); regular files, FIFOs, sockets, devices.
///
/// # Errors
/// The host's.
pub fn make_node(dir: BorrowedFd<'_>, name: &EntryName, mode: u32, rdev: u64) -> Result<()> {
    let kind = match mode & libc::S_IFMT {
        0 => FileType::RegularFile,
        kind => FileType::from_raw_mode(kind),
    };
    if kind == FileType::Unknown {
        return Err(Errno::INVAL);
    }
    mknodat(dir, name.as_bytes(), kind, Mode::from_raw_mode(mode & 0o7777), rdev)
}

/// `symlinkat`; the target is stored as it is.
///
/// # Errors
/// The host's.
pub fn make_symlink(dir: BorrowedFd<'_>, name: &EntryName, target: &[u8]) -> Result<()> {
    symlinkat(target, dir, name.as_bytes())
}

/// `linkat` of the inode behind `fd` (AT_EMPTY_PATH, or by /proc/self/fd without the privilege).
///
/// # Errors
/// EXDEV across mounts, EMLINK, EPERM; the host's.
pub fn link(fd: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    match linkat(fd, c"", dir, name.as_bytes(), AtFlags::EMPTY_PATH) {
        // What the kernel says without CAP_DAC_READ_SEARCH; and of an inode without links, as it will again.
        Err(Errno::NOENT) => linkat(CWD, proc_path(fd.as_raw_fd()), dir, name.as_bytes(), AtFlags::SYMLINK_FOLLOW),
        done => done,
    }
}

/// `unlinkat` of anything but a directory.
///
/// # Errors
/// The host's.
pub fn remove_file(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    unlinkat(dir, name.as_bytes(), AtFlags::empty())
}

/// `unlinkat(AT_REMOVEDIR)`.
///
/// # Errors
/// ENOTEMPTY; the host's.
pub fn remove_dir(dir: BorrowedFd<'_>, name: &EntryName) -> Result<()> {
    unlinkat(dir, name.as_bytes(), AtFlags::REMOVEDIR)
}

/// `renameat2`.
///
/// # Errors
/// The host's.
pub fn rename(
    from: BorrowedFd<'_>,
    name: &EntryName,
    to: BorrowedFd<'_>,
    new_name: &EntryName,
    mode: RenameMode,
) -> Result<()> {
    let flags = match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
        RenameMode::Whiteout => RenameFlags::WHITEOUT,
    };
    renameat_with(from, name.as_bytes(), to, new_name.as_bytes(), flags)
}

fn open_entry(dir: BorrowedFd<'_>, name: &EntryName, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..TRIES {
        match with_room(|| openat2(dir, name.as_bytes(), flags, mode, resolve)) {
            // The tree changed during the walk.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
    openat2(dir, name.as_bytes(), flags, mode, resolve)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{
        host::{
            as_caller,
            testing::{everywhere, name},
        },
        types::{Caller, Kind},
    };

    #[test]
    fn files_are_made_and_removed() {
        everywhere(|served| {
            let root = served.fd();
            let dir = root.as_fd();
            create_file(dir, &name("f"), 0o640).unwrap();
            assert_eq!(served.look_up("f").1.mode, 0o640);
            assert_eq!(create_file(dir, &name("f"), 0o640).err(), Some(Errno::EXIST));
            make_symlink(dir, &name("dangling"), b"none").unwrap();
            assert_eq!(create_file(dir, &name("dangling"), 0o640).err(), Some(Errno::EXIST));
            assert_eq!(open_child(dir, &name("none")).err(), Some(Errno::NOENT));

            make_dir(dir, &name("d"), 0o750).unwrap();
            assert_eq!((served.look_up("d").1.kind, served.look_up("d").1.mode), (Kind::Dir, 0o750));
            assert_eq!(make_dir(dir, &name("d"), 0o750), Err(Errno::EXIST));
            let below = open_dir_at(dir, &name("d")).unwrap();
            create_file(below.as_fd(), &name("x"), 0o600).unwrap();
            assert_eq!(open_dir_at(dir, &name("f")).err(), Some(Errno::NOTDIR));
            assert_eq!(open_dir_at(dir, &name("dangling")).err(), Some(Errno::NOTDIR));
            assert_eq!(remove_dir(dir, &name("d")), Err(Errno::NOTEMPTY));
            remove_file(below.as_fd(), &name("x")).unwrap();
            assert_eq!(remove_dir(dir, &name("d")), Ok(()));
            assert_eq!(create_file(below.as_fd(), &name("x"), 0o600).err(), Some(Errno::NOENT));

            assert_eq!(remove_dir(dir, &name("f")), Err(Errno::NOTDIR));
            assert_eq!(remove_file(dir, &name("f")), Ok(()));
            assert_eq!(remove_file(dir, &name("f")), Err(Errno::NOENT));
            make_dir(dir, &name("d"), 0o750).unwrap();
            assert_eq!(remove_file(dir, &name("d")), Err(Errno::ISDIR));
        });
    }

    #[test]
    fn names_are_bytes() {
        everywhere(|served| {
            let root = served.fd();
            let longest = "é".repeat(127) + "x";
            for bytes in [&b"\xff\xfe"[..], b" \n", b"-", longest.as_bytes()] {
                create_file(root.as_fd(), &name(bytes), 0o600).unwrap();
                assert!(served.fs.adopt(open_child(root.as_fd(), &name(bytes)).unwrap()).is_ok());
                rename(root.as_fd(), &name(bytes), root.as_fd(), &name("moved"), RenameMode::NoReplace).unwrap();
                remove_file(root.as_fd(), &name("moved")).unwrap();
            }
        });
    }

    #[test]
    fn nodes_of_each_type_are_made() {
        everywhere(|served| {
            let root = served.fd();
            for (entry, mode, kind) in [
                ("plain", 0o600, Kind::File),
                ("file", 0o100_600, Kind::File),
                ("fifo", 0o010_600, Kind::Fifo),
                ("socket", 0o140_600, Kind::Socket),
            ] {
                make_node(root.as_fd(), &name(entry), mode, 0).unwrap();
                let attr = served.look_up(entry).1;
                assert_eq!((attr.kind, attr.mode), (kind, 0o600), "{entry}");
            }
            assert_eq!(make_node(root.as_fd(), &name("d"), 0o040_700, 0), Err(Errno::PERM));
            assert_eq!(make_node(root.as_fd(), &name("?"), 0o170_000, 0), Err(Errno::INVAL));
            let device = make_node(root.as_fd(), &name("device"), 0o020_600, rustix::fs::makedev(1, 3));
            if rustix::process::geteuid().is_root() {
                assert_eq!(device, Ok(()));
                let attr = served.look_up("device").1;
                assert_eq!((attr.kind, attr.rdev), (Kind::CharDevice, rustix::fs::makedev(1, 3)));
            } else {
                assert_eq!(device, Err(Errno::PERM));
            }
        });
    }

    #[test]
    fn links_name_the_same_inode() {
        everywhere(|served| {
            let root = served.fd();
            served.put("a", b"");
            make_symlink(root.as_fd(), &name("s"), b"a").unwrap();
            for (from, to) in [("a", "a2"), ("s", "s2")] {
                let (found, _) = served.look_up(from);
                link(found.path_fd().unwrap().as_fd(), root.as_fd(), &name(to)).unwrap();
                let (again, attr) = served.look_up(to);
                assert_eq!((found.key(), attr.nlink), (again.key(), 2), "{from}");
            }
            let (a, _) = served.look_up("a");
            let fd = a.path_fd().unwrap();
            assert_eq!(link(fd.as_fd(), root.as_fd(), &name("s")), Err(Errno::EXIST));
            assert_eq!(link(root.as_fd(), root.as_fd(), &name("loop")), Err(Errno::PERM));
            for other in [std::env::temp_dir().as_path(), "/dev/shm".as_ref()] {
                let (other, dir) = crate::host::Fs::open_root(other, &[]).unwrap();
                if other.mount_id() != served.fs.mount_id() {
                    let linked = link(fd.as_fd(), dir.path_fd().unwrap().as_fd(), &name("wardfs-never"));
                    assert_eq!(linked, Err(Errno::XDEV));
                }
            }
            remove_file(root.as_fd(), &name("a")).unwrap();
            remove_file(root.as_fd(), &name("a2")).unwrap();
            assert_eq!(link(fd.as_fd(), root.as_fd(), &name("again")), Err(Errno::NOENT));
        });
    }

    #[test]
    fn a_caller_without_privilege_links_its_own_file() {
        everywhere(|served| {
            let root = served.fd();
            let me = Caller { uid: 4711, gid: 4711, pid: 0 };
            std::fs::set_permissions(served.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
            {
                let _caller = as_caller(&me);
                create_file(root.as_fd(), &name("mine"), 0o600).unwrap();
            }
            // Opened as the daemon: from 6.10 on the kernel lets who opened a descriptor link it.
            let mine = served.look_up("mine").0.path_fd().unwrap();
            let _caller = as_caller(&me);
            link(mine.as_fd(), root.as_fd(), &name("linked")).unwrap();
            assert_eq!(served.look_up("linked").1.nlink, 2);
        });
    }

    #[test]
    fn renames_replace_keep_or_swap() {
        everywhere(|served| {
            let root = served.fd();
            let (a, b) = (name("a"), name("b"));
            served.put("a", b"1");
            served.put("b", b"22");
            let sizes = || (served.look_up("a").1.size, served.look_up("b").1.size);
            let go = |mode| rename(root.as_fd(), &a, root.as_fd(), &b, mode);
            assert_eq!(go(RenameMode::NoReplace), Err(Errno::EXIST));
            assert_eq!(go(RenameMode::Exchange), Ok(()));
            assert_eq!(sizes(), (2, 1));
            assert_eq!(go(RenameMode::Replace), Ok(()));
            assert_eq!(served.look_up("b").1.size, 2);
            assert_eq!(go(RenameMode::Exchange), Err(Errno::NOENT));
            assert_eq!(go(RenameMode::Replace), Err(Errno::NOENT));
            make_dir(root.as_fd(), &a, 0o700).unwrap();
            assert_eq!(go(RenameMode::Replace), Err(Errno::NOTDIR));
            assert_eq!(rename(root.as_fd(), &b, root.as_fd(), &a, RenameMode::Replace), Err(Errno::ISDIR));
            let below = open_dir_at(root.as_fd(), &a).unwrap();
            assert_eq!(rename(root.as_fd(), &a, below.as_fd(), &b, RenameMode::Replace), Err(Errno::INVAL));
            assert_eq!(rename(root.as_fd(), &b, below.as_fd(), &b, RenameMode::Whiteout), Ok(()));
            assert_eq!((served.look_up("b").1.kind, served.look_up("b").1.rdev), (Kind::CharDevice, 0));
        });
    }
}
