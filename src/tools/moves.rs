//! `move` and `copy`.

use control_api::{ToolError, tools::MoveArgs};

use super::{Answer, errors, given, mutation, native::Call};
use crate::view::Step;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Move,
    Copy,
}

/// As a part of a transaction.
pub(super) fn step(call: &Call<'_>, args: &MoveArgs, what: What) -> Result<Step, ToolError> {
    let (from, to) = (given::path(call.view, &args.from)?, given::path(call.view, &args.to)?);
    let expect = given::expected(args.expected_hash.as_deref())?;
    let overwrite = args.overwrite;
    Ok(match what {
        What::Move => Step::Move { from, to, overwrite, expect },
        What::Copy => Step::Copy { from, to, overwrite, expect },
    })
}

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &MoveArgs, what: What) -> Result<Answer, ToolError> {
    let (from, to) = (given::path(call.view, &args.from)?, given::path(call.view, &args.to)?);
    let expect = given::expected(args.expected_hash.as_deref())?;
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let done = match what {
            What::Move => call.view.move_path(request, &from, &to, args.overwrite, &expect),
            What::Copy => call.view.copy_path(request, &from, &to, args.overwrite, &expect),
        };
        Ok(mutation::told(call.view, request, &done.map_err(errors::of)?))
    })
}
