//! What `mount` and `serve` are told, put together: a config file, directories, options, each over what stands before it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{Failure, output};
use crate::{
    config::{
        Config, ConfigError, PolicyFile, SourceConfig, ViewConfig, apply_options, load_config, load_policy, profile,
    },
    run::Started,
};

/// What `mount` and `serve` share.
#[derive(Args, Default)]
pub(super) struct Setup {
    /// A config file
    #[arg(long, env = "WARDFS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The view of the config
    #[arg(long, value_name = "NAME")]
    pub view: Option<String>,
    /// A file of policy keys
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Where the history lives
    #[arg(long, env = "WARDFS_STORE", value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Where the control socket is to be
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The tool profile
    #[arg(long, value_name = "PROFILE")]
    pub tools: Option<String>,
    /// When an answer means "on disk": strict or relaxed
    #[arg(long, value_name = "WHEN", value_parser = ["strict", "relaxed"])]
    pub durability: Option<String>,
    /// Options as mount(8) takes them: ro, allow_other, deny=PATTERN:PATTERN, read_only=, allow=, durability=, …
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground, and log on standard error
    #[arg(short = 'f', long)]
    pub foreground: bool,
    /// Print one line of JSON for each view
    #[arg(long)]
    pub json: bool,
}

fn refused(error: ConfigError) -> Failure {
    Failure::new(error.to_string())
}

/// A source at a path, with the name that the directory has.
pub(super) fn source_at(path: &Path) -> Result<SourceConfig, Failure> {
    let real = std::fs::canonicalize(path).map_err(|error| Failure::on(path, error))?;
    let name = real.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    Ok(SourceConfig { path: real, name, read_only: false })
}

impl Setup {
    /// The views that are meant.
    ///
    /// # Errors
    /// What is wrong with the arguments (status 2), or with a file (status 1).
    pub fn build(&self, sources: &[PathBuf], mountpoint: Option<PathBuf>) -> Result<Config, Failure> {
        let mut config = self.views()?;
        if !sources.is_empty() {
            self.put_sources(&mut config, sources)?;
        }
        let several = || Failure::usage("the config has several views; choose one with --view");
        match (mountpoint, config.views.as_mut_slice()) {
            (_, []) => return Err(Failure::usage("nothing to serve: name a directory, or a --config")),
            (None, _) => {}
            (mountpoint, [only]) => only.mountpoint = mountpoint,
            (Some(_), [_, _, ..]) => return Err(several()),
        }
        match (&self.socket, config.views.as_mut_slice()) {
            (None, _) => {}
            (Some(socket), [only]) => only.socket = Some(socket.clone()),
            (Some(_), _) => return Err(several()),
        }
        for view in &mut config.views {
            if let Some(path) = &self.policy {
                view.policy = load_policy(path).map_err(refused)?;
                view.policy_file = Some(PolicyFile::Policy(path.clone()));
            }
            if let Some(tools) = &self.tools {
                view.tools = profile(tools).map_err(|why| Failure::usage(format!("--tools: {why}")))?;
            }
        }
        match self.durability.as_deref() {
            None => {}
            Some(word) => config.store.relaxed = word == "relaxed",
        }
        apply_options(&mut config, &self.options).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(config)
    }

    fn views(&self) -> Result<Config, Failure> {
        let Some(path) = &self.config else {
            return match &self.view {
                None => Ok(Config::default()),
                Some(_) => Err(Failure::usage("--view names a view of a --config, and there is none")),
            };
        };
        let mut config = load_config(path).map_err(refused)?;
        if let Some(name) = &self.view {
            let names: Vec<String> = config.views.iter().map(|view| view.name.clone()).collect();
            config.views.retain(|view| view.name == *name);
            if config.views.is_empty() {
                let there = names.join(", ");
                return Err(Failure::on(path, format!("it has no [view.{name}]; there are {there}")));
            }
        }
        Ok(config)
    }

