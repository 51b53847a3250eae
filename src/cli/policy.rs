//! `policy explain`, `policy check`: which pattern decides, in which list, on which line.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Failure, Outcome, find::Which, output};
use crate::{
    config::{Config, PolicyConfig, ViewConfig, apply_options, load_config, load_policy},
    policy::{List, Policy},
    types::ViewPath,
};

#[derive(Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Tell how a path is judged, and why
    Explain {
        /// The path, relative to the view's root; a trailing / makes it a directory
        path: String,
        #[command(flatten)]
        from: From,
        #[command(flatten)]
        which: Which,
    },
    /// Check a config or a policy file
    Check {
        /// The file
        file: Option<PathBuf>,
        #[command(flatten)]
        from: From,
    },
}

/// Where a policy comes from.
#[derive(Args)]
struct From {
    /// A config file
    #[arg(long, env = "WARDFS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The view of the config
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// A file of policy keys
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Options as mount(8) takes them
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
}

impl From {
    fn views(&self) -> Result<Vec<ViewConfig>, Failure> {
        let refused = |error: crate::config::ConfigError| Failure::new(error.to_string());
        let mut config = match &self.config {
            Some(path) => load_config(path).map_err(refused)?,
            None => Config { views: vec![ViewConfig::of("view", Vec::new())], ..Config::default() },
        };
        if let Some(path) = &self.policy {
            let policy = load_policy(path).map_err(refused)?;
            config.views.iter_mut().for_each(|view| view.policy = policy.clone());
        }
        if let Some(name) = &self.view {
            config.views.retain(|view| view.name == *name);
        }
        apply_options(&mut config, &self.options).map_err(refused)?;
        Ok(config.views)
    }
}

fn compile(name: &str, policy: &PolicyConfig, read_only: bool) -> Result<Policy, Failure> {
    Policy::compile(&policy.spec(read_only)).map_err(|error| Failure::new(format!("{name}: {error}")))
}

pub(super) fn policy(args: &PolicyArgs) -> Outcome {
    match &args.command {
        PolicyCommand::Explain { path, from, which } => explain(path, from, which),
        PolicyCommand::Check { file, from } => check(file.as_ref(), from),
    }
}

/// The policy of the view that is meant, as its daemon has it.
fn running(which: &Which) -> Result<ViewConfig, Failure> {
    let config = which.human(None)?.command("config", json!({}))?;
    serde_json::from_value(config).map_err(|error| Failure::new(format!("the daemon's answer: {error}")))
}

fn explain(path: &str, from: &From, which: &Which) -> Outcome {
    let as_json = which.json;
    // A policy that is named is explained; else that of the view at hand; else the default.
    let named = from.config.is_some() || from.policy.is_some() || !from.options.is_empty();
    let views = match named.then(|| from.views()) {
        Some(views) => views?,
        None => match running(which) {
            Ok(view) => vec![view],
            Err(_) if which.socket.is_none() => from.views()?,
            Err(error) => return Err(error),
        },
    };
    let view = match views.as_slice() {
        [only] => only,
        [] => return Err(Failure::new("there is no such view")),
        [_, _, ..] => return Err(Failure::usage("the config has several views; choose one with --view")),
    };
    let policy = compile(&view.name, &view.policy, view.mount.read_only)?;
    let relative = path.trim_start_matches('/');
    let at = ViewPath::parse(relative.as_bytes()).map_err(|error| Failure::usage(format!("{path}: {error}")))?;
    let why = policy.explain(&at, path.ends_with('/'));
    let verdict = match why.class {
        None => "hidden",
        Some(class) if class.read_only => "read-only",
        Some(class) if class.unversioned => "writable, unversioned",
        Some(_) => "writable",
    };
    let list = |list: List| match list {
        List::Allow => "allow",
        List::Deny => "deny",
        List::ReadOnly => "read_only",
        List::Unversioned => "unversioned",
    };
    if as_json {
        let matches: Vec<_> = why
            .matches
            .iter()
            .map(|(which, pattern, selects)| {
                json!({"list": list(*which), "pattern": pattern.text, "origin": pattern.origin, "selects": selects})
            })
            .collect();
        output::json(
            &json!({"path": path, "verdict": verdict, "matches": matches, "leads_to_allowed": why.leads_to_allowed}),
        );
        return Ok(());
    }
    output::line(&format!("{path}: {verdict}"));
    for (which, pattern, selects) in &why.matches {
        let verb = if *selects { "by" } else { "not by" };
        output::line(&format!("    {} {verb} {:?} ({})", list(*which), pattern.text, pattern.origin));
    }
    if why.leads_to_allowed {
        output::line("    shown because something below it may be allowed");
    }
    Ok(())
}

fn check(file: Option<&PathBuf>, from: &From) -> Outcome {
    let views = match file {
        None => from.views()?,
        Some(path) => match load_config(path) {
            Ok(config) => config.views,
            Err(as_config) => match load_policy(path) {
                Ok(policy) => vec![ViewConfig { policy, ..ViewConfig::of("policy", Vec::new()) }],
                // A file with views is a config, and its mistake is the one to tell.
                Err(as_policy) => {
                    let is_config = std::fs::read_to_string(path).is_ok_and(|text| text.contains("[view"));
                    return Err(Failure::new(if is_config { as_config } else { as_policy }.to_string()));
                }
            },
        },
    };
    for view in &views {
        compile(&view.name, &view.policy, view.mount.read_only)?;
        output::line(&format!("{}: good", view.name));
    }
    Ok(())
}
