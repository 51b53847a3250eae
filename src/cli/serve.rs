//! `serve`: views by their sockets alone, or as a service.

use std::path::PathBuf;

use clap::Args;

use super::{Outcome, setup::Setup};
use crate::run;

#[derive(Args)]
pub(super) struct ServeArgs {
    /// Directories to show
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    setup: Setup,
}

pub(super) fn serve(args: &ServeArgs) -> Outcome {
    let setup = &args.setup;
    let config = setup.build(&args.sources, None)?;
    // A service manager watches the process it started.
    let foreground = setup.foreground || std::env::var_os("NOTIFY_SOCKET").is_some();
    run::start(config, setup.store.as_deref(), foreground, |started| setup.report(started))?;
    Ok(())
}
