//! Taking a mount away: which one is ours, detaching it, and cutting it off from those who will not let it go.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, unmount},
};

use super::fusermount;
use crate::host::Errno;

/// The device number of a mount: the kernel's name for one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Device {
    major: u32,
    minor: u32,
}

/// A line of `/proc/self/mountinfo`.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct MountLine {
    pub device: Device,
    pub fs_type: String,
}

impl Device {
    /// Of a mount that is nowhere yet. Asks the kernel for nothing that it would have to ask us for.
    pub fn of_tree(tree: BorrowedFd<'_>) -> io::Result<Device> {
        let found = statx(tree, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
        Ok(Device { major: found.stx_dev_major, minor: found.stx_dev_minor })
    }

    /// Of what is mounted at a mountpoint, without touching it.
    pub fn of_mountpoint(mountpoint: &Path) -> io::Result<Device> {
        top_mount(mountpoint)?.map(|line| line.device).ok_or_else(|| Errno::INVAL.into())
    }

    /// Detaches this mount from its mountpoint, if it still is what is mounted there.
    ///
    /// # Errors
    /// The kernel's; EBUSY if something else is mounted over it.
    pub fn detach_from(self, mountpoint: &Path) -> io::Result<()> {
        match top_mount(mountpoint)? {
            Some(line) if line.device == self => detach(mountpoint),
            Some(_) if is_mounted(mountpoint, self)? => Err(Errno::BUSY.into()),
            // Somebody else was faster.
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the connection, whoever uses it: what waits for an answer gets an error.
    ///
    /// # Errors
    /// The kernel's; a user may abort only where `fusectl` is mounted, else by ending the process.
    pub fn abort(self) -> io::Result<()> {
        // The device numbers of file systems without a device have major number 0; the connection is named by the minor.
        let name = format!("{}/abort", self.minor);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let abort = match fusectl() {
            Ok(tree) => openat(&tree, name, flags, Mode::empty())?,
            Err(Errno::PERM) => openat(CWD, Path::new(FUSECTL).join(name), flags, Mode::empty())?,
            Err(error) => return Err(error.into()),
        };
        rustix::io::write(&abort, b"1")?;
        Ok(())
    }
}

/// Cuts off what is mounted at a mountpoint, if it is ours, without touching it.
///
/// # Errors
/// As `Device::abort`.
pub fn abort(mountpoint: &Path) -> io::Result<()> {
    match top_mount(mountpoint)? {
        Some(line) if line.fs_type == "fuse.wardfs" => line.device.abort(),
        Some(_) | None => Ok(()),
    }
}

/// Where distributions mount the file system of the connections.
const FUSECTL: &str = "/sys/fs/fuse/connections";

/// A mount of our own of it.
fn fusectl() -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Detaches whatever is mounted at a path: by the kernel, or by `fusermount3` for a user.
///
/// # Errors
/// The kernel's; EINVAL if nothing is mounted there.
pub(super) fn detach(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount::unmount(mountpoint),
        Err(error) => Err(error.into()),
    }
}

/// The uppermost mount at a path, as the kernel lists it.
pub(super) fn top_mount(mountpoint: &Path) -> io::Result<Option<MountLine>> {
    Ok(parse(&mountinfo()?, mountpoint).pop())
}

fn is_mounted(mountpoint: &Path, device: Device) -> io::Result<bool> {
    Ok(parse(&mountinfo()?, mountpoint).iter().any(|line| line.device == device))
}

fn mountinfo() -> io::Result<Vec<u8>> {
    Ok(crate::host::process_file(std::process::id(), "mountinfo")?)
}

/// The mounts at a path, the uppermost last.
fn parse(mountinfo: &[u8], mountpoint: &Path) -> Vec<MountLine> {
    let wanted = escaped(mountpoint.as_os_str().as_bytes());
    let line = |line: &[u8]| {
        let mut fields = line.split(|b| *b == b' ');
        let device = std::str::from_utf8(fields.nth(2)?).ok()?;
        let (major, minor) = device.split_once(':')?;
        if fields.nth(1)? != wanted.as_slice() {
            return None;
        }
        let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some(MountLine {
            device: Device { major: major.parse().ok()?, minor: minor.parse().ok()? },
            fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        })
    };
    mountinfo.split(|b| *b == b'\n').filter_map(line).collect()
}

/// A path as the kernel writes it there.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' => out.extend(b"\\040"),
            b'\t' => out.extend(b"\\011"),
            b'\n' => out.extend(b"\\012"),
            b'\\' => out.extend(b"\\134"),
            other => out.push(*other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        40 21 0:50 / /mnt/a rw,nosuid - fuse.wardfs wardfs rw,user_id=0\n\
        41 21 0:51 / /mnt/a\\040b rw,nosuid shared:3 master:2 - fuse.wardfs a\\040name rw\n\
        42 40 0:52 / /mnt/a rw - tmpfs none rw\n";

    #[test]
    fn mounts_are_found_by_their_mountpoint() {
        let check = |path: &str, expected: &[(u32, &str)]| {
            let found = parse(TABLE, Path::new(path));
            let found: Vec<_> = found.iter().map(|line| (line.device.minor, line.fs_type.as_str())).collect();
            assert_eq!(found, expected, "{path}");
        };
        check("/mnt/a", &[(50, "fuse.wardfs"), (52, "tmpfs")]);
        check("/mnt/a b", &[(51, "fuse.wardfs")]);
        check("/", &[(0, "ext4")]);
        check("/mnt", &[]);
        check("/mnt/a/", &[]);
    }
}
