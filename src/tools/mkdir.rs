//! `mkdir`.

use control_api::{ErrorCode, ToolError, tools::MkdirArgs};

use super::{Answer, errors, given, mutation, native::Call};
use crate::{types::ViewPath, view::Step};

/// Directories in one call.
const PATHS_MAX: usize = 1_000;

/// As a part of a transaction.
pub(super) fn step(call: &Call<'_>, args: &MkdirArgs) -> Result<Step, ToolError> {
    Ok(Step::MakeDirs { paths: paths(call, args)?, parents: args.parents })
}

fn paths(call: &Call<'_>, args: &MkdirArgs) -> Result<Vec<ViewPath>, ToolError> {
    if !(1..=PATHS_MAX).contains(&args.paths.len()) {
        return Err(errors::invalid(format!("paths holds {}; give 1 to {PATHS_MAX}", args.paths.len())));
    }
    args.paths.iter().map(|path| given::path(call.view, path)).collect()
}

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &MkdirArgs) -> Result<Answer, ToolError> {
    let paths = paths(call, args)?;
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let done = call.view.make_dirs(request, &paths, args.parents).map_err(errors::of).map_err(|mut error| {
            if error.code == ErrorCode::NotFound && !args.parents {
                error.message += "; parents: true makes missing directories above";
            }
            error
        })?;
        Ok(mutation::told(call.view, request, &done))
    })
}
