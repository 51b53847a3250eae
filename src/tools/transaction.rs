//! `transaction`: many mutations as one operation, all of them or none.

use std::sync::Arc;

use control_api::{
    ToolError,
    tools::{DeleteArgs, EditArgs, MkdirArgs, MoveArgs, TransactionArgs, TransactionOp, TransactionTool, WriteArgs},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Answer, delete, edit, errors, mkdir, moves, mutation, native::Call, repair, table, write};
use crate::view::{Step, ViewError};

/// Operations in one call.
const OPS_MAX: usize = 256;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &TransactionArgs) -> Result<Answer, ToolError> {
    if !(1..=OPS_MAX).contains(&args.ops.len()) {
        return Err(errors::invalid(format!("ops holds {}; give 1 to {OPS_MAX}", args.ops.len())));
    }
    let mut prepared = Vec::new();
    for (at, op) in args.ops.iter().enumerate() {
        prepared.push(prepare(call, op).map_err(|error| of_op(error, at, op.tool))?);
    }
    let (steps, problems): (Vec<Step>, Vec<Problem>) =
        prepared.into_iter().map(|Prepared { step, problem }| (step, problem)).unzip();
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let mut at = 0;
        let done = call.view.transact(request, &steps, &mut at);
        let done = done.map_err(|error| of_op(problems[at].of(error), at, args.ops[at].tool))?;
        Ok(mutation::told(call.view, request, &done))
    })
}

/// One operation, its arguments understood.
pub(super) struct Prepared {
    pub step: Step,
    pub problem: Problem,
}

/// What is known of a step when it is refused.
#[derive(Default)]
pub(super) struct Problem {
    /// What went wrong inside the step's own function.
    pub told: Arc<Mutex<Option<ToolError>>>,
    /// It makes a file that must not be there.
    pub creates: bool,
}

impl From<Step> for Prepared {
    fn from(step: Step) -> Prepared {
        Prepared { step, problem: Problem::default() }
    }
}

impl Problem {
    fn of(&self, error: ViewError) -> ToolError {
        let told = self.told.lock().take();
        match (told, error) {
            (Some(told), ViewError::Cancelled) => told,
            (_, ViewError::HashConflict { path, .. }) if self.creates => errors::of(ViewError::AlreadyExists(path)),
            (_, error) => errors::of(error),
        }
    }
}

fn prepare(call: &Call<'_>, op: &TransactionOp) -> Result<Prepared, ToolError> {
    let mut arguments = Value::Object(op.arguments.clone());
    for own in ["operation_id", "dry_run"] {
        if op.arguments.contains_key(own) {
            return Err(errors::invalid(format!("{own} is of the whole transaction; give it beside ops")));
        }
    }
    match op.tool {
        TransactionTool::Write => write::prepare(call, &typed::<WriteArgs>(&mut arguments)?),
        TransactionTool::Edit => {
            let mut arguments = edit::folded(arguments);
            edit::prepare(call, &typed::<EditArgs>(&mut arguments)?)
        }
        TransactionTool::Move => {
            moves::step(call, &typed::<MoveArgs>(&mut arguments)?, moves::What::Move).map(Prepared::from)
        }
        TransactionTool::Copy => {
            moves::step(call, &typed::<MoveArgs>(&mut arguments)?, moves::What::Copy).map(Prepared::from)
        }
        TransactionTool::Mkdir => mkdir::step(call, &typed::<MkdirArgs>(&mut arguments)?).map(Prepared::from),
        TransactionTool::Delete => delete::step(call, &typed::<DeleteArgs>(&mut arguments)?).map(Prepared::from),
    }
}

fn typed<T: DeserializeOwned + schemars::JsonSchema>(arguments: &mut Value) -> Result<T, ToolError> {
    repair::fit(arguments, &table::schema::<T>());
    table::typed(arguments.take())
}

/// The error, of one of the operations.
fn of_op(error: ToolError, at: usize, tool: TransactionTool) -> ToolError {
    let tool = serde_json::to_value(tool).ok().and_then(|tool| tool.as_str().map(str::to_owned)).unwrap_or_default();
    let mut details = match error.details.as_deref() {
        Some(Value::Object(details)) => details.clone(),
        Some(_) | None => serde_json::Map::new(),
    };
    details.insert("op".into(), json!(at));
    let message = format!("op {at} ({tool}): {}; nothing of the transaction was done", error.message);
    ToolError { message, ..error }.with(Value::Object(details))
}