    /// Directories that were named stand for those of the config's view.
    fn put_sources(&self, config: &mut Config, sources: &[PathBuf]) -> Result<(), Failure> {
        let mut named: Vec<SourceConfig> = Vec::new();
        for path in sources {
            let source = source_at(path)?;
            if named.iter().any(|known| known.name == source.name) {
                return Err(Failure::new(format!(
                    "two sources are named {:?}; give them names in a config: sources = [{{ path = …, name = … }}]",
                    source.name
                )));
            }
            named.push(source);
        }
        match config.views.as_mut_slice() {
            [] => {
                let name = named.first().map(|source| source.name.clone()).unwrap_or_default();
                config.views.push(ViewConfig::of(&name, named));
            }
            [only] => only.sources = named,
            [_, _, ..] => return Err(Failure::usage("the config has several views; choose one with --view")),
        }
        Ok(())
    }

    /// Tells what is served.
    pub fn report(&self, started: &[Started]) {
        for view in started {
            if self.json {
                let mut line = json!({
                    "mountpoint": view.mountpoint,
                    "socket": view.socket,
                    "store": view.store,
                    "stores": view.stores,
                    "pid": view.pid,
                    "admin_socket": view.admin_socket,
                });
                if started.len() > 1 {
                    line["view"] = view.view.as_str().into();
                }
                output::line(&line.to_string());
            } else {
                if let Some(mountpoint) = &view.mountpoint {
                    output::line(&format!("mountpoint  {}", mountpoint.display()));
                }
                output::line(&format!("socket      {}", view.socket.display()));
                output::line(&format!("store       {}", view.store.display()));
            }
            view.notes.iter().for_each(|note| output::complain(note));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<Config, Failure>) -> String {
        match result {
            Ok(config) => format!("{:?}", config.views.iter().map(|view| &view.name).collect::<Vec<_>>()),
            Err(failure) => format!("{}: {}", failure.status, failure.message),
        }
    }

    #[test]
    fn arguments_stand_over_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["a", "b", "c/a"] {
            std::fs::create_dir_all(at(name)).expect("made");
        }
        std::fs::write(at("two.toml"), "[view.x]\nsources = [\"/nowhere\"]\n[view.y]\nsources = [\"/nowhere\"]\n")
            .expect("written");
        let two = || Setup { config: Some(at("two.toml")), ..Setup::default() };
        let one = || Setup { view: Some("y".into()), ..two() };
        let check = |setup: &Setup, sources: &[&str], mountpoint: Option<&str>, expected: &str| {
            let sources: Vec<PathBuf> = sources.iter().map(|name| at(name)).collect();
            let said = text(setup.build(&sources, mountpoint.map(PathBuf::from)));
            assert!(said.contains(expected), "{said}, expected {expected}");
        };
        check(&Setup::default(), &["a", "b"], Some("/m"), "[\"a\"]");
        check(&Setup::default(), &[], Some("/m"), "2: nothing to serve");
        check(&Setup::default(), &["none"], None, "1: ");
        check(&Setup::default(), &["a", "c/a"], None, "1: two sources are named \"a\"; give them names in a config");
        check(&two(), &[], None, "[\"x\", \"y\"]");
        check(&two(), &[], Some("/m"), "2: the config has several views");
        check(&two(), &["a"], None, "2: the config has several views");
        check(&one(), &["a"], Some("/m"), "[\"y\"]");
        check(&Setup { view: Some("z".into()), ..two() }, &[], None, "it has no [view.z]; there are x, y");
        check(&Setup { view: Some("z".into()), ..Setup::default() }, &[], None, "2: --view");
        check(&Setup { socket: Some("/s".into()), ..two() }, &[], None, "2: the config has several views");
        check(&Setup { tools: Some("burow".into()), ..one() }, &[], None, "2: --tools: there is no tool profile");
        check(&Setup { options: vec!["rw,frob".into()], ..one() }, &[], None, "2: -o frob: unknown option");
        check(&Setup { policy: Some(at("none.toml")), ..one() }, &[], None, "cannot be read");
        let setup = Setup { durability: Some("relaxed".into()), options: vec!["ro".into()], ..one() };
        let config = setup.build(&[at("b")], None).expect("good arguments");
        assert!(config.store.relaxed && config.views[0].mount.read_only);
        assert_eq!(config.views[0].sources[0].name, "b");
    }
}
