//! `checkpoint`: a name for this moment.

use control_api::{
    ToolError,
    tools::{CheckpointArgs, CheckpointResult},
};

use super::{
    Answer, errors,
    mutation::{Once, once},
    native::Call,
};

/// Characters of a name.
const NAME_MAX: usize = 128;
/// Characters of a note.
const NOTE_MAX: usize = 4_000;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &CheckpointArgs) -> Result<Answer, ToolError> {
    let length = args.name.chars().count();
    if !(1..=NAME_MAX).contains(&length) {
        return Err(errors::invalid(format!("name has {length} characters; give 1 to {NAME_MAX}")));
    }
    if args.name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(errors::invalid("a name of digits alone would be read as an operation's number; choose another"));
    }
    if args.note.as_ref().is_some_and(|note| note.chars().count() > NOTE_MAX) {
        return Err(errors::invalid(format!("note has more than {NOTE_MAX} characters")));
    }
    let id = args.operation_id.as_deref().or(call.operation_id);
    let make = |_| {
        let made = call.view.checkpoint(&args.name, args.note.as_deref(), &call.context.actor).map_err(errors::of)?;
        let (name, operation, time) = (made.name, made.op.0, made.time.rfc3339());
        Ok((CheckpointResult { name, operation, time, replayed: false }, None))
    };
    // Without its answer there is no trace of it.
    let result = match once(call, args, id, make, |_| Ok(CheckpointResult::default()))? {
        Once::Done(result) => result,
        Once::Before(result) => CheckpointResult { replayed: true, ..result },
    };
    Ok(Answer::new(format!("checkpoint {:?} after operation {}", result.name, result.operation), &result))
}
