//! The system calls that rustix lacks: the one module of the crate with `unsafe` in it.
#![expect(unsafe_code, reason = "raw system calls; each block states why it is sound")]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};
use rustix::fs::OFlags;

use super::{Errno, Result};

/// `MAX_HANDLE_SZ` of `linux/exportfs.h`.
const HANDLE_MAX: usize = 128;

/// `struct file_handle` with room for the largest handle.
#[repr(C)]
struct RawHandle {
    len: u32,
    kind: i32,
    bytes: [u8; HANDLE_MAX],
}

/// `name_to_handle_at(fd, "", AT_EMPTY_PATH)`: the handle's type (4 bytes, little endian) and its bytes.
///
/// # Errors
/// EOPNOTSUPP where the file system has no handles that can be opened; the host's.
pub fn name_to_handle(fd: BorrowedFd<'_>) -> Result<Box<[u8]>> {
    let room = u32::try_from(HANDLE_MAX).expect("128 fits");
    let mut raw = RawHandle { len: room, kind: 0, bytes: [0; HANDLE_MAX] };
    let mut mount: c_int = 0;
    // SAFETY: `raw` is a `struct file_handle` whose `len` states the room behind it; the path is NUL-terminated; the
    // kernel writes into `raw` and `mount` only, and both outlive the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut raw,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    })?;
    let bytes = usize::try_from(raw.len).ok().and_then(|len| raw.bytes.get(..len)).ok_or(Errno::OVERFLOW)?;
    Ok([&raw.kind.to_le_bytes(), bytes].concat().into())
}

/// `open_by_handle_at` of what [`name_to_handle`] gave, on the file system of `mount` (not an O_PATH descriptor).
/// O_CLOEXEC is added.
///
/// # Errors
/// ESTALE if the inode is gone; EPERM without CAP_DAC_READ_SEARCH; the host's.
pub fn open_by_handle(mount: BorrowedFd<'_>, handle: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let (kind, bytes) = handle.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
    let len = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
    let mut raw = RawHandle { len, kind: i32::from_le_bytes(*kind), bytes: [0; HANDLE_MAX] };
    raw.bytes.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
    // SAFETY: `raw` is a `struct file_handle` with `len` valid bytes, read by the kernel during the call only.
    let fd = checked(unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw const raw, flags) })?;
    let fd = c_int::try_from(fd).expect("a descriptor is an int");
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `fchmodat2(fd, "", AT_EMPTY_PATH)` (Linux 6.6).
///
/// # Errors
/// ENOSYS before 6.6; the host's.
pub fn chmod_fd(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated, and nothing else is passed by pointer.
    checked(unsafe { libc::syscall(libc::SYS_fchmodat2, fd.as_raw_fd(), c"".as_ptr(), mode, libc::AT_EMPTY_PATH) })?;
    Ok(())
}

/// The UUID of the file system of an open file (`FS_IOC_GETFSUUID`, Linux 6.9).
///
/// # Errors
/// ENOTTY where it has none, or before 6.9; EBADF for an O_PATH descriptor.
pub fn uuid(fd: BorrowedFd<'_>) -> Result<[u8; 16]> {
    /// `_IOR(0x15, 0, struct fsuuid2)`.
    const GET_UUID: libc::Ioctl = 0x8011_1500;
    /// `struct fsuuid2`.
    #[repr(C)]
    struct Uuid {
        len: u8,
        bytes: [u8; 16],
    }
    let mut uuid = Uuid { len: 0, bytes: [0; 16] };
    // SAFETY: the kernel writes into `uuid` only, which is as large as the number of the call says.
    checked(c_long::from(unsafe { libc::ioctl(fd.as_raw_fd(), GET_UUID, &raw mut uuid) }))?;
    if usize::from(uuid.len) == uuid.bytes.len() { Ok(uuid.bytes) } else { Err(Errno::NOTTY) }
}

