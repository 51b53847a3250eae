//! Content of regular files, by descriptor and offset.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{
        FallocateFlags, SeekFrom, copy_file_range, fallocate as host_fallocate, fdatasync, fsync as host_fsync,
        ftruncate, ioctl_ficlone, seek, syncfs,
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

/// Each write goes to the end from now on.
///
/// # Errors
/// The host's.
pub fn set_append(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::fcntl_setfl(fd, rustix::fs::fcntl_getfl(fd)? | rustix::fs::OFlags::APPEND)
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

/// `syncfs`: all of the file system that holds a file.
///
/// # Errors
/// The host's; also of what others wrote.
pub fn sync_fs(fd: BorrowedFd<'_>) -> Result<()> {
    syncfs(fd)
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
    read_steady(fd, limit, |content| read_exact_at(fd, content, 0))
}

/// True if both descriptors name the same inode.
///
/// # Errors
/// The host's.
pub fn is_same_inode(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    let (a, b) = (stat(a)?, stat(b)?);
    Ok((a.dev, a.ino) == (b.dev, b.ino))
}

fn read_steady(
    fd: BorrowedFd<'_>,
    limit: u64,
    mut read: impl FnMut(&mut [u8]) -> Result<usize>,
) -> Result<(Vec<u8>, Attr)> {
    let mut before = stat(fd)?;
    for _ in 0..3 {
        if before.size > limit {
            return Err(Errno::FBIG);
        }
        // One byte more, to see that the file ends where it should.
        let size = usize::try_from(before.size).map_err(|_| Errno::FBIG)?;
        let mut content = vec![0; size.checked_add(1).ok_or(Errno::FBIG)?];
        let got = read(&mut content)?;
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

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::OFlags;

    use super::*;
    use crate::host::testing::{Served, everywhere};

    const PUNCH: u32 = libc::FALLOC_FL_PUNCH_HOLE.cast_unsigned() | KEEP;
    const KEEP: u32 = libc::FALLOC_FL_KEEP_SIZE.cast_unsigned();

    fn file(served: &Served, entry: &str, content: &[u8]) -> OwnedFd {
        served.put(entry, content);
        served.look_up(entry).0.open(OFlags::RDWR).unwrap()
    }

    #[test]
    fn reads_and_writes_keep_to_their_offsets() {
        everywhere(|served| {
            let file = file(served, "a", b"0123456789");
            let fd = file.as_fd();
            let mut buf = [0; 4];
            assert_eq!((read_at(fd, &mut buf, 3), &buf), (Ok(4), b"3456"));
            assert_eq!(read_exact_at(fd, &mut buf, 8), Ok(2));
            assert_eq!(read_at(fd, &mut buf, 10), Ok(0));
            assert_eq!(write_at(fd, b"xy", 12), Ok(2));
            assert_eq!(read_whole(fd, 99).unwrap().0, b"0123456789\0\0xy");
            assert_eq!(write_at(fd, b"", 0), Ok(0));
            assert_eq!(write_at(fd, b"x", u64::MAX), Err(Errno::INVAL));
            assert_eq!(read_at(fd, &mut buf, 1 << 63), Err(Errno::INVAL));
            assert_eq!(truncate(fd, 1), Ok(()));
            assert_eq!(read_whole(fd, 99).unwrap().0, b"0");
            assert_eq!(fsync(fd, true).and(fsync(fd, false)), Ok(()));
            let reader = served.look_up("a").0.open(OFlags::RDONLY).unwrap();
            assert_eq!(write_at(reader.as_fd(), b"x", 0), Err(Errno::BADF));
            assert_eq!(truncate(reader.as_fd(), 0), Err(Errno::INVAL));
        });
    }

    #[test]
    fn space_is_allocated_punched_and_refused_as_the_host_says() {
        everywhere(|served| {
            let file = file(served, "a", &[7; 16384]);
            let fd = file.as_fd();
            let size = || stat(fd).unwrap().size;
            assert_eq!(fallocate(fd, AllocateMode::Raw(KEEP), 0, 1 << 16), Ok(()));
            assert_eq!(size(), 16384);
            assert_eq!(fallocate(fd, AllocateMode::Raw(0), 0, 1 << 16), Ok(()));
            assert_eq!(size(), 1 << 16);
            assert_eq!(fallocate(fd, AllocateMode::Raw(PUNCH), 0, 8192), Ok(()));
            let mut buf = [9; 2];
            assert_eq!((read_at(fd, &mut buf, 8191), buf), (Ok(2), [0, 7]));
            for bits in [1 << 30, 1 << 12] {
                assert_eq!(fallocate(fd, AllocateMode::Raw(bits), 0, 1), Err(Errno::OPNOTSUPP), "{bits:#x}");
            }
            assert_eq!(fallocate(fd, AllocateMode::Raw(0), 0, 0), Err(Errno::INVAL));
        });
    }

    #[test]
    fn holes_and_data_are_found() {
        everywhere(|served| {
            let file = file(served, "a", &[]);
            let fd = file.as_fd();
            write_at(fd, &[1; 4096], 1 << 20).unwrap();
            truncate(fd, 3 << 20).unwrap();
            assert_eq!(lseek(fd, 0, Whence::Data), Ok(1 << 20));
            assert_eq!(lseek(fd, 0, Whence::Hole), Ok(0));
            assert_eq!(lseek(fd, 1 << 20, Whence::Hole), Ok((1 << 20) + 4096));
            assert_eq!(lseek(fd, 2 << 20, Whence::Data), Err(Errno::NXIO));
            assert_eq!(lseek(fd, 3 << 20, Whence::Hole), Err(Errno::NXIO));
        });
    }

    #[test]
    fn ranges_are_copied_within_and_between_file_systems() {
        let far = tempfile::tempfile_in("/dev/shm").unwrap();
        let near = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..u8::MAX).cycle().take(300_000).collect();
        everywhere(|served| {
            let from = file(served, "a", &content);
            for to in [far.as_fd(), near.as_fd()] {
                truncate(to, 0).unwrap();
                let mut done = 0;
                loop {
                    let got = copy_range(from.as_fd(), 10 + done, to, 5 + done, u64::MAX >> 2).unwrap();
                    if got == 0 {
                        break;
                    }
                    done += got;
                }
                let (copy, _) = read_whole(to, 1 << 20).unwrap();
                assert_eq!(copy[..5], [0; 5]);
                assert_eq!(copy[5..], content[10..]);
                assert_eq!(copy_range(from.as_fd(), 0, to, 0, 3), Ok(3));
                assert_eq!(copy_range(from.as_fd(), 1 << 30, to, 0, 3), Ok(0));
            }
            let fd = from.as_fd();
            assert_eq!(copy_range(fd, 0, fd, 1, 10), Err(Errno::INVAL), "the ranges overlap");
            assert_eq!(copy_range(fd, 0, fd, 1000, 10), Ok(10));
        });
    }

    #[test]
    fn copying_by_hand_is_bounded() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.set_len(COPY_MOST + 100).unwrap();
        write_at(from.as_fd(), b"end", COPY_MOST + 97).unwrap();
        assert_eq!(copy_by_hand(from.as_fd(), 0, to.as_fd(), 0, COPY_MOST), Ok(COPY_MOST));
        assert_eq!(copy_by_hand(from.as_fd(), COPY_MOST, to.as_fd(), COPY_MOST, 1000), Ok(100));
        let mut end = [0; 3];
        read_at(to.as_fd(), &mut end, COPY_MOST + 97).unwrap();
        assert_eq!(&end, b"end");
    }

    #[test]
    fn a_whole_file_stood_still_while_it_was_read() {
        everywhere(|served| {
            let file = file(served, "a", b"abc");
            let fd = file.as_fd();
            let (content, attr) = read_whole(fd, 3).unwrap();
            assert_eq!((content.as_slice(), attr.size), (&b"abc"[..], 3));
            assert_eq!(read_whole(fd, 2).err(), Some(Errno::FBIG));
            // Someone writes the same number of bytes during each of the first `times` reads.
            let read = |times| {
                let mut left = times;
                read_steady(fd, 3, |buf| {
                    let got = read_exact_at(fd, buf, 0)?;
                    if left > 0 {
                        left -= 1;
                        write_at(fd, b"xyz", 0)?;
                    }
                    Ok(got)
                })
            };
            assert_eq!(read(2).unwrap().0, b"xyz");
            assert_eq!(read(3).err(), Some(Errno::AGAIN));
            let grown = read_steady(fd, 3, |buf| {
                write_at(fd, b"!", 3)?;
                read_exact_at(fd, buf, 0)
            });
            assert_eq!(grown.err(), Some(Errno::FBIG), "it grew over the limit");
        });
    }

    #[test]
    fn identity_is_of_the_inode() {
        everywhere(|served| {
            let (a, b) = (file(served, "a", b""), file(served, "b", b""));
            let again = served.look_up("a").0.open(OFlags::RDONLY).unwrap();
            assert_eq!(is_same_inode(a.as_fd(), again.as_fd()), Ok(true));
            assert_eq!(is_same_inode(a.as_fd(), b.as_fd()), Ok(false));
        });
    }
}
