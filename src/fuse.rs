//! The kernel's door: FUSE requests become calls of the room, and nothing is decided here.

mod attr;
mod backings;
mod detached;
mod door;
mod dots;
mod errno;
mod fusermount;
mod init;
mod mount;
mod notifier;
mod nudge;
mod options;
mod pool;
mod requests;
mod serve;
mod stale;
mod unmount;

pub use errno::errno_of;
pub use mount::{Mount, MountError, mount};
pub use nudge::{OWN_PROGRAM, nudge_main};
pub use options::MountOptions;
pub use stale::clear_stale;
pub use unmount::abort;
