//! Model Context Protocol connections, of both eras: `rmcp` speaks, on top of our lines and their bounds.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode,
        Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ResultType, ServerCapabilities,
        ServerConfig,
    },
    service::{RequestContext, RunningService, ServerInitializeError},
};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle};

use super::{
    call::{self, Asked, Failed, Shape},
    connection::Connection,
    reader::{Message, Reader},
    transport::{OPERATION, SESSION, Wire},
};
use crate::tools::ToolCall;

/// What clients are told at the beginning.
const INSTRUCTIONS: &str = "Files of one view: paths are relative to its root. Every change is recorded and can be taken \
                            back with revert.";

#[derive(Clone)]
struct Handler(Arc<Connection>);

/// Answers go on while this lives.
pub(super) struct Answering(JoinHandle<()>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves an MCP connection, its first message already read, until nothing more will be asked.
pub(super) async fn serve(first: Message, reader: Reader, connection: &Arc<Connection>) -> Answering {
    let ended = Arc::<Notify>::default();
    let wire = Wire::new(first, reader, Arc::clone(connection), Arc::clone(&ended));
    let handler = Handler(Arc::clone(connection));
    let answering = Answering(tokio::spawn(answer(handler, wire, Arc::clone(&ended))));
    ended.notified().await;
    answering
}

async fn answer(handler: Handler, wire: Wire, ended: Arc<Notify>) {
    let running: RunningService<RoleServer, Handler> = loop {
        match handler.clone().serve(wire.clone()).await {
            Ok(running) => break running,
            // A notification before the greeting. `rmcp` gives up then, and begins anew here: it means nothing.
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "an MCP connection did not begin");
                ended.notify_one();
                return;
            }
        }
    };
    if let Err(error) = running.waiting().await {
        tracing::debug!(%error, "an MCP connection ended");
    }
    ended.notify_one();
}

impl Handler {
    async fn run(&self, mut asked: Asked, context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
        let text = |name: &str| context.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        asked.session = asked.session.or_else(|| text(SESSION));
        asked.call.operation_id = asked.call.operation_id.or_else(|| text(OPERATION));
        let key = context.id.clone().into_json_value().to_string();
        match call::await_result(&self.0, key, asked).await {
            Some(Ok(result)) => Ok(result),
            Some(Err(failed)) => Err(refused(failed)),
            None => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

fn refused(failed: Failed) -> ErrorData {
    ErrorData::new(ErrorCode(i32::try_from(failed.code).unwrap_or_default()), failed.message, None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("wardfs", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.into());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.0.served.listing.tools.to_vec(), ..ListToolsResult::default() })
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
        let result = self.run(Asked { call, session: None }, &context).await?;
        let mut result: CallToolResult = serde_json::from_value(result)
            .map_err(|error| ErrorData::internal_error(format!("a result is not as MCP has it: {error}"), None))?;
        // `rmcp` takes it out again for versions that do not have it.
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result.into())
    }

    /// What `rmcp` did not recognise: also calls whose parameters have another shape than MCP's.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "tools/call" {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("there is no method {:?}", request.method),
                None,
            ));
        }
        let Some(Value::Object(params)) = request.params else {
            return Err(ErrorData::invalid_params("params is an object", None));
        };
        let asked = Asked::read(params, Shape::Plain).map_err(refused)?;
        let mut result = self.run(asked, &context).await?;
        if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
            result["resultType"] = json!(ResultType::COMPLETE);
        }
        Ok(CustomResult::new(result))
    }
}
