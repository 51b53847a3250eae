//! `man`: the manual pages.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Outcome, output};

#[derive(Args)]
pub(super) struct ManArgs {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn man(args: &ManArgs, command: clap::Command) -> Outcome {
    match &args.dir {
        Some(dir) => clap_mangen::generate_to(command, dir).map_err(|error| Failure::on(dir, error)),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(|error| Failure::new(error.to_string()))?;
            output::bytes(&page);
            Ok(())
        }
    }
}