/// Locks a whole file for writing, for as long as the open file description lives (`F_OFD_SETLK`). Does not wait.
///
/// # Errors
/// EAGAIN if another open file description has a lock; the host's.
pub fn lock_file(fd: BorrowedFd<'_>) -> Result<()> {
    set_lock(fd, libc::F_WRLCK)
}

/// Gives the lock of [`lock_file`] up, also if a process that was just forked still shares the description.
///
/// # Errors
/// The host's.
pub fn unlock_file(fd: BorrowedFd<'_>) -> Result<()> {
    set_lock(fd, libc::F_UNLCK)
}

fn set_lock(fd: BorrowedFd<'_>, kind: c_int) -> Result<()> {
    // SAFETY: `flock` is plain numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).expect("a small number");
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).expect("a small number");
    // SAFETY: the kernel reads `lock` during the call only.
    checked(c_long::from(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }))?;
    Ok(())
}

/// Marks all descriptors of this process but the first three to be closed when it runs another program.
///
/// # Errors
/// ENOSYS before Linux 5.11.
pub fn close_on_exec() -> Result<()> {
    // SAFETY: the call changes a flag of descriptors and closes none.
    checked(unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })?;
    Ok(())
}

/// Sets the file system user id of this thread and returns what it was. The call reports no failure: ask again.
/// `u32::MAX` only asks.
pub fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: no pointers; changes this thread's credentials only.
    id(unsafe { libc::syscall(libc::SYS_setfsuid, c_long::from(uid)) })
}

/// Sets the file system group id of this thread, as [`set_fsuid`].
pub fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: no pointers; changes this thread's credentials only.
    id(unsafe { libc::syscall(libc::SYS_setfsgid, c_long::from(gid)) })
}

/// The kernel returns an id as an int, which libc's `syscall` widens with its sign.
fn id(returned: c_long) -> u32 {
    c_int::try_from(returned).expect("the kernel returns an int").cast_unsigned()
}

/// `fanotify_init` for notifications alone, that name directories, entries and files by handle. Does not block.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; EMFILE past `max_user_groups`; ENOSYS, EINVAL before Linux 5.17.
pub fn fanotify_group() -> Result<OwnedFd> {
    let flags = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_DFID_NAME_TARGET;
    let modes = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC;
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::syscall(libc::SYS_fanotify_init, flags, modes) })?;
    let fd = c_int::try_from(fd).expect("a descriptor is an int");
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks a group for the events of `mask` on the whole file system of `on` (not an O_PATH descriptor).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENODEV, EOPNOTSUPP, EXDEV where the file system cannot be told of by handle; the host's.
pub fn fanotify_mark_fs(group: BorrowedFd<'_>, on: BorrowedFd<'_>, mask: u64) -> Result<()> {
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    // SAFETY: the path is NUL-terminated, and nothing else is passed by pointer.
    checked(c_long::from(unsafe {
        libc::fanotify_mark(group.as_raw_fd(), flags, mask, on.as_raw_fd(), c".".as_ptr())
    }))?;
    Ok(())
}

/// Spares a group the events of `mask` on what lies directly in a directory (not an O_PATH descriptor), as long as it lives.
///
/// # Errors
/// EINVAL before Linux 6.0; the host's.
pub fn fanotify_ignore_in(group: BorrowedFd<'_>, dir: BorrowedFd<'_>, mask: u64) -> Result<()> {
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_IGNORE_SURV | libc::FAN_MARK_ONLYDIR;
    let mask = mask | libc::FAN_EVENT_ON_CHILD;
    // SAFETY: the path is NUL-terminated, and nothing else is passed by pointer.
    checked(c_long::from(unsafe {
        libc::fanotify_mark(group.as_raw_fd(), flags, mask, dir.as_raw_fd(), c".".as_ptr())
    }))?;
    Ok(())
}

fn checked(returned: c_long) -> Result<c_long> {
    if returned >= 0 {
        return Ok(returned);
    }
    Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}
