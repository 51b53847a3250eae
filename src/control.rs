//! The socket's door: lines of JSON-RPC in, tool calls to the toolbox, answers out. Model Context Protocol clients are
//! handed to `rmcp`; plain connections, which need no handshake, are answered here.

mod admin;
mod connection;
mod mcp;
mod plain;
mod wire;

pub use admin::{Admin, AdminError, serve_admin};

use std::{
    io,
    os::unix::net::UnixListener,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tokio::{runtime::Runtime, sync::watch};

use crate::tools::Toolbox;

/// What one socket bears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; one more is closed with an error.
    pub connections: usize,
    /// Calls of one connection that may be under way; more wait.
    pub calls: usize,
    /// Bytes of one line; a longer one closes the connection with an error.
    pub line: usize,
    /// Levels of nesting in one message.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1024, calls: 64, line: 16 << 20, depth: 128 }
    }
}

/// A socket that is being served.
pub struct Server {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
}

/// The tools of a view, and its name, for all connections of one socket.
#[derive(Clone)]
pub(crate) struct Served {
    pub toolbox: Arc<dyn Toolbox>,
    pub view: Arc<str>,
    pub limits: Limits,
    pub connections: Arc<AtomicUsize>,
}

/// Serves a view's socket until the server is shut down.
///
/// # Errors
/// The runtime or the socket.
pub fn serve(listener: UnixListener, toolbox: Arc<dyn Toolbox>, view: &str, limits: Limits) -> io::Result<Server> {
    let served = Served { toolbox, view: view.into(), limits, connections: Arc::default() };
    start(listener, move |stream| connection::serve(stream, served.clone()))
}

/// Accepts connections on a runtime of their own.
pub(crate) fn start<F>(
    listener: UnixListener,
    serve: impl Fn(tokio::net::UnixStream) -> F + Send + 'static,
) -> io::Result<Server>
where
    F: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .thread_name("socket")
        .enable_all()
        .build()?;
    let (stop, mut stopped) = watch::channel(false);
    let listener = {
        let _entered = runtime.enter();
        tokio::net::UnixListener::from_std(listener)?
    };
    runtime.spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.changed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(serve(stream));
                }
                Err(error) => {
                    // Out of descriptors, most likely: some connection will end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    Ok(Server { runtime: Some(runtime), stop })
}

impl Server {
    /// Takes no more connections, and ends those there are when their calls have ended or the time is over.
    pub fn shutdown(mut self, time: Duration) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(time);
        }
    }
}
