//! One side: a directory, the files open in it, and what an operation comes to there, in words that can be compared.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chmod, chownat, copy_file_range,
        fallocate, fstat, fsync, ftruncate, lgetxattr, link, lremovexattr, lsetxattr, lstat, mkdir, mknodat, open,
        readlink, rename, renameat_with, rmdir, stat, symlink, unlink, utimensat,
    },
    io::{Errno, pread, pwrite, read, write},
};
use sha2::{Digest, Sha256};

use super::act::{Act, SLOTS};

/// One side.
pub struct World {
    root: PathBuf,
    slots: [Option<OwnedFd>; SLOTS],
}

/// What of a stat is the same on both sides.
fn words(stat: &Stat) -> String {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let size = if kind == FileType::Directory { 0 } else { stat.st_size };
    let links = if kind == FileType::Directory { 0 } else { stat.st_nlink };
    format!("{kind:?} {:o} {}:{} {size} bytes {links} links", stat.st_mode & 0o7777, stat.st_uid, stat.st_gid)
}

fn digest(bytes: &[u8]) -> String {
    let head: String = Sha256::digest(bytes).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes {head}", bytes.len())
}

impl World {
    /// A side at `root`.
    pub fn new(root: &Path) -> World {
        World { root: root.to_owned(), slots: Default::default() }
    }

    /// Does it, and says what came of it.
    pub fn apply(&mut self, act: &Act) -> String {
        match self.perform(act) {
            Ok(said) => said,
            Err(errno) => format!("{errno:?}"),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        // Not `join`, which would lose a slash at the end.
        PathBuf::from(format!("{}/{path}", self.root.display()))
    }

    fn fd(&self, slot: usize) -> Result<&OwnedFd, Errno> {
        self.slots[slot].as_ref().ok_or(Errno::BADF)
    }

    fn perform(&mut self, act: &Act) -> Result<String, Errno> {
        let done = |()| "done".to_owned();
        match act {
            Act::Open { path, flags, mode, slot } => {
                self.slots[*slot] = Some(open(self.at(path), *flags, *mode)?);
                Ok(words(&fstat(self.fd(*slot)?)?))
            }
            Act::Close { slot } => {
                self.slots[*slot] = None;
                Ok("closed".into())
            }
            Act::Write { slot, offset, count, byte } => {
                pwrite(self.fd(*slot)?, &vec![*byte; *count], *offset).map(|n| n.to_string())
            }
            Act::Append { slot, count, byte } => write(self.fd(*slot)?, &vec![*byte; *count]).map(|n| n.to_string()),
            Act::Read { slot, offset, count } => {
                let mut bytes = vec![0; *count];
                let n = pread(self.fd(*slot)?, &mut bytes, *offset)?;
                Ok(digest(&bytes[..n]))
            }
            Act::Cut { slot, size } => ftruncate(self.fd(*slot)?, *size).map(done),
            Act::Allocate { slot, flags, offset, count } => {
                fallocate(self.fd(*slot)?, *flags, *offset, *count).map(done)
            }
            Act::Copy { from, to, offset, into, count } => {
                let (mut offset, mut into) = (*offset, *into);
                let n = copy_file_range(self.fd(*from)?, Some(&mut offset), self.fd(*to)?, Some(&mut into), *count)?;
                Ok(n.to_string())
            }
            Act::Look { slot } => fstat(self.fd(*slot)?).map(|stat| words(&stat)),
            Act::Sync { slot } => fsync(self.fd(*slot)?).map(done),
            Act::Truncate { path, size } => {
                let file = open(self.at(path), OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
                ftruncate(&file, *size).map(done)
            }
            Act::Unlink { path } => unlink(self.at(path)).map(done),
            Act::Mkdir { path, mode } => mkdir(self.at(path), *mode).map(done),
            Act::Rmdir { path } => rmdir(self.at(path)).map(done),
            Act::Rename { from, to, flags } => renameat_with(CWD, self.at(from), CWD, self.at(to), *flags).map(done),
            Act::Link { from, to } => link(self.at(from), self.at(to)).map(done),
            Act::Symlink { target, path } => symlink(target.as_str(), self.at(path)).map(done),
            Act::Readlink { path } => readlink(self.at(path), Vec::new()).map(|target| format!("{target:?}")),
            Act::Chmod { path, mode } => chmod(self.at(path), *mode).map(done),
            Act::Chown { path, uid, gid } => {
                let (uid, gid) = (Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
                chownat(CWD, self.at(path), uid, gid, AtFlags::SYMLINK_NOFOLLOW).map(done)
            }
            Act::Times { path, seconds } => {
                let time = Timespec { tv_sec: *seconds, tv_nsec: 123_456_789 };
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, self.at(path), &times, AtFlags::SYMLINK_NOFOLLOW)?;
                let stat = lstat(self.at(path))?;
                Ok(format!("mtime {}.{}", stat.st_mtime, stat.st_mtime_nsec))
            }
            Act::Fifo { path } => mknodat(CWD, self.at(path), FileType::Fifo, Mode::from_raw_mode(0o640), 0).map(done),
            Act::SetXattr { path, name, size, flags } => {
                lsetxattr(self.at(path), *name, &vec![b'v'; *size], *flags).map(done)
            }
            Act::GetXattr { path, name } => {
                let mut value = vec![0; 1000];
                let n = lgetxattr(self.at(path), *name, &mut value)?;
                Ok(digest(&value[..n]))
            }
            Act::RemoveXattr { path, name } => lremovexattr(self.at(path), *name).map(done),
            Act::Stat { path } => lstat(self.at(path)).map(|stat| words(&stat)),
            Act::Follow { path } => stat(self.at(path)).map(|stat| words(&stat)),
            Act::List { path } => self.list(path),
            Act::Cat { path } => self.cat(path),
            Act::Save { path, count, byte } => {
                let temporary = self.at("editor-temporary");
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = open(&temporary, flags, Mode::from_raw_mode(0o644))?;
                write(&file, &vec![*byte; *count])?;
                fsync(&file)?;
                let renamed = rename(&temporary, self.at(path)).map(done);
                if renamed.is_err() {
                    unlink(&temporary)?;
                }
                renamed
            }
        }
    }

    fn list(&self, path: &str) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(open(self.at(path), flags, Mode::empty())?)? {
            let entry = entry?;
            names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()));
        }
        names.sort();
        Ok(names.join(", "))
    }

    fn cat(&self, path: &str) -> Result<String, Errno> {
        let file = open(self.at(path), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let mut content = Vec::new();
        let mut piece = vec![0; 10_000];
        loop {
            match read(&file, &mut piece)? {
                0 => return Ok(digest(&content)),
                n => content.extend_from_slice(&piece[..n]),
            }
        }
    }
}
