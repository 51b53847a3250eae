//! `show`: one operation with its changes.

use clap::Args;
use serde_json::json;

use super::{
    Failure, Outcome,
    find::Which,
    operation::{describe, patch},
    output,
    pager::Pager,
};

#[derive(Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// Its number; `log` tells them
    operation: u64,
}

pub(super) fn show(args: &ShowArgs) -> Outcome {
    let mut found = args.which.find(None)?;
    let answer = found.call("history", &json!({"operation": args.operation}))?.structured;
    if args.which.json {
        output::json(&answer);
        return Ok(());
    }
    let none = || Failure::new(format!("there is no operation {}; `wardfs log` tells those there are", args.operation));
    let operation = answer["operations"].get(0).ok_or_else(none)?;
    let text = describe(operation, true) + &patch(&mut found, operation);
    Pager::start().text(&text);
    Ok(())
}
