//! `checkpoint`: a name for this moment.

use clap::Args;
use serde_json::{Value, json};

use super::{Outcome, find::Which, output};

#[derive(Args)]
pub(super) struct CheckpointArgs {
    #[command(flatten)]
    which: Which,
    /// Its name
    name: String,
    /// A note
    #[arg(short = 'm', long)]
    message: Option<String>,
}

pub(super) fn checkpoint(args: &CheckpointArgs) -> Outcome {
    let mut found = args.which.find(None)?;
    let mut asked = json!({"name": args.name});
    if let Some(note) = &args.message {
        asked["note"] = Value::String(note.clone());
    }
    let result = found.call("checkpoint", &asked)?;
    if args.which.json {
        output::json(&result.structured);
    } else {
        output::line(&result.text);
    }
    Ok(())
}
