//! Host I/O: every system call on served directories, by handle or relative to an open directory, one name at a time.

mod acl;
mod cache;
mod creds;
mod dir;
mod file;
mod fs;
mod git;
mod meta;
mod mounts;
mod names;
mod probe;
mod sys;
#[cfg(test)]
mod testing;
mod watch;

pub use acl::{has_acl, mode_for_all};
pub use cache::raise_fd_limit;
pub use creds::{CredGuard, FsetidGuard, as_caller, without_fsetid};
pub use dir::{DirEntry, DirStream};
pub use file::{
    AllocateMode, Whence, copy_range, fallocate, fsync, is_same_inode, lseek, read_at, read_exact_at, read_whole,
    reflink, set_append, sync_fs, truncate, write_at,
};
pub use fs::{FileKey, Fs, FsCaps, HostRef, type_of};
pub use git::{GitAsk, GitBadge, GitDir};
pub use meta::{
    SetTime, StatFs, XattrMode, chmod, chown, get_xattr, list_xattr, read_link, remove_xattr, set_times, set_xattr,
    stat, stat_child, statfs,
};
pub use names::{
    RenameMode, create_file, link, make_dir, make_node, make_symlink, open_child, open_dir_at, open_file_at,
    remove_dir, remove_file, rename,
};

pub use probe::{access, access_of, place, probe_fine_ctime, probe_reflink, process_file};
pub use sys::{close_on_exec, lock_file, unlock_file};
pub use watch::{EntryRef, Seen, Watch, What, Woken, mounts_below};

/// A failed system call: the host's own error number, which callers see unchanged.
pub type Result<T> = std::result::Result<T, Errno>;
/// The host's error number.
pub use rustix::io::Errno;
