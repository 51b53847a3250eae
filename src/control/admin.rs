//! The admin socket: the human's commands to a daemon. Same lines, one request each, only for the daemon's own user.

use std::{io, os::unix::net::UnixListener, sync::Arc};

use serde_json::Value;
use tokio::{io::AsyncWriteExt, net::UnixStream, sync::watch};

use super::{
    Limits, Server,
    lines::{Line, Lines},
    reader, server, wire,
};

/// Longest request of a human's command.
const LINE_MAX: usize = 1 << 20;
/// Commands at once.
const CONNECTIONS_MAX: usize = 64;

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
    server::start(listener, CONNECTIONS_MAX, CONNECTIONS_MAX, move |stream, stop| {
        serve(stream, Arc::clone(&admin), stop)
    })
}

async fn serve(stream: UnixStream, admin: Arc<dyn Admin>, mut stop: watch::Receiver<bool>) {
    let ours = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().map(|peer| peer.uid());
    let (input, mut output) = stream.into_split();
    if !peer.is_ok_and(|uid| may_command(uid, ours)) {
        let text = "only the daemon's own user, and root, may give commands here";
        // The other side may be gone already.
        let _ = output.write_all(&wire::error(&Value::Null, wire::COMMAND_FAILED, text)).await;
        return;
    }
    let mut lines = Lines::new(input, LINE_MAX);
    loop {
        let line = tokio::select! {
            () = server::stopped(&mut stop) => return,
            line = lines.next() => line,
        };
        let answer = match line {
            Ok(Line::Text(line)) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(Line::Text(line)) => match reader::parse(&line, Limits::default().depth) {
                Ok(fields) => answer(fields, &admin).await,
                Err((code, problem)) => wire::error(&Value::Null, code, &problem),
            },
            Ok(Line::TooLong) => {
                wire::error(&Value::Null, wire::INVALID_REQUEST, &format!("a line may have {LINE_MAX} bytes"))
            }
            Ok(Line::End) | Err(_) => return,
        };
        if output.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn may_command(uid: u32, ours: u32) -> bool {
    uid == ours || uid == 0
}

async fn answer(mut fields: serde_json::Map<String, Value>, admin: &Arc<dyn Admin>) -> Vec<u8> {
    let id = fields.remove("id").filter(wire::is_id).unwrap_or_default();
    let Some(Value::String(method)) = fields.remove("method") else {
        return wire::error(&id, wire::INVALID_REQUEST, "a request has a method, as a string");
    };
    let params = fields.remove("params").unwrap_or_default();
    let admin = Arc::clone(admin);
    let work = tokio::task::spawn_blocking(move || admin.handle(&method, &params));
    match work.await {
        Ok(Ok(result)) => wire::answer(&id, &result),
        Ok(Err(error)) => wire::error(&id, wire::COMMAND_FAILED, &error.to_string()),
        Err(_) => wire::error(&id, wire::INTERNAL_ERROR, "the command failed unexpectedly"),
    }
}
