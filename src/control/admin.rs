//! The admin socket: the human's commands to a daemon. Same lines, one request each, only for the daemon's own user.

use std::{io, os::unix::net::UnixListener, sync::Arc};

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::{
    Server, start,
    wire::{self, Line, read_line},
};

/// Longest request of a human's command.
const LINE_MAX: usize = 1 << 20;

/// What a daemon does for its human.
pub trait Admin: Send + Sync {
    /// Carries one command out. May take long.
    ///
    /// # Errors
    /// In words for the human.
    fn handle(&self, method: &str, params: &Value) -> Result<Value, AdminError>;
}

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct AdminError(pub String);

/// Serves the admin socket.
///
/// # Errors
/// The runtime or the socket.
pub fn serve_admin(listener: UnixListener, admin: Arc<dyn Admin>) -> io::Result<Server> {
    start(listener, move |stream| serve(stream, Arc::clone(&admin)))
}

async fn serve(stream: UnixStream, admin: Arc<dyn Admin>) {
    let ours = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().map(|peer| peer.uid());
    if !peer.is_ok_and(|uid| uid == ours || uid == 0) {
        return;
    }
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    while let Ok(Line::Text(line)) = read_line(&mut input, LINE_MAX).await {
        let answer = match serde_json::from_slice::<Value>(&line) {
            Err(error) => wire::error(&Value::Null, wire::PARSE_ERROR, &format!("not JSON: {error}")),
            Ok(request) => {
                let admin = Arc::clone(&admin);
                let work = tokio::task::spawn_blocking(move || {
                    let id = request.get("id").cloned().unwrap_or(Value::Null);
                    let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
                    match admin.handle(method, request.get("params").unwrap_or(&Value::Null)) {
                        Ok(result) => wire::answer(&id, result),
                        Err(error) => wire::error(&id, wire::INVALID_REQUEST, &error.to_string()),
                    }
                });
                match work.await {
                    Ok(answer) => answer,
                    Err(_) => wire::error(&Value::Null, wire::INVALID_REQUEST, "the command failed unexpectedly"),
                }
            }
        };
        if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}
