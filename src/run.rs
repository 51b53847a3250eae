//! The process: which store, which daemon, how it starts, what it serves, and how it ends.

mod admin;
mod daemon;
mod foreground;
mod keeping;
mod launch;
mod place;
mod process;
mod registry;
mod reload;
mod report;
mod service;
mod serving;
mod settle;
mod socket;
mod until;

pub use keeping::{export_store, open_store, store_command};
pub use launch::{Launch, Started, start};
pub use place::{Placed, place_of};
pub use process::daemon_main;
pub use registry::{Known, KnownView, known, runtime_dir};
pub use until::process_ends;

/// Why a daemon did not start or did not do what was asked, in one line for a human.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

impl RunError {
    /// An error of something named.
    pub fn on(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        RunError(format!("{what}: {error}"))
    }
}

/// The result of running something.
pub type Result<T> = std::result::Result<T, RunError>;
