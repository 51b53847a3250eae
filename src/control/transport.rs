//! Our lines as `rmcp` takes them: it gets messages that are checked and let in, and its answers go where ours go.

use std::{convert::Infallible, sync::Arc};

use rmcp::{
    RoleServer,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Notify};

use super::{
    connection::Connection,
    reader::{Message, Reader},
    wire,
};

/// The name in `_meta` under which a call says its session.
pub(super) const SESSION: &str = "wardfs/session";
/// The name in `_meta` of a call's idempotency key.
pub(super) const OPERATION: &str = "wardfs/operation_id";

/// A connection as a transport. Its clones are one.
#[derive(Clone)]
pub(super) struct Wire {
    connection: Arc<Connection>,
    incoming: Arc<Mutex<Incoming>>,
    ended: Arc<Notify>,
}

struct Incoming {
    reader: Reader,
    /// Read, and not handed over yet.
    message: Option<Message>,
}

impl Wire {
    /// `first` was read already. `ended` is told when nothing more will come.
    pub fn new(first: Message, reader: Reader, connection: Arc<Connection>, ended: Arc<Notify>) -> Self {
        Wire { connection, incoming: Arc::new(Mutex::new(Incoming { reader, message: Some(first) })), ended }
    }

    /// The next message that `rmcp` understands; `None` if there is none any more. Loses nothing if it is given up.
    async fn next(&self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let connection = &self.connection;
        let mut incoming = self.incoming.lock().await;
        loop {
            let Incoming { reader, message } = &mut *incoming;
            let waiting = match message {
                Some(waiting) => waiting,
                None => message.insert(reader.next(connection).await?),
            };
            let problem = match asked_for(&waiting.fields) {
                Request::Call { key, tool } => {
                    let read_only = tool.is_none_or(|tool| connection.served.listing.is_read_only(tool));
                    match connection.admit(&key, waiting.bytes, read_only).await.ok()? {
                        Ok(()) => None,
                        Err(_) => Some("a request with this id is not answered yet"),
                    }
                }
                Request::Unanswerable => Some("a request's id is a string or a whole number"),
                Request::Cancels(key) => {
                    connection.calls.cancel(&key);
                    None
                }
                Request::None => None,
            };
            // From here to the end of the turn nothing waits.
            let Some(Message { mut fields, .. }) = message.take() else { continue };
            let id = fields.get("id").filter(|id| wire::is_id(id)).cloned();
            if let Some(problem) = problem {
                let id = id.unwrap_or_default();
                connection.outgoing.push(wire::error(&id, wire::INVALID_REQUEST, problem), None);
                continue;
            }
            name_session(&mut fields);
            match serde_json::from_value(Value::Object(fields)) {
                Ok(understood) => return Some(understood),
                Err(error) => {
                    if let Some(id) = id {
                        let mut answering = connection.calls.close(&id.to_string());
                        let held = answering.as_mut().and_then(|answering| answering.held.take());
                        let text = format!("not a request of MCP: {error}");
                        connection.outgoing.push(wire::error(&id, wire::INVALID_REQUEST, &text), held);
                    }
                }
            }
        }
    }
}

/// What a message is, as far as it has to be let in.
enum Request<'a> {
    /// A request; of a tool, if it is a call of one.
    Call { key: String, tool: Option<&'a str> },
    /// A request with an id that cannot be given back.
    Unanswerable,
    /// A notification that gives a request up.
    Cancels(String),
    /// Another notification, or an answer.
    None,
}

fn asked_for(fields: &Map<String, Value>) -> Request<'_> {
    let Some(method) = fields.get("method") else {
        return Request::None;
    };
    let params = fields.get("params");
    match fields.get("id") {
        Some(id) if wire::is_id(id) => {
            let tool = params.and_then(|params| params.get("name")).and_then(Value::as_str);
            Request::Call { key: id.to_string(), tool: tool.filter(|_| method == "tools/call") }
        }
        Some(_) => Request::Unanswerable,
        None if method == "notifications/cancelled" => {
            let request = params.and_then(|params| params.get("requestId"));
            request.map_or(Request::None, |request| Request::Cancels(request.to_string()))
        }
        None => Request::None,
    }
}

/// A session and an idempotency key beside a call's arguments mean the same as on a plain connection.
fn name_session(fields: &mut Map<String, Value>) {
    if fields.get("method").and_then(Value::as_str) != Some("tools/call") {
        return;
    }
    let Some(params) = fields.get_mut("params").and_then(Value::as_object_mut) else { return };
    for (key, name) in [("session", SESSION), ("operation_id", OPERATION)] {
        let Some(value) = params.remove(key) else { continue };
        let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(name.to_owned(), value);
        }
    }
}

impl Transport<RoleServer> for Wire {
    type Error = Infallible;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let mut answering = id.and_then(|id| self.connection.calls.close(&id.clone().into_json_value().to_string()));
        match serde_json::to_vec(&message) {
            Ok(mut line) => {
                line.push(b'\n');
                let held = answering.as_mut().and_then(|answering| answering.held.take());
                self.connection.outgoing.push(line, held);
            }
            Err(error) => tracing::error!(%error, "an answer cannot be written as JSON"),
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if let Some(message) = self.next().await {
            return Some(message);
        }
        self.ended.notify_one();
        // Once this gives `None`, `rmcp` has little patience with what is not answered yet.
        self.connection.calls.all_closed().await;
        None
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
