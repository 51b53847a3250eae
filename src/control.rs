//! The socket's door: lines of JSON-RPC in, tool calls to the toolbox, answers out. Model Context Protocol clients are
//! handed to `rmcp`; plain connections, which need no handshake, are answered here.
//!
//! Measured in a release build on 2 cores, with an answer of 4 KiB: a plain call takes 0.05 ms at the median, and one
//! through `rmcp` 0.13 ms. So plain calls never go there.

mod admin;
mod call;
mod calls;
mod connection;
mod hangup;
mod lines;
mod listing;
mod mcp;
mod outgoing;
mod plain;
mod reader;
mod resources;
mod server;
mod transport;
mod watching;
mod wire;

pub use admin::{Admin, AdminError, serve_admin};
pub use server::Server;

use std::{io, os::unix::net::UnixListener, sync::Arc};

use tokio::sync::Semaphore;

use self::{connection::Served, listing::Listing, watching::Watching};
use crate::tools::Toolbox;

/// What one socket bears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; one more is told so and closed.
    pub connections: usize,
    /// Calls of one connection that run, or whose answers it has not read yet; more wait.
    pub calls: usize,
    /// Bytes of one line; a longer one is passed over and answered with an error.
    pub line: usize,
    /// Levels of nesting in one message, at most 127.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1024, calls: 64, line: 16 << 20, depth: 127 }
    }
}

/// Calls that may run beside the first one of each connection. Every connection has a thread for its first call, so
/// that those of others, however slow and many, never hold it up.
const SURPLUS: usize = 256;

/// Serves a view's socket until the server is shut down.
///
/// # Errors
/// The runtime or the socket; a tool table that MCP does not take.
pub fn serve(listener: UnixListener, toolbox: Arc<dyn Toolbox>, view: &str, limits: Limits) -> io::Result<Server> {
    let listing = Listing::of(toolbox.list()).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("the tool table is not as MCP has it: {error}"))
    })?;
    let served = Arc::new(Served {
        toolbox,
        listing,
        view: view.into(),
        limits,
        surplus: Arc::new(Semaphore::new(SURPLUS)),
        watching: Watching::new(),
    });
    // One more thread is for the watcher.
    server::start(listener, limits.connections, limits.connections + SURPLUS + 1, move |stream, stop| {
        connection::serve(stream, Arc::clone(&served), stop)
    })
}
