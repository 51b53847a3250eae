//! `cat`: a file as it is, or as it was.

use clap::Args;

use super::{Outcome, content, find::Which, moment, output};

#[derive(Args)]
pub(super) struct CatArgs {
    #[command(flatten)]
    which: Which,
    /// PATH@WHEN; WHEN is an operation, a checkpoint, a time, or how long ago
    what: String,
}

pub(super) fn cat(args: &CatArgs) -> Outcome {
    let (path, _) = moment::versioned(&args.what);
    let mut found = args.which.find(Some(&path))?;
    let (path, at) = moment::side(&mut found, &args.what)?;
    content::each(&mut found, &path, at.as_ref(), output::bytes)
}
