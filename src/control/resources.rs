//! What a view shows as MCP resources: any path by its URI, to be read and to be told of when it changes.

use rmcp::{ErrorData, RoleServer, model::ResourceContents, service::RequestContext};
use serde_json::{Value, json};

use super::{
    call::Asked,
    mcp::Handler,
    watching::{SCHEME, path_of},
};
use crate::tools::ToolCall;

/// Bytes of a resource.
const BYTES_MAX: u64 = 4 << 20;

/// What the template says of URIs.
pub(super) const TEMPLATE: &str = "wardfs:{+path}";

impl Handler {
    /// A file's content, or what is in a directory.
    pub(super) async fn resource(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ResourceContents, ErrorData> {
        let path = path_of(uri).ok_or_else(|| not_ours(uri))?;
        let path = json!(control_api::WirePath::of(&path));
        let text = |text: &Value| ResourceContents::text(text.as_str().unwrap_or_default(), uri);
        let blob = |blob: &Value| ResourceContents::blob(blob.as_str().unwrap_or_default(), uri);
        let result = self.tool("read", json!({"path": path, "max_bytes": BYTES_MAX}), context).await?;
        let error = &result["structuredContent"];
        if result["isError"] == true && error["code"] == "is_a_directory" {
            let listed = self.tool("list", json!({"path": path, "depth": 1}), context).await?;
            return Ok(text(&listed["content"][0]["text"]));
        }
        if result["isError"] == true {
            let message = error["message"].as_str().unwrap_or("it cannot be read").to_owned();
            return Err(match error["code"].as_str() {
                Some("not_found") => ErrorData::resource_not_found(message, None),
                _ => ErrorData::invalid_params(message, Some(error.clone())),
            });
        }
        let file = &result["structuredContent"]["files"][0];
        if file["truncated"] == true {
            return Err(ErrorData::invalid_params("it is too large to be sent whole; use the tool read", None));
        }
        match file["encoding"].as_str() {
            Some("media") => {
                let block = &result["content"][1];
                let data = if block["data"].is_null() { &block["resource"]["blob"] } else { &block["data"] };
                Ok(match file["media_type"].as_str() {
                    Some(media_type) => blob(data).with_mime_type(media_type),
                    None => blob(data),
                })
            }
            Some("binary") => {
                let asked = json!({"path": path, "encoding": "base64", "max_bytes": BYTES_MAX});
                let result = self.tool("read", asked, context).await?;
                Ok(blob(&result["structuredContent"]["files"][0]["content"]))
            }
            Some(_) | None => Ok(text(&file["content"])),
        }
    }

    async fn tool(
        &self,
        name: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let call = ToolCall { name: name.into(), arguments, operation_id: None };
        self.run(Asked { call, session: None }, context).await
    }
}

/// Of a URI of another kind.
pub(super) fn not_ours(uri: &str) -> ErrorData {
    ErrorData::invalid_params(format!("{uri:?} is no URI of this view; they are {SCHEME} and a path"), None)
}
