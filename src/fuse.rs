//! The kernel's door: FUSE requests become calls of the room, and nothing is decided here.

mod backings;
mod convert;
mod door;
mod errno;
mod mount;
mod notifier;
mod nudge;
mod stale;

pub use errno::errno_of;
pub use mount::{Mount, MountError, MountOptions, mount};
pub use nudge::nudge_main;
pub use stale::clear_stale;
