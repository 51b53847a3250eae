//! Plain connections: `tools/list` and `tools/call` at once, no handshake, so that ten lines of any language can use them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    net::unix::OwnedReadHalf,
    sync::{Semaphore, mpsc},
};

use super::{
    Served,
    connection::{Next, Peer, next},
    wire,
};
use crate::tools::{AccessGroup, Block, CallContext, Cancelled, Hints, ToolCall, ToolOutcome, ToolSpec};

/// Calls under way, by their id as it was written.
type UnderWay = Arc<Mutex<HashMap<String, Cancelled>>>;

/// Serves a plain connection, its first message already read.
pub(super) async fn serve(
    first: Value,
    input: &mut BufReader<OwnedReadHalf>,
    answers: mpsc::Sender<Vec<u8>>,
    served: Served,
    peer: Peer,
) {
    let under_way: UnderWay = Arc::default();
    let room = Arc::new(Semaphore::new(served.limits.calls));
    let mut message = first;
    loop {
        if !handle(message, &answers, &served, &peer, &under_way, &room).await {
            break;
        }
        message = loop {
            match next(input, &served, &answers).await {
                Next::Message(message) => break message,
                Next::Answered => {}
                Next::End => {
                    // Nobody waits for what is under way any more.
                    for cancelled in under_way.lock().values() {
                        cancelled.set();
                    }
                    return;
                }
            }
        };
    }
}

async fn handle(
    message: Value,
    answers: &mpsc::Sender<Vec<u8>>,
    served: &Served,
    peer: &Peer,
    under_way: &UnderWay,
    room: &Arc<Semaphore>,
) -> bool {
    let Value::Object(mut message) = message else {
        return say(answers, wire::error(&Value::Null, wire::INVALID_REQUEST, "a message is a JSON object")).await;
    };
    let id = message.remove("id");
    let Some(method) = message.remove("method").and_then(|method| method.as_str().map(str::to_owned)) else {
        let id = id.unwrap_or(Value::Null);
        return say(answers, wire::error(&id, wire::INVALID_REQUEST, "a request has a method")).await;
    };
    let params = message.remove("params").unwrap_or(Value::Null);
    let Some(id) = id else {
        if method == "notifications/cancelled"
            && let Some(request) = params.get("requestId")
            && let Some(cancelled) = under_way.lock().get(&request.to_string())
        {
            cancelled.set();
        }
        return true;
    };
    let answer = match method.as_str() {
        "ping" => wire::answer(&id, json!({})),
        "tools/list" => wire::answer(&id, json!({"tools": listed(served.toolbox.list())})),
        "tools/call" | "filesystem.execute" => {
            let Some((call, session)) = call_of(&params, method == "filesystem.execute") else {
                let text = "params: {\"name\": TOOL, \"arguments\": {…}, \"session\"?, \"operation_id\"?}";
                return say(answers, wire::error(&id, wire::INVALID_PARAMS, text)).await;
            };
            let Ok(permit) = Arc::clone(room).acquire_owned().await else { return false };
            let mut context =
                CallContext { actor: peer.actor.clone(), owner: peer.owner, cancelled: Cancelled::default() };
            context.actor.session = session;
            let key = id.to_string();
            under_way.lock().insert(key.clone(), context.cancelled.clone());
            let (answers, under_way, toolbox) = (answers.clone(), Arc::clone(under_way), Arc::clone(&served.toolbox));
            tokio::task::spawn_blocking(move || {
                let answer = match toolbox.call(&call, &context) {
                    Ok(outcome) => wire::answer(&id, result(outcome)),
                    Err(error) => wire::error(&id, wire::INVALID_PARAMS, &error.to_string()),
                };
                under_way.lock().remove(&key);
                let line = format!("{answer}\n").into_bytes();
                // A call that was cancelled is answered no more; neither is one whose connection is gone.
                if !context.cancelled.is_set() && answers.blocking_send(line).is_err() {
                    tracing::debug!("an answer found nobody");
                }
                drop(permit);
            });
            return true;
        }
        other => wire::error(&id, wire::METHOD_NOT_FOUND, &format!("no method {other:?} on a plain connection")),
    };
    say(answers, answer).await
}

async fn say(answers: &mpsc::Sender<Vec<u8>>, message: Value) -> bool {
    answers.send(format!("{message}\n").into_bytes()).await.is_ok()
}

/// The call in a request's parameters, and the session it names.
fn call_of(params: &Value, envelope: bool) -> Option<(ToolCall, Option<String>)> {
    let (name, operation) = if envelope { ("tool", "operationId") } else { ("name", "operation_id") };
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    let call = ToolCall {
        name: text(name)?,
        arguments: params.get("arguments").cloned().unwrap_or(Value::Null),
        operation_id: text(operation),
    };
    Some((call, text("session")))
}

/// A result as MCP has it.
pub(super) fn result(outcome: ToolOutcome) -> Value {
    let content: Vec<Value> = outcome.content.into_iter().map(block).collect();
    json!({"content": content, "structuredContent": outcome.structured, "isError": outcome.is_error})
}

fn block(block: Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Image { data, media_type } => json!({"type": "image", "data": data, "mimeType": media_type}),
        Block::Audio { data, media_type } => json!({"type": "audio", "data": data, "mimeType": media_type}),
        Block::Resource { uri, data, media_type } => {
            json!({"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "blob": data}})
        }
    }
}

/// The tools as MCP lists them.
pub(super) fn listed(tools: &[ToolSpec]) -> Vec<Value> {
    tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": *tool.input_schema,
                "outputSchema": *tool.output_schema,
                "annotations": annotations(tool.hints, tool.title, tool.access),
            })
        })
        .collect()
}

fn annotations(hints: Hints, title: &str, _access: AccessGroup) -> Value {
    let (read_only, destructive, idempotent) = match hints {
        Hints::ReadOnly => (true, false, true),
        Hints::Additive { idempotent } => (false, false, idempotent),
        Hints::Destructive { idempotent } => (false, true, idempotent),
    };
    json!({
        "title": title,
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": false,
    })
}
