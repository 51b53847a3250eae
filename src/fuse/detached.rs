//! A mount made by our own system calls: nobody sees it before it answers, and no option can be smuggled into another.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
        fsconfig_set_string, fsmount, fsopen, move_mount,
    },
    process::{getegid, geteuid},
};

use super::{mount::MountError, options::MountOptions};
use crate::host::Errno;

/// Makes a mount that is nowhere yet: its `/dev/fuse` and its tree. `None` if we may not mount.
///
/// # Errors
/// `Device`, `System`.
pub(super) fn make(options: &MountOptions) -> Result<Option<(OwnedFd, OwnedFd)>, MountError> {
    let fs = match fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(fs) => fs,
        // A user; or a container that forbids the call.
        Err(Errno::PERM | Errno::NOSYS) => return Ok(None),
        Err(Errno::NODEV) => return Err(MountError::Device(Errno::NODEV.into())),
        Err(error) => return Err(MountError::system("fsopen")(error)),
    };
    let device = rustix::fs::openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| MountError::Device(error.into()))?;
    configure(fs.as_fd(), &device, options).map_err(MountError::system("configuring the mount"))?;
    if let Err(error) = fsconfig_create(&fs) {
        return if error == Errno::PERM { Ok(None) } else { Err(MountError::system("making the mount")(error)) };
    }
    let tree = fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes(options))
        .map_err(MountError::system("fsmount"))?;
    Ok(Some((device, tree)))
}

fn configure(fs: BorrowedFd<'_>, device: &OwnedFd, options: &MountOptions) -> Result<(), Errno> {
    for (key, value) in [
        ("source", options.source.as_str()),
        ("subtype", "wardfs"),
        ("fd", &device.as_raw_fd().to_string()),
        ("rootmode", "40755"),
        ("user_id", &geteuid().as_raw().to_string()),
        ("group_id", &getegid().as_raw().to_string()),
    ] {
        fsconfig_set_string(fs, key, value)?;
    }
    // The kernel checks modes and owners itself, without a request.
    fsconfig_set_flag(fs, "default_permissions")?;
    if options.allow_other {
        fsconfig_set_flag(fs, "allow_other")?;
    }
    if options.read_only {
        fsconfig_set_flag(fs, "ro")?;
    }
    Ok(())
}

fn attributes(options: &MountOptions) -> MountAttrFlags {
    let mut attributes = MountAttrFlags::empty();
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOSUID, !options.suid);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NODEV, !options.dev);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, options.noexec);
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, options.read_only);
    attributes
}

/// Puts a mount where everybody sees it.
///
/// # Errors
/// `System`.
pub(super) fn attach(tree: &OwnedFd, target: BorrowedFd<'_>) -> Result<(), MountError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", target, c"", flags).map_err(MountError::system("attaching the mount"))
}
