//! Model Context Protocol connections, of both eras: `rmcp` speaks, and our lines' bounds stand before it.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};

use super::{
    Served,
    connection::{Next, Peer, next},
    plain,
};
use crate::tools::{CallContext, Cancelled, ToolCall};

/// Bytes between our lines and `rmcp`.
const PIPE: usize = 256 << 10;

#[derive(Clone)]
struct Handler {
    served: Served,
    peer: Peer,
    tools: Arc<Vec<Tool>>,
}

/// Serves an MCP connection, its first message already read.
pub(super) async fn serve(
    first: Value,
    mut input: BufReader<OwnedReadHalf>,
    mut output: OwnedWriteHalf,
    served: Served,
    peer: Peer,
) {
    let tools = match serde_json::from_value(Value::Array(plain::listed(served.toolbox.list()))) {
        Ok(tools) => Arc::new(tools),
        Err(error) => {
            tracing::error!(%error, "the tool table is not MCP's");
            return;
        }
    };
    let handler = Handler { served: served.clone(), peer, tools };
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (mut from_rmcp, mut to_rmcp) = tokio::io::split(ours);
    let (answers, mut errors) = mpsc::channel::<Vec<u8>>(8);
    // Lines that are no messages are answered by us; all else is rmcp's. Both write whole lines.
    let writer = tokio::spawn(async move {
        let mut lines = BufReader::new(&mut from_rmcp);
        loop {
            let line = tokio::select! {
                line = super::wire::read_line(&mut lines, usize::MAX) => match line {
                    Ok(super::wire::Line::Text(mut line)) => { line.push(b'\n'); line }
                    Ok(super::wire::Line::TooLong | super::wire::Line::End) | Err(_) => return,
                },
                Some(line) = errors.recv() => line,
            };
            if output.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    let reader = tokio::spawn(async move {
        let mut message = first;
        loop {
            if to_rmcp.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                return;
            }
            message = loop {
                match next(&mut input, &served, &answers).await {
                    Next::Message(message) => break message,
                    Next::Answered => {}
                    Next::End => return,
                }
            };
        }
    });
    match handler.serve(tokio::io::split(theirs)).await {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::debug!(%error, "an MCP connection ended");
            }
        }
        Err(error) => tracing::debug!(%error, "an MCP connection did not begin"),
    }
    reader.abort();
    if writer.await.is_err() {
        tracing::debug!("an MCP connection's writer ended early");
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("wardfs", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Files of one view: paths are relative to its root. Every change is recorded and can be taken back with revert.".into(),
        );
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.tools.to_vec(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = ToolCall {
            name: request.name.into_owned(),
            arguments: request.arguments.map_or(Value::Null, Value::Object),
            operation_id: None,
        };
        let cancelled = Cancelled::default();
        let mut asked =
            CallContext { actor: self.peer.actor.clone(), owner: self.peer.owner, cancelled: cancelled.clone() };
        asked.actor.session = serde_json::to_value(&context.meta)
            .ok()
            .and_then(|meta| meta.get("wardfs/session").and_then(Value::as_str).map(str::to_owned));
        let toolbox = Arc::clone(&self.served.toolbox);
        let work = tokio::task::spawn_blocking(move || toolbox.call(&call, &asked));
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = context.ct.cancelled() => {
                cancelled.set();
                return Err(ErrorData::internal_error("cancelled", None));
            }
        };
        let outcome = outcome.map_err(|_| ErrorData::internal_error("the tool failed unexpectedly", None))?;
        let outcome = outcome.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let result: CallToolResult = serde_json::from_value(plain::result(outcome))
            .map_err(|error| ErrorData::internal_error(format!("a result is not MCP's: {error}"), None))?;
        Ok(result.into())
    }
}
