//! The native tools of one view: listed and called from one table.

use std::{collections::HashSet, sync::Arc};

use control_api::ToolError;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use super::{
    AccessGroup, Answer, CallContext, ToolCall, ToolOutcome, ToolSpec, Toolbox, UnknownTool, errors, repair,
    table::{TABLE, Tool},
};
use crate::view::View;

/// What a view's config says of its tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolSettings {
    /// Groups of tools that there are; a tool of another is neither listed nor called.
    pub features: Vec<AccessGroup>,
    /// Existing files can be changed only with `expected_hash`.
    pub require_hash: bool,
    /// The profile's name, for `info`.
    pub profile: String,
}

impl Default for ToolSettings {
    fn default() -> Self {
        ToolSettings {
            features: vec![AccessGroup::Read, AccessGroup::Search, AccessGroup::Write],
            require_hash: false,
            profile: "native".into(),
        }
    }
}

/// The native tools of a view.
pub fn toolbox(view: Arc<View>, settings: ToolSettings) -> Arc<dyn Toolbox> {
    let (tools, specs) =
        TABLE.iter().filter(|tool| settings.features.contains(&tool.access)).map(|tool| (tool, tool.spec())).unzip();
    Arc::new(Native { view, settings, tools, specs, running: Mutex::default(), finished: Condvar::new() })
}

/// The toolbox.
pub(super) struct Native {
    pub view: Arc<View>,
    pub settings: ToolSettings,
    tools: Vec<&'static Tool>,
    specs: Vec<ToolSpec>,
    /// The operation ids of calls under way, so that two calls with one id are not both carried out.
    running: Mutex<HashSet<String>>,
    finished: Condvar,
}

/// A call under way.
pub(super) struct Call<'a> {
    pub native: &'a Native,
    pub view: &'a View,
    pub context: &'a CallContext,
    pub tool: &'static str,
    /// An idempotency key that came beside the arguments.
    pub operation_id: Option<&'a str>,
}

impl Toolbox for Native {
    fn list(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn call(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, UnknownTool> {
        let found = self.tools.iter().zip(&self.specs).find(|(tool, _)| tool.name == call.name);
        let Some((tool, spec)) = found else { return Err(UnknownTool(call.name.clone())) };
        let run = Call {
            native: self,
            view: &self.view,
            context,
            tool: tool.name,
            operation_id: call.operation_id.as_deref(),
        };
        let answer = arguments(&call.arguments, &spec.input_schema).and_then(|arguments| {
            if context.cancelled.is_set() {
                return Err(errors::cancelled());
            }
            (tool.run)(&run, arguments)
        });
        Ok(answer.unwrap_or_else(failed).into_outcome())
    }
}

impl Native {
    /// Waits until no other call with this id is under way, and keeps others out until the guard is dropped.
    pub fn alone(&self, id: &str) -> Alone<'_> {
        let mut running = self.running.lock();
        while !running.insert(id.to_owned()) {
            self.finished.wait(&mut running);
        }
        Alone { native: self, id: id.to_owned() }
    }
}

/// Keeps other calls with the same operation id out.
pub(super) struct Alone<'a> {
    native: &'a Native,
    id: String,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.native.running.lock().remove(&self.id);
        self.native.finished.notify_all();
    }
}

/// The arguments as an object, set right by the schema.
fn arguments(given: &Value, schema: &Value) -> Result<Value, ToolError> {
    let mut value = match given {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::String(text) => serde_json::from_str(text)
            .map_err(|error| errors::invalid(format!("arguments must be a JSON object: {error}")))?,
        Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_) => given.clone(),
    };
    if !value.is_object() {
        return Err(errors::invalid("arguments must be a JSON object"));
    }
    repair::fit(&mut value, schema);
    Ok(value)
}

fn failed(error: ToolError) -> Answer {
    let text = match &error.path {
        Some(path) if !error.message.contains(&path.to_string()) => {
            format!("{}: {path}: {}", error.code, error.message)
        }
        Some(_) | None => format!("{}: {}", error.code, error.message),
    };
    let detail = error.details.as_ref().map(|details| format!("\n{details}")).unwrap_or_default();
    Answer::error(text + &detail, &error)
}
