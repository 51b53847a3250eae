//! A disk that records: a file system of one file, which keeps in order what is written to the file and each flush.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, UNIX_EPOCH},
};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::record::Entry;
use crate::harness::{take_away, wait_for};

const DISK: INodeNo = INodeNo(2);
const NAME: &str = "disk";
const TTL: Duration = Duration::from_secs(3600);

/// The folder of a disk: its content, the recording, and where it is mounted.
const FOLDER: &str = "WARDFS_TEST_DISK";

/// A disk in a process of its own: that can be killed together with who waits for it, and nobody waits for ever.
pub struct Recorder {
    folder: PathBuf,
    process: Child,
}

impl Recorder {
    /// Serves the content that stands in `folder`, which is changed by what is written.
    pub fn start(folder: &Path) -> Recorder {
        std::fs::create_dir_all(folder.join("at")).unwrap();
        File::create(recording(folder)).unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "power::device::serve", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let recorder = Recorder { folder: folder.to_owned(), process };
        wait_for("a disk that records", || recorder.disk().exists());
        recorder
    }

    /// The disk.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("at").join(NAME)
    }

    /// How much is recorded. What has been flushed until now stands before it.
    pub fn now(&self) -> u64 {
        std::fs::metadata(recording(&self.folder)).unwrap().len()
    }

    /// Ends it, and gives the recording.
    pub fn end(self) -> Vec<u8> {
        let path = recording(&self.folder);
        drop(self);
        std::fs::read(path).unwrap()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        take_away(&self.folder.join("at"));
        // It ends when its mount goes; if not, it is of no use any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn recording(folder: &Path) -> PathBuf {
    folder.join("recording")
}

/// The content of a disk, in its folder.
pub fn content(folder: &Path) -> PathBuf {
    folder.join("content")
}

/// The disk's process: not a test, but what a recorder starts.
#[test]
fn serve() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let content = OpenOptions::new().read(true).write(true).open(content(&folder)).unwrap();
    let recording = OpenOptions::new().append(true).open(recording(&folder)).unwrap();
    let size = content.metadata().unwrap().len();
    fuser::mount(Disk { content, recording, size }, folder.join("at"), &Config::default()).unwrap();
}

struct Disk {
    content: File,
    recording: File,
    size: u64,
}

impl Disk {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let is_disk = ino == DISK;
        FileAttr {
            ino,
            size: if is_disk { self.size } else { 0 },
            blocks: self.size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// One write call, so that no reader of the recording sees half an entry.
    fn record(&self, entry: &Entry<'_>) -> std::io::Result<()> {
        (&self.recording).write_all(&entry.to_bytes())
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME { reply.entry(&TTL, &self.attr(DISK), Generation(0)) } else { reply.error(Errno::ENOENT) }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Nothing of it stays in the page cache: what is written comes here at once.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let count = self.size.saturating_sub(offset).min(u64::from(size));
        let mut bytes = vec![0; usize::try_from(count).unwrap()];
        match self.content.read_exact_at(&mut bytes, offset) {
            Ok(()) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.content.write_all_at(data, offset).and_then(|()| self.record(&Entry::Write { offset, data }));
        match done {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.record(&Entry::Flush) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
