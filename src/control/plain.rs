//! Plain connections: `tools/list` and `tools/call` at once, no handshake, so that ten lines of any language can use them.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    call::{self, Asked, Failed, Shape},
    connection::Connection,
    reader::{Message, Reader},
    wire,
};

/// Begins the names of what MCP puts into `_meta`.
const META: &str = "io.modelcontextprotocol/";

/// Serves a connection as long as it is plain. Gives the first message that is MCP's, or none at its end.
pub(super) async fn serve(reader: &mut Reader, connection: &Arc<Connection>) -> Option<Message> {
    loop {
        let message = reader.next(connection).await?;
        if is_mcp(&message.fields) {
            return Some(message);
        }
        let Message { fields, bytes } = message;
        handle(fields, bytes, connection).await?;
    }
}

/// MCP of either era: it greets, or says in each request which version it speaks. A `ping` may come before.
fn is_mcp(fields: &Map<String, Value>) -> bool {
    let method = fields.get("method").and_then(Value::as_str);
    let meta = fields.get("params").and_then(|params| params.get("_meta")).and_then(Value::as_object);
    matches!(method, Some("initialize" | "server/discover"))
        || meta.is_some_and(|meta| meta.keys().any(|key| key.starts_with(META)))
}

/// Answers a message, or sees to it that it will be answered. `None` if the peer is gone.
async fn handle(mut fields: Map<String, Value>, bytes: usize, connection: &Arc<Connection>) -> Option<()> {
    let id = fields.remove("id");
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        // An answer, to nothing that we asked.
        None if fields.contains_key("result") || fields.contains_key("error") => return Some(()),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            let id = id.filter(wire::is_id).unwrap_or(Value::Null);
            let text = "a request has a method, as a string";
            connection.outgoing.push(wire::error(&id, wire::INVALID_REQUEST, text), None);
            return Some(());
        }
    };
    let params = match fields.remove("params") {
        Some(Value::Object(params)) => Some(params),
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => None,
    };
    let Some(id) = id else {
        if method == "notifications/cancelled"
            && let Some(request) = params.as_ref().and_then(|params| params.get("requestId"))
        {
            connection.calls.cancel(&request.to_string());
        }
        return Some(());
    };
    if !wire::is_id(&id) {
        let text = "a request's id is a string or a whole number";
        connection.outgoing.push(wire::error(&Value::Null, wire::INVALID_REQUEST, text), None);
        return Some(());
    }
    let shape = match method.as_str() {
        "tools/call" => Shape::Plain,
        "filesystem.execute" => Shape::Envelope,
        "tools/list" => {
            connection.outgoing.push(wire::answer(&id, &connection.served.listing.json), None);
            return Some(());
        }
        "ping" => {
            connection.outgoing.push(wire::answer(&id, "{}"), None);
            return Some(());
        }
        other => {
            let text =
                format!("there is no method {other:?} on a plain connection; there are tools/list and tools/call");
            connection.outgoing.push(wire::error(&id, wire::METHOD_NOT_FOUND, &text), None);
            return Some(());
        }
    };
    let asked = match params.map(|params| Asked::read(params, shape)) {
        Some(Ok(asked)) => asked,
        Some(Err(failed)) => {
            connection.outgoing.push(error(&id, &failed), None);
            return Some(());
        }
        None => {
            connection.outgoing.push(wire::error(&id, wire::INVALID_PARAMS, "params is an object"), None);
            return Some(());
        }
    };
    let key = id.to_string();
    let read_only = connection.served.listing.is_read_only(&asked.call.name);
    match connection.admit(&key, bytes, read_only).await.ok()? {
        Ok(()) => call::begin(connection, key, asked, move |outcome| match outcome {
            Ok(result) => wire::answer(&id, &result),
            Err(failed) => error(&id, &failed),
        }),
        Err(_) => {
            let text = "a request with this id is not answered yet";
            connection.outgoing.push(wire::error(&id, wire::INVALID_REQUEST, text), None);
        }
    }
    Some(())
}

fn error(id: &Value, failed: &Failed) -> Vec<u8> {
    wire::error(id, failed.code, &failed.message)
}
