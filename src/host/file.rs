//! Content of regular files, by descriptor and offset.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{
        FallocateFlags, SeekFrom, copy_file_range, fallocate as host_fallocate, fdatasync, fsync as host_fsync,
        ftruncate, ioctl_ficlone, seek,
    },
    io::{pread, pwrite, retry_on_intr},
};

use super::{Errno, Result, meta::stat};
use crate::types::Attr;

/// The most that one [`copy_range`] moves by reading and writing: a caller in a request handler must not be held long.
const COPY_MOST: u64 = 8 << 20;
const COPY_CHUNK: usize = 128 << 10;
/// Linux's own `MAX_RW_COUNT`.
const RW_MOST: u64 = 0x7fff_f000;

/// `fallocate(2)` modes that the mount carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateMode {
    /// The raw `FALLOC_FL_*` bits.
    Raw(u32),
}

/// `lseek(2)` into data and holes; plain seeks never reach a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// SEEK_DATA.
    Data,
    /// SEEK_HOLE.
    Hole,
}

/// One `pread`; short only at the end of the file. EINTR is retried.
///
/// # Errors
/// The host's.
pub fn read_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
    retry_on_intr(|| pread(fd, &mut *buf, offset))
}

/// Fills `buf` or stops at the end of the file; returns how much was read.
///
/// # Errors
/// The host's.
pub fn read_exact_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read_at(fd, &mut buf[done..], advance(offset, done)?)? {
            0 => break,
            got => done += got,
        }
    }
    Ok(done)
}

/// Writes all of `data`, or fails; on a failure after some bytes returns the short count.
///
/// # Errors
/// The host's, if nothing was written.
pub fn write_at(fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match retry_on_intr(|| pwrite(fd, &data[done..], advance(offset, done)?)) {
            Ok(0) => break,
            Ok(written) => done += written,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// `ftruncate`.
///
/// # Errors
/// The host's.
pub fn truncate(fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    retry_on_intr(|| ftruncate(fd, size))
}

/// `fsync`, or `fdatasync` if `data_only`.
///
/// # Errors
/// The host's; the page that failed is lost (never retry).
pub fn fsync(fd: BorrowedFd<'_>, data_only: bool) -> Result<()> {
    if data_only { fdatasync(fd) } else { host_fsync(fd) }
}

/// `fallocate`.
///
/// # Errors
/// EOPNOTSUPP for modes that the file system does not know; the host's.
pub fn fallocate(fd: BorrowedFd<'_>, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
    let AllocateMode::Raw(bits) = mode;
    retry_on_intr(|| host_fallocate(fd, FallocateFlags::from_bits_retain(bits), offset, len))
}

/// SEEK_DATA or SEEK_HOLE on a private description (`fd` is not shared).
///
/// # Errors
/// ENXIO past the last data; the host's.
pub fn lseek(fd: BorrowedFd<'_>, offset: u64, whence: Whence) -> Result<u64> {
    seek(
        fd,
        match whence {
            Whence::Data => SeekFrom::Data(offset),
            Whence::Hole => SeekFrom::Hole(offset),
        },
    )
}

/// `copy_file_range`; at most `len` bytes, and often fewer: 0 only at the end of `from`. Falls back to reading and
/// writing (8 MiB a call) on EXDEV, EINVAL, EOPNOTSUPP and ENOSYS.
///
/// # Errors
/// EINVAL if both are one file and the ranges overlap; the host's.
pub fn copy_range(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<u64> {
    let most = usize::try_from(len.min(RW_MOST)).unwrap_or(usize::MAX);
    let (mut off_in, mut off_out) = (at, to_at);
    match retry_on_intr(|| copy_file_range(from, Some(&mut off_in), to, Some(&mut off_out), most)) {
        Ok(copied) => return Ok(length(copied)),
        Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error),
    }
    if at.abs_diff(to_at) < len && is_same_inode(from, to)? {
        return Err(Errno::INVAL);
    }
    copy_by_hand(from, at, to, to_at, len.min(COPY_MOST))
}

/// FICLONE of the whole file.
///
/// # Errors
/// EOPNOTSUPP, EXDEV, EINVAL where the file system cannot.
pub fn reflink(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    ioctl_ficlone(to, from)
}

/// Reads a whole file of at most `limit` bytes between two `statx` calls that agree on size, mtime and ctime: the
/// content and the attributes that belong to it. Three tries, then EAGAIN (the file never stood still);
/// EFBIG over the limit.
///
/// # Errors
/// EAGAIN, EFBIG; the host's.
pub fn read_whole(fd: BorrowedFd<'_>, limit: u64) -> Result<(Vec<u8>, Attr)> {
    let mut before = stat(fd)?;
    for _ in 0..3 {
        if before.size > limit {
            return Err(Errno::FBIG);
        }
        // One byte more, to see that the file ends where it should.
        let size = usize::try_from(before.size).map_err(|_| Errno::FBIG)?;
        let mut content = vec![0; size.checked_add(1).ok_or(Errno::FBIG)?];
        let got = read_exact_at(fd, &mut content, 0)?;
        let after = stat(fd)?;
        let same = (before.size, before.mtime, before.ctime) == (after.size, after.mtime, after.ctime);
        if same && got == size {
            content.truncate(got);
            return Ok((content, after));
        }
        before = after;
    }
    Err(Errno::AGAIN)
}

/// True if both descriptors name the same inode.
///
/// # Errors
/// The host's.
pub fn is_same_inode(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    let (a, b) = (stat(a)?, stat(b)?);
    Ok((a.dev, a.ino) == (b.dev, b.ino))
}

fn copy_by_hand(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<u64> {
    let mut buf = vec![0; usize::try_from(len).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
        let copied = read_exact_at(from, &mut buf[..want], at + done)
            .and_then(|got| Ok((got, write_at(to, &buf[..got], to_at + done)?)));
        let (got, written) = match copied {
            Ok(counts) => counts,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        };
        done += length(written);
        if got < want || written < got {
            break;
        }
    }
    Ok(done)
}

fn advance(offset: u64, by: usize) -> Result<u64> {
    offset.checked_add(length(by)).ok_or(Errno::INVAL)
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length in memory fits 64 bits")
}
