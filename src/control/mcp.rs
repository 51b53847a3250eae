//! Model Context Protocol connections, of both eras: `rmcp` speaks, on top of our lines and their bounds.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode,
        Implementation, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestMethod,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceTemplate,
        ResourceUpdatedNotificationParam, ResultType, ServerCapabilities, ServerConfig, SubscribeRequestMethod,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{RequestContext, RunningService, ServerInitializeError, SubscriptionContext},
};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle};

use super::{
    call::{self, Asked, Failed, Shape},
    connection::Connection,
    reader::{Message, Reader},
    resources::{TEMPLATE, not_ours},
    transport::{OPERATION, SESSION, Wire},
    watching::{CHANGES, News, SCHEME, path_of, tell_each},
};
use crate::tools::ToolCall;

/// What clients are told at the beginning.
const INSTRUCTIONS: &str = "Files of one view: paths are relative to its root. Every change is recorded and can be taken \
                            back with revert.";

/// How often a listener looks whether its connection shall end.
const LOOK: Duration = Duration::from_millis(100);

/// A connection as `rmcp` serves it.
#[derive(Clone)]
pub(super) struct Handler(Arc<Connection>);

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
    pub(super) async fn run(&self, mut asked: Asked, context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
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

impl Handler {
    /// Does this view tell what changes?
    fn tells_changes(&self) -> bool {
        self.0.served.listing.tools.iter().any(|tool| tool.name == CHANGES)
    }
}

/// The URIs with the paths that they name; others are left out.
fn named(uris: &[String]) -> Vec<(String, Vec<u8>)> {
    uris.iter().filter_map(|uri| Some((uri.clone(), path_of(uri)?))).collect()
}

fn refused(failed: Failed) -> ErrorData {
    ErrorData::new(ErrorCode(i32::try_from(failed.code).unwrap_or_default()), failed.message, None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools();
        let mut info = ServerConfig::new(if self.tells_changes() {
            tools.enable_resources().enable_resources_subscribe().build()
        } else {
            tools.build()
        });
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

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if !self.tells_changes() {
            return Err(ErrorData::method_not_found::<ListResourcesRequestMethod>());
        }
        let all = Resource::new(SCHEME, &*self.0.served.view).with_description(
            "The view's root. Any path in it is a resource, too: wardfs: and the percent-encoded path.",
        );
        Ok(ListResourcesResult::with_all_items(vec![all]))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if !self.tells_changes() {
            return Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>());
        }
        let path = ResourceTemplate::new(TEMPLATE, "path").with_description("A file or a directory of the view.");
        Ok(ListResourceTemplatesResult::with_all_items(vec![path]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.tells_changes() {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        Ok(ReadResourceResult::new(vec![self.resource(&request.uri, &context).await?]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.tells_changes() {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        let path = path_of(&request.uri).ok_or_else(|| not_ours(&request.uri))?;
        if !self.0.subscribed.add(request.uri, path) {
            return Ok(());
        }
        let (connection, peer) = (Arc::clone(&self.0), context.peer.clone());
        let heard = self.0.served.watching.listen(&self.0.served).await;
        let telling = tokio::spawn(async move {
            let uris = || connection.subscribed.all();
            let tell = |uri| {
                let peer = peer.clone();
                async move { peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok() }
            };
            tell_each(&connection, heard.0, None, uris, tell).await;
        });
        self.0.subscribed.told_by(telling.abort_handle());
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.subscribed.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        let ours = named(uris).into_iter().map(|(uri, _)| uri).collect();
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = Some(ours);
        self.tells_changes().then_some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = named(context.accepted().resource_subscriptions.as_deref().unwrap_or_default());
        let (heard, was_idle) = self.0.served.watching.listen(&self.0.served).await;
        let sink = context.sink();
        let tell = |uri: String| async move { sink.notify_resource_updated(uri).await.is_ok() };
        let key = context.request_context().id.clone().into_json_value().to_string();
        let ticket = self.0.calls.ticket(&key);
        let hurried = async {
            while ticket.as_ref().is_some_and(|ticket| !ticket.cancelled.is_set()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        // It was accepted before anybody watched: what changed in between is not known.
        let first = was_idle.then(News::of_anything);
        tokio::select! {
            () = tell_each(&self.0, heard, first, || uris.clone(), tell) => {}
            () = context.cancelled() => {}
            () = hurried => {}
        }
        Ok(())
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
