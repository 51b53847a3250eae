//! What a connection's peer sends, as messages.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::{net::unix::OwnedReadHalf, sync::watch};

use super::{
    connection::Connection,
    lines::{Line, Lines},
    server::stopped,
    wire,
};

/// Reads messages, and answers lines that are none.
pub(super) struct Reader {
    lines: Lines<OwnedReadHalf>,
    stop: watch::Receiver<bool>,
}

/// A JSON object, and how long its line was.
pub(super) struct Message {
    pub fields: Map<String, Value>,
    pub bytes: usize,
}

impl Reader {
    pub fn new(input: OwnedReadHalf, limit: usize, stop: watch::Receiver<bool>) -> Self {
        Reader { lines: Lines::new(input, limit), stop }
    }

    /// The next message; `None` once there will be no more. Loses nothing if it is given up.
    pub async fn next(&mut self, connection: &Arc<Connection>) -> Option<Message> {
        let limits = connection.served.limits;
        loop {
            let line = tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return None,
                // A peer that does not take its answers is not read from.
                line = async {
                    connection.outgoing.room().await;
                    self.lines.next().await
                } => line,
            };
            let problem = match line {
                Ok(Line::Text(line)) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(Line::Text(line)) => match parse(&line, limits.depth) {
                    Ok(fields) => return Some(Message { fields, bytes: line.len() }),
                    Err(problem) => problem,
                },
                Ok(Line::TooLong) => {
                    (wire::INVALID_REQUEST, format!("a line may have {} bytes; this one was passed over", limits.line))
                }
                Ok(Line::End) | Err(_) => return None,
            };
            connection.outgoing.push(wire::error(&Value::Null, problem.0, &problem.1), None);
        }
    }
}

/// Reads one line; else what is wrong with it.
pub(super) fn parse(line: &[u8], depth: usize) -> Result<Map<String, Value>, (i64, String)> {
    if wire::too_deep(line, depth) {
        return Err((wire::INVALID_REQUEST, format!("nested deeper than {depth} levels")));
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Array(_)) => Err((wire::INVALID_REQUEST, "batches are not taken; send one message a line".into())),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Err((wire::INVALID_REQUEST, "a message is a JSON object".into()))
        }
        Err(error) => Err((wire::PARSE_ERROR, format!("not JSON: {error}"))),
    }
}
