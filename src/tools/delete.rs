//! `delete`.

use control_api::{ToolError, WirePath, tools::DeleteArgs};

use super::{Answer, errors, given, mutation, native::Call};
use crate::{
    types::ViewPath,
    view::{Expect, Step},
};

/// Paths in one call.
const PATHS_MAX: usize = 1_000;

/// As a part of a transaction.
pub(super) fn step(call: &Call<'_>, args: &DeleteArgs) -> Result<Step, ToolError> {
    Ok(Step::Remove { targets: targets(call, args)?, recursive: args.recursive })
}

/// What is to go, and what the caller believes is there.
fn targets(call: &Call<'_>, args: &DeleteArgs) -> Result<Vec<(ViewPath, Expect)>, ToolError> {
    let named: &[WirePath] = match (&args.path, &args.paths) {
        (Some(path), None) => std::slice::from_ref(path),
        (None, Some(paths)) if (1..=PATHS_MAX).contains(&paths.len()) => paths,
        (None, Some(paths)) => {
            return Err(errors::invalid(format!("paths holds {}; give 1 to {PATHS_MAX}", paths.len())));
        }
        (Some(_), Some(_)) | (None, None) => return Err(errors::invalid("give either path or paths")),
    };
    if args.expected_hash.is_some() && named.len() > 1 {
        return Err(errors::invalid("expected_hash goes with one path"));
    }
    let expect = given::expected(args.expected_hash.as_deref())?;
    named.iter().map(|path| Ok((given::path(call.view, path)?, expect.clone()))).collect()
}

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &DeleteArgs) -> Result<Answer, ToolError> {
    let targets = targets(call, args)?;
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let done = call.view.remove(request, &targets, args.recursive).map_err(errors::of)?;
        Ok(mutation::told(call.view, request, &done))
    })
}
