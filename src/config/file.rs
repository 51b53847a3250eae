//! TOML files: views and policies, with the line and column of each mistake.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use super::{
    Config, ConfigError, PatternConfig, PolicyConfig, PolicyFile, SourceConfig, StoreConfig, ViewConfig,
    either::{OneOrMany, SourceEntry},
    expand, feature,
    keep::{self, KeepConfig, RetainTable},
    profile,
};
use crate::types::EntryName;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    #[serde(default)]
    view: BTreeMap<Spanned<String>, ViewTable>,
    #[serde(default)]
    store: StoreTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewTable {
    mountpoint: Option<Spanned<String>>,
    sources: Spanned<Vec<Spanned<SourceEntry>>>,
    tools: Option<Spanned<String>>,
    alias: Option<Spanned<OneOrMany>>,
    socket: Option<Spanned<String>>,
    #[serde(default)]
    policy: PolicyTable,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    #[serde(default)]
    read_only: Vec<Spanned<String>>,
    #[serde(default)]
    unversioned: Vec<Spanned<String>>,
    #[serde(default)]
    require_hash: bool,
    #[serde(default)]
    review: bool,
    features: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct StoreTable {
    durability: Option<Spanned<String>>,
    on_full: Option<Spanned<String>>,
    short: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    retain: RetainTable,
}

/// Keys that have a meaning which this version does not give them. To pass over one would promise what does not happen.
const LATER: &[(&str, &str)] = &[
    ("ask", "nothing waits for a person's yes in this version"),
    ("post_edit", "no command runs after an edit in this version"),
    ("exec", "this version has no tools that run commands"),
];

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// Line and column, both from 1; a column counts characters.
    fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    fn place(&self, offset: usize) -> String {
        let (line, column) = self.line_column(offset);
        format!("{}:{line}:{column}", self.path.display())
    }

    fn error<T>(&self, at: &Spanned<T>, problem: impl Into<String>) -> ConfigError {
        ConfigError { place: self.place(at.span().start), problem: problem.into() }
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| {
            let place = error.span().map_or_else(|| self.path.display().to_string(), |span| self.place(span.start));
            let later = |(key, why): &(&str, &str)| {
                let unknown = format!("unknown field `{key}`");
                error.message().starts_with(&unknown).then(|| format!("`{key}`: {why}; leave it out"))
            };
            let problem = LATER.iter().find_map(later).unwrap_or_else(|| error.message().trim().replace('\n', "; "));
            ConfigError { place, problem }
        })
    }

    fn patterns(&self, list: Vec<Spanned<String>>) -> Vec<PatternConfig> {
        let pattern = |pattern: Spanned<String>| {
            let origin = format!("{}:{}", self.path.display(), self.line_column(pattern.span().start).0);
            PatternConfig { origin, text: pattern.into_inner() }
        };
        list.into_iter().map(pattern).collect()
    }

    fn policy(&self, table: PolicyTable) -> Result<PolicyConfig, ConfigError> {
        let features = match table.features {
            None => PolicyConfig::default().features,
            Some(list) => {
                let checked = |word: &Spanned<String>| feature(word.get_ref()).map_err(|why| self.error(word, why));
                list.iter().map(checked).collect::<Result<_, _>>()?
            }
        };
        Ok(PolicyConfig {
            allow: table.allow.map(|list| self.patterns(list)),
            deny: self.patterns(table.deny),
            read_only: self.patterns(table.read_only),
            unversioned: self.patterns(table.unversioned),
            require_hash: table.require_hash,
            review: table.review,
            features,
        })
    }

    fn keep(&self, table: &StoreTable) -> Result<KeepConfig, ConfigError> {
        let mut keep = KeepConfig::default();
        if let Some(word) = &table.on_full {
            keep.refuse = Some(keep::on_full(word.get_ref()).map_err(|why| self.error(word, why))?);
        }
        if let Some(names) = &table.short {
            let name = |word: &Spanned<String>| keep::directory(word.get_ref()).map_err(|why| self.error(word, why));
            keep.short = Some(names.iter().map(name).collect::<Result<_, _>>()?);
        }
        table.retain.read(&mut keep).map_err(|(word, why)| self.error(word, why))?;
        Ok(keep)
    }

    fn path_of<T>(&self, at: &Spanned<T>, text: &str) -> Result<PathBuf, ConfigError> {
        if text.is_empty() {
            return Err(self.error(at, "expected a path, and this is empty"));
        }
        expand(text, |name| std::env::var(name).ok()).map_err(|problem| self.error(at, problem))
    }

    fn path(&self, text: &Spanned<String>) -> Result<PathBuf, ConfigError> {
        self.path_of(text, text.get_ref())
    }

    fn source(&self, entry: &Spanned<SourceEntry>) -> Result<SourceConfig, ConfigError> {
        let (path, name, read_only) = match entry.get_ref() {
            SourceEntry::Path(path) => (self.path_of(entry, path)?, None, false),
            SourceEntry::Table(fields) => {
                let read_only = match &fields.access {
                    None => false,
                    Some(access) => match access.get_ref().as_str() {
                        "read" => true,
                        "write" => false,
                        other => {
                            return Err(self.error(access, format!("access is \"read\" or \"write\", not {other:?}")));
                        }
                    },
                };
                (self.path(&fields.path)?, fields.name.as_ref(), read_only)
            }
        };
        let name = match name {
            Some(name) => {
                EntryName::new(name.get_ref().as_bytes()).map_err(|why| self.error(name, format!("`name`: {why}")))?;
                name.get_ref().clone()
            }
            // `.`, `..` and `/` have no name of their own; the directory that they mean may have one.
            None => path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .or_else(|| Some(std::fs::canonicalize(&path).ok()?.file_name()?.to_string_lossy().into_owned()))
                .ok_or_else(|| self.error(entry, "this source needs a `name`: { path = …, name = … }"))?,
        };
        Ok(SourceConfig { path, name, read_only })
    }

    fn sources(&self, entries: &Spanned<Vec<Spanned<SourceEntry>>>) -> Result<Vec<SourceConfig>, ConfigError> {
        let mut sources: Vec<SourceConfig> = Vec::new();
        for entry in entries.get_ref() {
            let source = self.source(entry)?;
            if sources.iter().any(|known| known.name == source.name) {
                let problem =
                    format!("two sources are named {:?}; give one another: {{ path = …, name = … }}", source.name);
                return Err(self.error(entry, problem));
            }
            sources.push(source);
        }
        if sources.is_empty() {
            return Err(self.error(entries, "a view needs at least one source"));
        }
        Ok(sources)
    }

    fn view(&self, name: &Spanned<String>, table: ViewTable) -> Result<ViewConfig, ConfigError> {
        if EntryName::new(name.get_ref().as_bytes()).is_err() || name.get_ref().contains(char::is_control) {
            return Err(self.error(name, "a view's name is a word without slashes"));
        }
        let alias = match table.alias {
            None => vec![super::ALIAS.to_owned()],
            Some(alias) => {
                if let Some(bad) = alias.get_ref().0.iter().find(|path| !path.starts_with('/')) {
                    return Err(self.error(&alias, format!("an alias is an absolute path, and {bad:?} is none")));
                }
                alias.into_inner().0
            }
        };
        let tools = match &table.tools {
            None => "native".to_owned(),
            Some(tools) => profile(tools.get_ref()).map_err(|why| self.error(tools, why))?,
        };
        Ok(ViewConfig {
            name: name.get_ref().clone(),
            mountpoint: table.mountpoint.as_ref().map(|at| self.path(at)).transpose()?,
            sources: self.sources(&table.sources)?,
            tools,
            alias,
            policy: self.policy(table.policy)?,
            socket: table.socket.as_ref().map(|at| self.path(at)).transpose()?,
            policy_file: Some(PolicyFile::Config(self.path.to_owned())),
            ..ViewConfig::default()
        })
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|error| ConfigError { place: path.display().to_string(), problem: format!("cannot be read: {error}") })
}

