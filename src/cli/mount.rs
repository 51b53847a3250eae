//! `mount`, `serve`, `umount`.

use std::path::PathBuf;

use clap::Args;
use control_api::Client;
use serde_json::json;

use super::{Failure, Outcome, output};
use crate::{
    config::{Config, ConfigError, PolicyFile, SourceConfig, ViewConfig, apply_options, load_config, load_policy},
    run::{self, Started},
};

/// What `mount` and `serve` share.
#[derive(Args)]
pub(super) struct Common {
    /// A config file
    #[arg(long, env = "WARDFS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The view of the config
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// A file of policy keys
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Where the history lives
    #[arg(long, env = "WARDFS_STORE", value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where the control socket is to be
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The tool profile
    #[arg(long, value_name = "PROFILE")]
    tools: Option<String>,
    /// When an answer means "on disk": strict or relaxed
    #[arg(long, value_name = "WHEN")]
    durability: Option<String>,
    /// Options as mount(8) takes them
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground
    #[arg(short = 'f', long)]
    foreground: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct MountArgs {
    /// Directories to show, then the mountpoint
    #[arg(value_name = "SOURCE... MOUNTPOINT")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(super) struct ServeArgs {
    /// Directories to show
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(super) struct UmountArgs {
    /// Where it is mounted
    mountpoint: PathBuf,
}

fn refused(error: ConfigError) -> Failure {
    Failure::new(error.to_string())
}

fn config_of(common: &Common, sources: &[PathBuf], mountpoint: Option<PathBuf>) -> Result<Config, Failure> {
    let mut config = match &common.config {
        Some(path) => load_config(path).map_err(refused)?,
        None => Config::default(),
    };
    if let Some(name) = &common.view {
        config.views.retain(|view| view.name == *name);
        if config.views.is_empty() {
            return Err(Failure::new(format!("the config has no [view.{name}]")));
        }
    }
    if !sources.is_empty() {
        let mut view = match config.views.as_slice() {
            [] => ViewConfig { tools: "native".into(), alias: vec!["/workspace".into()], ..ViewConfig::default() },
            [only] => only.clone(),
            [_, _, ..] => return Err(Failure::usage("the config has several views; choose one with --view")),
        };
        view.sources.clear();
        for path in sources {
            let real =
                std::fs::canonicalize(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            let name = real.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
            if view.sources.iter().any(|source| source.name == name) {
                return Err(Failure::new(format!("two sources are named {name:?}; give them names in a config file")));
            }
            view.sources.push(SourceConfig { path: real, name, read_only: false });
        }
        if view.name.is_empty() {
            view.name = view.sources.first().map(|source| source.name.clone()).unwrap_or_default();
        }
        config.views = vec![view];
    }
    if mountpoint.is_some() {
        match config.views.as_mut_slice() {
            [only] => only.mountpoint = mountpoint,
            [] => return Err(Failure::usage("nothing to mount: name a source and a mountpoint, or a --config")),
            [_, _, ..] => return Err(Failure::usage("the config has several views; choose one with --view")),
        }
    }
    if config.views.is_empty() {
        return Err(Failure::usage("nothing to serve: name a directory, or a --config"));
    }
    for view in &mut config.views {
        if let Some(path) = &common.policy {
            let path =
                std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            view.policy = load_policy(&path).map_err(refused)?;
            view.policy_file = Some(PolicyFile::Policy(path));
        }
        if let Some(profile) = &common.tools {
            if profile != "native" {
                return Err(Failure::usage(format!("no tool profile {profile:?}; there is native")));
            }
            view.tools.clone_from(profile);
        }
    }
    match (&common.socket, config.views.as_mut_slice()) {
        (None, _) => {}
        (Some(socket), [only]) => only.socket = Some(socket.clone()),
        (Some(_), [] | [_, _, ..]) => {
            return Err(Failure::usage("--socket names one socket, and there are several views"));
        }
    }
    match common.durability.as_deref() {
        None => {}
        Some("strict") => config.store.relaxed = false,
        Some("relaxed") => config.store.relaxed = true,
        Some(other) => return Err(Failure::usage(format!("--durability is strict or relaxed, not {other:?}"))),
    }
    apply_options(&mut config, &common.options).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(config)
}

fn report(started: &[Started], as_json: bool) {
    for view in started {
        if as_json {
            let mut line = json!({
                "mountpoint": view.mountpoint,
                "socket": view.socket,
                "store": view.store,
                "stores": view.stores,
                "pid": view.pid,
                "admin_socket": view.admin_socket,
            });
            if view.mountpoint.is_none() {
                line.as_object_mut().map(|line| line.remove("mountpoint"));
            }
            output::line(&line.to_string());
        } else {
            if let Some(mountpoint) = &view.mountpoint {
                output::line(&format!("mountpoint  {}", mountpoint.display()));
            }
            output::line(&format!("socket      {}", view.socket.display()));
            output::line(&format!("store       {}", view.store.display()));
        }
        for note in &view.notes {
            output::complain(note);
        }
    }
}

pub(super) fn mount(mut args: MountArgs) -> Outcome {
    let mountpoint = match (args.paths.pop(), args.common.config.is_some()) {
        (Some(last), _) if !args.paths.is_empty() => Some(last),
        // One path beside a config is the mountpoint; none takes the config's.
        (last, true) => last,
        (_, false) => return Err(Failure::usage("usage: wardfs mount SOURCE... MOUNTPOINT")),
    };
    let config = config_of(&args.common, &args.paths, mountpoint)?;
    if let Some(view) = config.views.iter().find(|view| view.mountpoint.is_none()) {
        return Err(Failure::usage(format!("view {:?} has no mountpoint", view.name)));
    }
    let started = run::start(config, args.common.store.as_deref(), false, args.common.foreground)?;
    report(&started, args.common.json);
    Ok(())
}

pub(super) fn serve(args: ServeArgs) -> Outcome {
    let config = config_of(&args.common, &args.sources, None)?;
    let as_service = args.common.foreground || std::env::var_os("NOTIFY_SOCKET").is_some();
    let started = run::start(config, args.common.store.as_deref(), true, as_service)?;
    report(&started, args.common.json);
    Ok(())
}

pub(super) fn umount(args: &UmountArgs) -> Outcome {
    let at = std::path::absolute(&args.mountpoint)
        .map_err(|error| Failure::new(format!("{}: {error}", args.mountpoint.display())))?;
    let cleared = crate::fuse::clear_stale(&at).map_err(|error| Failure::new(format!("{}: {error}", at.display())))?;
    if cleared {
        return Ok(());
    }
    let real = std::fs::canonicalize(&at).map_err(|error| Failure::new(format!("{}: {error}", at.display())))?;
    for daemon in run::known()? {
        if daemon.views.iter().any(|view| view.mountpoint.as_deref() == Some(real.as_path())) {
            let mut client = Client::connect(&daemon.admin_socket)?;
            client.request("unmount", &json!({"mountpoint": real}))?;
            return Ok(());
        }
    }
    Err(Failure::new(format!("{}: no view is mounted there", at.display())))
}
