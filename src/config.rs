//! What a human configures: views, sources, policy, store. An entry that is unknown or wrong refuses to start.

mod either;
mod file;
mod keep;
mod options;
mod paths;

pub use file::{load_config, load_policy, parse_config, parse_policy};
pub use keep::KeepConfig;
pub use options::{MountFlags, apply_options, reapply_options, split_options};
pub use paths::expand;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::{Pattern, PolicySpec};

/// The tool profiles there are.
pub const PROFILES: &[&str] = &["native"];
/// The groups of tools there are.
pub const FEATURES: &[&str] = &["read", "search", "write"];
/// The absolute path that clients may use for a view's root, unless its config says otherwise.
pub const ALIAS: &str = "/workspace";

/// A view as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ViewConfig {
    /// Its name.
    pub name: String,
    /// Where it is mounted; none for a socket alone.
    pub mountpoint: Option<PathBuf>,
    /// What it shows.
    pub sources: Vec<SourceConfig>,
    /// The profile of its tools.
    pub tools: String,
    /// Absolute paths that clients may use for its root.
    pub alias: Vec<String>,
    /// Its policy.
    pub policy: PolicyConfig,
    /// How it is mounted.
    pub mount: MountFlags,
    /// The `-o` options it was given: what they say of the policy is said again after a reload of the file.
    #[serde(default)]
    pub options: Vec<String>,
    /// Its control socket, if the human chose one.
    pub socket: Option<PathBuf>,
    /// The file its policy came from, for a reload.
    pub policy_file: Option<PolicyFile>,
}

/// Where a view's policy is read again from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PolicyFile {
    /// The `[view.NAME.policy]` table of a config.
    Config(PathBuf),
    /// A file of the policy keys alone.
    Policy(PathBuf),
}

/// A source as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceConfig {
    /// The host directory.
    pub path: PathBuf,
    /// Its name in a view of several.
    pub name: String,
    /// Nothing in it is changed through the view.
    pub read_only: bool,
}

/// A pattern and where it was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PatternConfig {
    /// Gitignore syntax.
    pub text: String,
    /// `file:line`, or the option.
    pub origin: String,
}

/// A policy as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyConfig {
    /// See [`PolicySpec::allow`]; none is the default.
    pub allow: Option<Vec<PatternConfig>>,
    /// See [`PolicySpec::deny`].
    pub deny: Vec<PatternConfig>,
    /// See [`PolicySpec::read_only`].
    pub read_only: Vec<PatternConfig>,
    /// See [`PolicySpec::unversioned`].
    pub unversioned: Vec<PatternConfig>,
    /// Existing files can be changed by tools only with `expected_hash`.
    pub require_hash: bool,
    /// Changes through the view are pending until a person accepts them.
    #[serde(default)]
    pub review: bool,
    /// Groups of tools: read, search, write.
    pub features: Vec<String>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        PolicyConfig {
            allow: None,
            deny: Vec::new(),
            read_only: Vec::new(),
            unversioned: Vec::new(),
            require_hash: false,
            review: false,
            features: FEATURES.iter().map(|feature| (*feature).to_owned()).collect(),
        }
    }
}

/// What a store is configured to be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreConfig {
    /// Answers survive a crash of the daemon, and power loss only after a second.
    pub relaxed: bool,
    /// How long history is kept, and how much of it.
    #[serde(default)]
    pub keep: KeepConfig,
}

/// Everything one command starts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Config {
    /// The views.
    pub views: Vec<ViewConfig>,
    /// The store.
    pub store: StoreConfig,
}

/// A configuration that is refused.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// `file:line:column`, or the option.
    pub place: String,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl ViewConfig {
    /// A view of directories and nothing said about it.
    #[must_use]
    pub fn of(name: &str, sources: Vec<SourceConfig>) -> Self {
        ViewConfig {
            name: name.to_owned(),
            sources,
            tools: "native".into(),
            alias: vec![ALIAS.into()],
            ..ViewConfig::default()
        }
    }
}

/// Checks the name of a tool profile.
///
/// # Errors
/// In words: which there are.
pub fn profile(name: &str) -> Result<String, String> {
    if PROFILES.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there is no tool profile {name:?}; there is {}", PROFILES.join(", ")))
}

/// Checks the name of a group of tools.
///
/// # Errors
/// In words: which there are.
pub fn feature(name: &str) -> Result<String, String> {
    if FEATURES.contains(&name) {
        return Ok(name.to_owned());
    }
    if name == "exec" {
        return Err("this version has no tools that run commands; leave `exec` out".into());
    }
    Err(format!("{name:?} is no feature; there are {}", FEATURES.join(", ")))
}

impl PolicyConfig {
    /// For the policy's compiler.
    #[must_use]
    pub fn spec(&self, all_read_only: bool) -> PolicySpec {
        let patterns = |list: &[PatternConfig]| -> Vec<Pattern> {
            list.iter().map(|p| Pattern { text: p.text.clone(), origin: p.origin.clone() }).collect()
        };
        PolicySpec {
            allow: self.allow.as_deref().map_or_else(|| PolicySpec::default().allow, patterns),
            deny: patterns(&self.deny),
            read_only: patterns(&self.read_only),
            unversioned: patterns(&self.unversioned),
            all_read_only,
        }
    }
}