/// Reads a config file.
///
/// # Errors
/// The first mistake, with its place.
pub fn load_config(path: &Path) -> Result<Config, ConfigError> {
    parse_config(path, &read(path)?)
}

/// Reads a config file's text; `path` is what it is called in messages.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_config(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let source = Source { path, text };
    let table: FileTable = source.parse()?;
    let relaxed = match &table.store.durability {
        None => false,
        Some(word) => match word.get_ref().as_str() {
            "strict" => false,
            "relaxed" => true,
            other => return Err(source.error(word, format!("durability is \"strict\" or \"relaxed\", not {other:?}"))),
        },
    };
    let keep = source.keep(&table.store)?;
    let views = table.view.into_iter().map(|(name, view)| source.view(&name, view)).collect::<Result<Vec<_>, _>>()?;
    if views.is_empty() {
        let problem = "it has no [view.NAME]; a file of policy keys alone goes with --policy".into();
        return Err(ConfigError { place: path.display().to_string(), problem });
    }
    Ok(Config { views, store: StoreConfig { relaxed, keep } })
}

/// Reads a file of the policy keys alone.
///
/// # Errors
/// The first mistake, with its place.
pub fn load_policy(path: &Path) -> Result<PolicyConfig, ConfigError> {
    parse_policy(path, &read(path)?)
}

/// Reads the text of a file of policy keys; `path` is what it is called in messages.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_policy(path: &Path, text: &str) -> Result<PolicyConfig, ConfigError> {
    let source = Source { path, text };
    source.policy(source.parse()?)
}

#[cfg(test)]
mod tests;
