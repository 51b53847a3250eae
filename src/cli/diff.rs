//! `diff`: two files, or a file and an earlier state of itself.

use clap::Args;
use serde_json::{Value, json};

use super::{Outcome, find::Which, moment, output, pager::Pager};

#[derive(Args)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    which: Which,
    /// PATH or PATH@WHEN; WHEN is an operation, a checkpoint, a time, or how long ago
    a: String,
    /// Another; without it the same path as it is now
    b: Option<String>,
    /// Lines of context
    #[arg(short = 'U', long, value_name = "N", default_value_t = 3)]
    unified: u64,
}

pub(super) fn diff(args: &DiffArgs) -> Outcome {
    let (path, _) = moment::versioned(&args.a);
    let mut found = args.which.find(Some(&path))?;
    let (path, at) = moment::side(&mut found, &args.a)?;
    let (other, other_at) = match &args.b {
        Some(b) => moment::side(&mut found, b)?,
        None => (path.clone(), None),
    };
    let side = |path: Value, at: Option<Value>| match at {
        Some(at) => json!({"path": path, "at": at}),
        None => json!({"path": path}),
    };
    let asked = json!({"a": side(path, at), "b": side(other, other_at), "context": args.unified});
    let answer = found.call("diff", &asked)?.structured;
    if args.which.json {
        output::json(&answer);
        return Ok(());
    }
    Pager::start().text(answer["diff"].as_str().unwrap_or_default());
    if answer["diff_truncated"] == true {
        output::complain("the difference is cut; compare parts, or `cat` both sides into files");
    }
    Ok(())
}
