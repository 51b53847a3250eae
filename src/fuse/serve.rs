//! Calls of the room and their answers, with what the mount adds: how long the kernel may believe them, and the way past us.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use fuser::{
    BackingId, Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, ReplyXattr,
};

use super::{
    attr::{bare_attr, file_attr, file_type},
    backings::{Backings, Past, Refused},
    dots,
    errno::errno_of,
};
use crate::{
    types::{Ino, Kind},
    view::{Entry, Fh, NodeAttr, OpenMode, Opened, View, ViewError},
};

/// What a request is answered from.
pub(super) struct Serve {
    pub view: Arc<View>,
    pub ttl: Duration,
    pub negative_ttl: Duration,
    pub told_ttl: Duration,
    pub backings: Backings,
}

impl Serve {
    /// Runs a call of the room; a panic in it answers EIO.
    pub fn run<T>(&self, call: impl FnOnce(&View) -> Result<T, ViewError>) -> Result<T, Errno> {
        match catch_unwind(AssertUnwindSafe(|| call(&self.view))) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if let ViewError::Store(error) = &error {
                    tracing::error!(%error, "a request failed in the store");
                }
                Err(Errno::from_i32(errno_of(&error).raw_os_error()))
            }
            Err(_) => {
                tracing::error!("a request panicked; it is answered with an I/O error");
                Err(Errno::EIO)
            }
        }
    }

    /// How long the kernel may believe names and attributes.
    fn ttl(&self) -> Duration {
        if self.view.is_told() { self.told_ttl } else { self.ttl }
    }

    /// How long it may believe that there is no such name.
    fn negative_ttl(&self) -> Duration {
        if self.view.is_told_of_missing() { self.told_ttl } else { self.negative_ttl }
    }

    /// Answers with a new reference to a node.
    pub fn entry(&self, found: Result<Entry, Errno>, reply: ReplyEntry) {
        match found {
            Ok(entry) => reply.entry(&self.ttl(), &file_attr(&entry.node), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    /// As [`Serve::entry`]; that there is nothing is told so that the kernel remembers it.
    pub fn looked_up(&self, found: Result<Entry, Errno>, reply: ReplyEntry) {
        match found {
            Err(error) if error.code() == libc::ENOENT && !self.negative_ttl().is_zero() => {
                reply.entry(&self.negative_ttl(), &bare_attr(Ino(0)), Generation(0));
            }
            found => self.entry(found, reply),
        }
    }

    /// Answers with attributes.
    pub fn attr(&self, found: Result<NodeAttr, Errno>, reply: ReplyAttr) {
        match found {
            Ok(node) => reply.attr(&self.ttl(), &file_attr(&node)),
            Err(error) => reply.error(error),
        }
    }

    /// The kernel drops references to a node.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.backings.forget(ino, || self.run(|view| Ok(view.forget(ino, count))).unwrap_or(false));
    }

    /// Answers an open, for writing or not.
    pub fn opened(&self, opened: Result<Opened, Errno>, writes: bool, reply: ReplyOpen) {
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        match self.past(&opened, || reply.open_backing(&*opened.backing)) {
            Some(past) => {
                reply.opened_passthrough(FileHandle(past.fh.0), past_flags(opened.mode, writes), &past.id);
            }
            None => reply.opened(FileHandle(opened.fh.0), flush_flag(writes)),
        }
    }

    /// Answers a create.
    pub fn created(&self, made: Result<(Entry, Opened), Errno>, writes: bool, reply: ReplyCreate) {
        let (entry, opened) = match made {
            Ok(made) => made,
            Err(error) => return reply.error(error),
        };
        let attr = file_attr(&entry.node);
        match self.past(&opened, || reply.open_backing(&*opened.backing)) {
            Some(past) => {
                let (fh, flags) = (FileHandle(past.fh.0), past_flags(opened.mode, writes));
                reply.created_passthrough(&self.ttl(), &attr, Generation(0), fh, flags, &past.id);
            }
            None => {
                reply.created(&self.ttl(), &attr, Generation(0), FileHandle(opened.fh.0), flush_flag(writes));
            }
        }
    }

    /// How an open goes past us, if it does.
    fn past(&self, opened: &Opened, register: impl FnOnce() -> std::io::Result<BackingId>) -> Option<Past> {
        if opened.mode == OpenMode::Through {
            return self.backings.known(opened.ino, opened.fh);
        }
        let registered = self.backings.open(opened.ino, opened.fh, || {
            // The kernel writes with the privileges of this moment: without CAP_FSETID it clears setuid bits on writes.
            let _no_fsetid = crate::host::without_fsetid();
            register()
        });
        match registered {
            Ok(past) => Some(past),
            Err(Refused::File) => None,
            Err(Refused::Mount(error)) => {
                tracing::info!(%error, "the kernel passes no file of this mount through; all data comes through us");
                self.view.set_passthrough(false);
                None
            }
        }
    }

    /// The kernel is done with a handle.
    pub fn released(&self, fh: Fh, reply: ReplyEmpty) {
        let released = self.run(|view| view.release(fh));
        self.backings.close(fh);
        empty(released, reply);
    }

    /// Answers a listing.
    pub fn list(&self, ino: Ino, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.run(|view| {
            let (dots, offset) = dots::head(offset, ino, || view.parent(ino));
            for dot in dots {
                if reply.add(INodeNo(dot.ino.0), dot.next, file_type(Kind::Dir), dot.name) {
                    return Ok(());
                }
            }
            view.readdir(ino, offset, &mut |item| {
                !reply.add(INodeNo(item.ino), item.next, file_type(item.kind), item.name.as_os_str())
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Answers a listing with lookups.
    pub fn list_plus(&self, ino: Ino, offset: u64, mut reply: ReplyDirectoryPlus) {
        let listed = self.run(|view| {
            let (dots, offset) = dots::head(offset, ino, || view.parent(ino));
            for dot in dots {
                // The kernel takes no reference to these.
                let attr = bare_attr(dot.ino);
                if reply.add(attr.ino, dot.next, dot.name, &Duration::ZERO, &attr, Generation(0)) {
                    return Ok(());
                }
            }
            view.readdirplus(ino, offset, &mut |plus| {
                // It went away meanwhile, or is nothing that a lookup would find.
                let Some(entry) = &plus.entry else { return true };
                let attr = file_attr(&entry.node);
                !reply.add(attr.ino, plus.item.next, plus.item.name.as_os_str(), &self.ttl(), &attr, Generation(0))
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// The protocol of extended attributes: size 0 asks how much there is, a smaller one than that is ERANGE.
    pub fn sized(&self, value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
        let value = match value {
            Ok(value) => value,
            Err(error) => return reply.error(error),
        };
        let Ok(length) = u32::try_from(value.len()) else { return reply.error(Errno::E2BIG) };
        match size {
            0 => reply.size(length),
            room if length > room => reply.error(Errno::ERANGE),
            _ => reply.data(&value),
        }
    }
}

/// Answers with nothing but success.
pub(super) fn empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Answers with a count of bytes, which is below what a reply can count.
pub(super) fn written(done: Result<u64, Errno>, reply: ReplyWrite) {
    match done {
        Ok(count) => reply.written(u32::try_from(count).unwrap_or(u32::MAX)),
        Err(error) => reply.error(error),
    }
}

/// Nothing is recorded at a reader's close, so it needs no answer.
fn flush_flag(writes: bool) -> FopenFlags {
    if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH }
}

/// Flags of an open that goes past us.
fn past_flags(mode: OpenMode, writes: bool) -> FopenFlags {
    match mode {
        OpenMode::Passthrough => flush_flag(writes),
        // Through: the kernel opens this inode past us already, and the room wants to see the writes.
        OpenMode::PassthroughWritesSeen | OpenMode::Through => flush_flag(writes) | FopenFlags::FOPEN_DIRECT_IO,
    }
}
