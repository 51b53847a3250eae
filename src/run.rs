//! The process: which store, which daemon, how it starts, what it serves, and how it ends.

mod admin;
mod daemon;
mod launch;
mod place;
mod registry;

pub use daemon::daemon_main;
pub use launch::{Launch, Started, start};
pub use registry::{Known, known, runtime_dir};

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
