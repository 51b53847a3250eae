//! `undo` and `redo`: the last steps taken back, and put back.

use clap::Args;
use serde_json::json;

use super::{Outcome, find::Which, revert::finish};

#[derive(Args)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    which: Which,
    /// How many steps
    #[arg(default_value_t = 1)]
    count: usize,
}

pub(super) fn undo(args: &UndoArgs) -> Outcome {
    each(args, "change")
}

pub(super) fn redo(args: &UndoArgs) -> Outcome {
    each(args, "undo")
}

fn each(args: &UndoArgs, last: &str) -> Outcome {
    let mut found = args.which.find(None)?;
    for _ in 0..args.count {
        finish(&mut found, args.which.json, json!({"last": last}), true)?;
    }
    Ok(())
}
