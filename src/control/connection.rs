//! One connection: its first message tells what it speaks.

use std::sync::{Arc, atomic::Ordering};

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::mpsc,
};

use super::{
    Served, mcp, plain,
    wire::{self, Line, read_line},
};
use crate::types::{Actor, Channel};

/// Answers that wait to be written, at most: then the connection's calls wait for the reader.
const ANSWERS_MAX: usize = 64;

/// Who is at the other end.
#[derive(Clone)]
pub(super) struct Peer {
    pub actor: Actor,
    pub owner: (u32, u32),
}

struct Counted(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection until one side ends it.
pub(super) async fn serve(stream: UnixStream, served: Served) {
    let count = served.connections.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(Arc::clone(&served.connections));
    let peer = peer_of(&stream, &served.view);
    let (input, mut output) = stream.into_split();
    if count >= served.limits.connections {
        let refusal = wire::error(&Value::Null, wire::INVALID_REQUEST, "too many connections; try again later");
        // The other side may be gone already.
        let _ = output.write_all(format!("{refusal}\n").as_bytes()).await;
        return;
    }
    let mut input = BufReader::with_capacity(64 << 10, input);
    let (answers, mut waiting) = mpsc::channel::<Vec<u8>>(ANSWERS_MAX);
    let Some(first) = read_message(&mut input, &served, &answers, &mut waiting, &mut output).await else { return };
    if is_mcp(&first) {
        mcp::serve(first, input, output, served, peer).await;
        return;
    }
    let writer = tokio::spawn(async move {
        while let Some(mut line) = waiting.recv().await {
            // What else is ready goes in the same write.
            while let Ok(more) = waiting.try_recv() {
                line.extend_from_slice(&more);
                if line.len() > 1 << 20 {
                    break;
                }
            }
            if output.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    plain::serve(first, &mut input, answers, served, peer).await;
    // The other side may have stopped reading: it is not waited for.
    if writer.await.is_err() {
        tracing::debug!("a connection's writer ended early");
    }
}

/// Reads until something that is JSON comes; answers what is not.
async fn read_message(
    input: &mut BufReader<tokio::net::unix::OwnedReadHalf>,
    served: &Served,
    answers: &mpsc::Sender<Vec<u8>>,
    waiting: &mut mpsc::Receiver<Vec<u8>>,
    output: &mut tokio::net::unix::OwnedWriteHalf,
) -> Option<Value> {
    loop {
        let parsed = next(input, served, answers).await;
        while let Ok(line) = waiting.try_recv() {
            output.write_all(&line).await.ok()?;
        }
        match parsed {
            Next::Message(message) => return Some(message),
            Next::Answered => {}
            Next::End => return None,
        }
    }
}

/// What came next on a connection.
pub(super) enum Next {
    Message(Value),
    /// It was no message, and that was said.
    Answered,
    End,
}

/// Reads and checks one line.
pub(super) async fn next(
    input: &mut BufReader<tokio::net::unix::OwnedReadHalf>,
    served: &Served,
    answers: &mpsc::Sender<Vec<u8>>,
) -> Next {
    let say = |code: i64, text: String| {
        let line = format!("{}\n", wire::error(&Value::Null, code, &text)).into_bytes();
        async move { answers.send(line).await.is_ok() }
    };
    let line = match read_line(input, served.limits.line).await {
        Ok(Line::Text(line)) => line,
        Ok(Line::TooLong) => {
            say(
                wire::INVALID_REQUEST,
                format!("a line is longer than {} bytes; the connection ends", served.limits.line),
            )
            .await;
            return Next::End;
        }
        Ok(Line::End) | Err(_) => return Next::End,
    };
    if line.iter().all(u8::is_ascii_whitespace) {
        return Next::Answered;
    }
    if wire::too_deep(&line, served.limits.depth) {
        let said = say(wire::INVALID_REQUEST, format!("nested deeper than {} levels", served.limits.depth)).await;
        return if said { Next::Answered } else { Next::End };
    }
    match serde_json::from_slice(&line) {
        Ok(message) => Next::Message(message),
        Err(error) => {
            let said = say(wire::PARSE_ERROR, format!("not JSON: {error}")).await;
            if said { Next::Answered } else { Next::End }
        }
    }
}

/// MCP of either era: it greets, or says in each request which version it speaks.
fn is_mcp(message: &Value) -> bool {
    let method = message.get("method").and_then(Value::as_str);
    let meta = message.get("params").and_then(|params| params.get("_meta"));
    matches!(method, Some("initialize" | "server/discover"))
        || meta.is_some_and(|meta| meta.get("io.modelcontextprotocol/protocolVersion").is_some())
}

fn peer_of(stream: &UnixStream, view: &str) -> Peer {
    let credentials = stream.peer_cred().ok();
    let pid = credentials.and_then(|c| c.pid()).and_then(|pid| u32::try_from(pid).ok());
    let actor = Actor {
        uid: credentials.map(|c| c.uid()),
        pid,
        command: pid.and_then(crate::view::command_of),
        view: Some(view.to_owned()),
        ..Actor::of(Channel::Tool)
    };
    Peer { actor, owner: credentials.map_or((0, 0), |c| (c.uid(), c.gid())) }
}
