//! What the rings share: a mount that cleans up after itself, a tree to compare, a client of the socket, a shell.

mod client;
mod mounted;
mod random;
mod shell;
mod tree;

pub use client::Client;
pub use mounted::{Mounted, Setup, left_out};
pub use random::Random;
pub use shell::{Shell, as_child, as_user, is_root, program, sh, sh_as, some_owner, take_away, wait_for, watcher};
pub use tree::{Item, Times, Tree};
