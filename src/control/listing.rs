//! The tools as MCP lists them, and their outcomes as MCP has them.

use std::{collections::HashSet, sync::Arc};

use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::tools::{Block, Hints, ToolOutcome, ToolSpec};

/// The tool table of a socket, made once.
pub(super) struct Listing {
    /// The result of `tools/list`, as JSON.
    pub json: String,
    /// The same for `rmcp`.
    pub tools: Arc<Vec<Tool>>,
    read_only: HashSet<&'static str>,
}

impl Listing {
    pub fn of(specs: &[ToolSpec]) -> Result<Listing, serde_json::Error> {
        let listed = Value::Array(specs.iter().map(listed).collect());
        let json = json!({"tools": listed}).to_string();
        let read_only = specs.iter().filter(|spec| spec.hints == Hints::ReadOnly).map(|spec| spec.name).collect();
        Ok(Listing { json, tools: Arc::new(serde_json::from_value(listed)?), read_only })
    }

    /// Does this tool change nothing?
    pub fn is_read_only(&self, tool: &str) -> bool {
        self.read_only.contains(tool)
    }
}

fn listed(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": *tool.input_schema,
        "outputSchema": *tool.output_schema,
        "annotations": annotations(tool.hints, tool.title),
    })
}

fn annotations(hints: Hints, title: &str) -> Value {
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
