//! A tool call as it is asked for, and its run on a thread where it may take its time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{
    calls::{Start, Ticket},
    connection::Connection,
    listing, wire,
};
use crate::tools::{CallContext, ToolCall};

/// A call, and the session it is made in.
pub(super) struct Asked {
    pub call: ToolCall,
    pub session: Option<String>,
}

/// Why there is no result: what JSON-RPC calls an error.
pub(super) struct Failed {
    pub code: i64,
    pub message: String,
}

/// The two shapes of a call's parameters.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// `tools/call`.
    Plain,
    /// `filesystem.execute`.
    Envelope,
}

impl Asked {
    /// Reads the parameters of a request.
    pub fn read(mut params: Map<String, Value>, shape: Shape) -> Result<Asked, Failed> {
        let (name, operation) = match shape {
            Shape::Plain => ("name", "operation_id"),
            Shape::Envelope => ("tool", "operationId"),
        };
        let tool = text(&mut params, name)?.ok_or_else(|| invalid(format!("params.{name} names the tool")))?;
        let session = text(&mut params, "session")?;
        let operation_id = text(&mut params, operation)?;
        let arguments = params.remove("arguments").unwrap_or(Value::Null);
        Ok(Asked { call: ToolCall { name: tool, arguments, operation_id }, session })
    }
}

fn text(params: &mut Map<String, Value>, key: &str) -> Result<Option<String>, Failed> {
    match params.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(invalid(format!("params.{key} is a string")))
        }
    }
}

fn invalid(message: String) -> Failed {
    Failed { code: wire::INVALID_PARAMS, message }
}

/// Calls the tool, on the present thread.
pub(super) fn run(connection: &Connection, asked: Asked, ticket: &Ticket) -> Result<Value, Failed> {
    let mut actor = connection.peer.actor.clone();
    actor.session = asked.session;
    let context = CallContext { actor, owner: connection.peer.owner, cancelled: ticket.cancelled.clone() };
    // Nothing that a tool left half-done is looked at again here; its own guards have put it right.
    match catch_unwind(AssertUnwindSafe(|| connection.served.toolbox.call(&asked.call, &context))) {
        Ok(Ok(outcome)) => Ok(listing::result(outcome)),
        Ok(Err(unknown)) => Err(Failed { code: wire::INVALID_PARAMS, message: unknown.to_string() }),
        Err(_) => {
            tracing::error!(tool = asked.call.name, "a tool failed in a way that it should not");
            let message = "the tool failed unexpectedly; whether it changed something is seen in history".to_owned();
            Err(Failed { code: wire::INTERNAL_ERROR, message })
        }
    }
}

/// Calls the tool on a thread of its own and answers with the line that `answer` makes, unless the peer gave it up.
pub(super) fn begin(
    connection: &Arc<Connection>,
    key: String,
    asked: Asked,
    answer: impl FnOnce(Result<Value, Failed>) -> Vec<u8> + Send + 'static,
) {
    let Some(ticket) = connection.calls.ticket(&key) else { return };
    let connection = Arc::clone(connection);
    let work = move |connection: Arc<Connection>, key: String, ticket: Arc<Ticket>, start: Start| {
        let line = answer(run(&connection, asked, &ticket));
        drop(start.thread);
        connection.calls.ran(&key, start.running);
        if let Some(mut answering) = connection.calls.close(&key) {
            connection.outgoing.push(line, answering.held.take());
        }
    };
    match connection.calls.start_now(&key) {
        Some(start) => {
            tokio::task::spawn_blocking(move || work(connection, key, ticket, start));
        }
        None => {
            tokio::spawn(async move {
                if let Some(start) = connection.calls.start(&key, &ticket).await {
                    tokio::task::spawn_blocking(move || work(connection, key, ticket, start));
                }
            });
        }
    }
}

/// Calls the tool on a thread of its own. The request stays open. `None` if the peer gave it up.
pub(super) async fn await_result(
    connection: &Arc<Connection>,
    key: String,
    asked: Asked,
) -> Option<Result<Value, Failed>> {
    let ticket = connection.calls.ticket(&key)?;
    let start = match connection.calls.start_now(&key) {
        Some(start) => start,
        None => connection.calls.start(&key, &ticket).await?,
    };
    let connection = Arc::clone(connection);
    let work = tokio::task::spawn_blocking(move || {
        let outcome = run(&connection, asked, &ticket);
        drop(start.thread);
        connection.calls.ran(&key, start.running).then_some(outcome)
    });
    // Its panics are caught, and it is never aborted.
    work.await.ok().flatten()
}
