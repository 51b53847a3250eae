//! `umount`: a view taken away.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use control_api::Client;
use serde_json::json;

use super::{Failure, Outcome, output};
use crate::run;

/// How long a daemon may take to end after its last view.
const END_WAIT: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(super) struct UmountArgs {
    /// Where it is mounted; for a view without a mount: the directory it shows, or its socket
    place: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn umount(args: &UmountArgs) -> Outcome {
    let at = std::path::absolute(&args.place).map_err(|error| Failure::on(&args.place, error))?;
    // First, since it waits for those that were killed.
    let daemons = run::known()?;
    if crate::fuse::clear_stale(&at).map_err(|error| Failure::on(&at, error))? {
        return done(args, "a dead mount was cleared");
    }
    let real = std::fs::canonicalize(&at).map_err(|error| Failure::on(&at, error))?;
    let views = || daemons.iter().flat_map(|daemon| daemon.views.iter().map(move |view| (daemon, view)));
    let mounted = views().find(|(_, view)| view.mountpoint.as_deref() == Some(&real));
    let found = match mounted {
        Some(found) => found,
        None => {
            let mut plain = views().filter(|(_, view)| {
                let shows =
                    view.mountpoint.is_none() && matches!(view.sources.as_slice(), [(only, _)] if *only == real);
                shows || view.socket == real
            });
            match (plain.next(), plain.next()) {
                (Some(only), None) => only,
                (None, _) => {
                    return Err(Failure::on(&at, "no view of this user is mounted there; `wardfs status` lists them"));
                }
                (Some(_), Some(_)) => {
                    return Err(Failure::on(
                        &at,
                        "several views show it; name the socket of one (`wardfs status` lists them)",
                    ));
                }
            }
        }
    };
    let (daemon, view) = found;
    let mut client = Client::connect(&daemon.admin_socket)?;
    let answer = client.request("remove_view", &json!({"view": view.name}))?;
    drop(client);
    // The daemon of the last view closes its store and ends: a command that follows finds neither.
    if answer["last"] == true && !run::process_ends(daemon.pid, END_WAIT) {
        output::complain(&format!("the view is gone, and process {} has not ended yet", daemon.pid));
    }
    done(args, "")
}

fn done(args: &UmountArgs, note: &str) -> Outcome {
    if args.json {
        output::json(&json!({"unmounted": args.place, "note": note}));
    }
    Ok(())
}
