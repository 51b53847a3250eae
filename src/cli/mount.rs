//! `mount`: a view of directories at a mountpoint.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Outcome, setup::Setup};
use crate::run;

#[derive(Args)]
pub(super) struct MountArgs {
    /// Directories to show, then the mountpoint; one directory is the root, several are directories of the root
    #[arg(value_name = "SOURCE... MOUNTPOINT")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub setup: Setup,
}

pub(super) fn mount(mut args: MountArgs) -> Outcome {
    let mountpoint = match (args.paths.pop(), args.setup.config.is_some()) {
        // Beside a config one path is the mountpoint, and none takes the config's.
        (None, true) => None,
        (Some(last), with_config) if with_config || !args.paths.is_empty() => Some(last),
        (Some(_) | None, _) => {
            return Err(Failure::usage("name the directories and the mountpoint: wardfs mount SOURCE... MOUNTPOINT"));
        }
    };
    let config = args.setup.build(&args.paths, mountpoint)?;
    if let Some(view) = config.views.iter().find(|view| view.mountpoint.is_none()) {
        let say = format!("view {:?} has no mountpoint; name one, or use `wardfs serve`", view.name);
        return Err(Failure::usage(say));
    }
    let (setup, store) = (&args.setup, args.setup.store.as_deref());
    run::start(config, store, setup.foreground, |started| setup.report(started))?;
    Ok(())
}
