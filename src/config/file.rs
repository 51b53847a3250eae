//! TOML files: views and policies, with the line of each mistake.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use toml::Spanned;

use super::{
    Config, ConfigError, PatternConfig, PolicyConfig, PolicyFile, SourceConfig, StoreConfig, ViewConfig, expand,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    #[serde(default)]
    view: BTreeMap<String, ViewTable>,
    #[serde(default)]
    store: StoreTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewTable {
    mountpoint: Option<Spanned<String>>,
    sources: Spanned<Vec<Spanned<SourceTable>>>,
    tools: Option<Spanned<String>>,
    alias: Option<Aliases>,
    socket: Option<Spanned<String>>,
    #[serde(default)]
    policy: PolicyTable,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Aliases {
    One(String),
    Many(Vec<String>),
}

/// Spans do not survive in an enum of this kind, so the whole entry has one.
#[derive(Deserialize)]
#[serde(untagged)]
enum SourceTable {
    Path(String),
    Table(SourceFields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFields {
    path: String,
    name: Option<String>,
    access: Option<String>,
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
    features: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct StoreTable {
    durability: Option<Spanned<String>>,
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, offset: usize) -> String {
        let line = self.text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1);
        format!("{}:{line}", self.path.display())
    }

    fn error<T>(&self, at: &Spanned<T>, problem: impl Into<String>) -> ConfigError {
        ConfigError { place: self.place(at.span().start), problem: problem.into() }
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| {
            let place = error.span().map_or_else(|| self.path.display().to_string(), |span| self.place(span.start));
            ConfigError { place, problem: error.message().replace('\n', " ") }
        })
    }

    fn patterns(&self, list: Vec<Spanned<String>>) -> Vec<PatternConfig> {
        list.into_iter()
            .map(|pattern| PatternConfig { origin: self.place(pattern.span().start), text: pattern.into_inner() })
            .collect()
    }

    fn policy(&self, table: PolicyTable) -> Result<PolicyConfig, ConfigError> {
        let features = match table.features {
            None => PolicyConfig::default().features,
            Some(list) => {
                let mut features = Vec::new();
                for feature in list {
                    if !["read", "search", "write"].contains(&feature.get_ref().as_str()) {
                        let problem =
                            format!("{:?} is no feature; there are read, search and write", feature.get_ref());
                        return Err(self.error(&feature, problem));
                    }
                    features.push(feature.into_inner());
                }
                features
            }
        };
        Ok(PolicyConfig {
            allow: table.allow.map(|list| self.patterns(list)),
            deny: self.patterns(table.deny),
            read_only: self.patterns(table.read_only),
            unversioned: self.patterns(table.unversioned),
            require_hash: table.require_hash,
            features,
        })
    }

    fn path_of(&self, text: &Spanned<String>) -> Result<std::path::PathBuf, ConfigError> {
        expand(text.get_ref(), |name| std::env::var(name).ok()).map_err(|problem| self.error(text, problem))
    }

    fn view(&self, name: String, table: ViewTable) -> Result<ViewConfig, ConfigError> {
        let mut sources: Vec<SourceConfig> = Vec::new();
        if table.sources.get_ref().is_empty() {
            return Err(self.error(&table.sources, "a view needs at least one source"));
        }
        for source in table.sources.into_inner() {
            let (text, name, read_only) = match source.get_ref() {
                SourceTable::Path(path) => (path, None, false),
                SourceTable::Table(fields) => {
                    let read_only = match fields.access.as_deref() {
                        None | Some("write") => false,
                        Some("read") => true,
                        Some(other) => {
                            return Err(self.error(&source, format!("access is \"read\" or \"write\", not {other:?}")));
                        }
                    };
                    (&fields.path, fields.name.clone(), read_only)
                }
            };
            let at = expand(text, |name| std::env::var(name).ok()).map_err(|problem| self.error(&source, problem))?;
            let name = match name.or_else(|| at.file_name().map(|name| name.to_string_lossy().into_owned())) {
                Some(name) => name,
                None => return Err(self.error(&source, "give this source a name")),
            };
            if sources.iter().any(|known| known.name == name) {
                return Err(self.error(&source, format!("two sources are named {name:?}; give one of them a `name`")));
            }
            let path = at;
            sources.push(SourceConfig { path, name, read_only });
        }
        let tools = match &table.tools {
            None => "native".to_owned(),
            Some(tools) if tools.get_ref() == "native" => "native".to_owned(),
            Some(tools) => {
                return Err(self.error(tools, format!("no tool profile {:?}; there is \"native\"", tools.get_ref())));
            }
        };
        Ok(ViewConfig {
            name,
            mountpoint: table.mountpoint.as_ref().map(|at| self.path_of(at)).transpose()?,
            sources,
            tools,
            alias: match table.alias {
                None => vec!["/workspace".into()],
                Some(Aliases::One(alias)) => vec![alias],
                Some(Aliases::Many(aliases)) => aliases,
            },
            policy: self.policy(table.policy)?,
            mount: super::MountFlags::default(),
            socket: table.socket.as_ref().map(|at| self.path_of(at)).transpose()?,
            policy_file: Some(PolicyFile::Config(self.path.to_owned())),
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
/// The first mistake, with its line.
pub fn load_config(path: &Path) -> Result<Config, ConfigError> {
    let text = read(path)?;
    let source = Source { path, text: &text };
    let table: FileTable = source.parse()?;
    let relaxed = match &table.store.durability {
        None => false,
        Some(word) => match word.get_ref().as_str() {
            "strict" => false,
            "relaxed" => true,
            other => return Err(source.error(word, format!("durability is \"strict\" or \"relaxed\", not {other:?}"))),
        },
    };
    let mut views = Vec::new();
    for (name, view) in table.view {
        views.push(source.view(name, view)?);
    }
    if views.is_empty() {
        return Err(ConfigError { place: path.display().to_string(), problem: "it has no [view.NAME]".into() });
    }
    Ok(Config { views, store: StoreConfig { relaxed } })
}

/// Reads a file of the policy keys alone.
///
/// # Errors
/// The first mistake, with its line.
pub fn load_policy(path: &Path) -> Result<PolicyConfig, ConfigError> {
    let text = read(path)?;
    let source = Source { path, text: &text };
    source.policy(source.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).expect("written");
        load_config(&path).map_err(|error| error.to_string().replace(&*dir.path().to_string_lossy(), ""))
    }

    #[test]
    fn a_whole_config_is_read() {
        let config = load(
            "[view.agent]\nmountpoint = \"/mnt/agent\"\nsources = [ \"/srv/app\", { path = \"/srv/docs\", name = \"d\", access = \"read\" } ]\n\
             [view.agent.policy]\ndeny = [\".env*\"]\nrequire_hash = true\nfeatures = [\"read\"]\n[store]\ndurability = \"relaxed\"\n",
        )
        .expect("a good config");
        let view = &config.views[0];
        assert_eq!((view.sources.len(), view.sources[1].read_only, view.sources[0].name.as_str()), (2, true, "app"));
        assert!(view.policy.deny[0].origin.ends_with("/c.toml:5"));
        assert!(config.store.relaxed && view.policy.require_hash);
        assert_eq!(view.alias, ["/workspace"]);
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let check = |text: &str, line: &str, word: &str| {
            let error = load(text).expect_err(text);
            assert!(error.starts_with(line) && error.contains(word), "{text}: {error}");
        };
        check("[view.a]\nsources = [\"/x\"]\nmountpiont = \"/y\"\n", "/c.toml:3", "mountpiont");
        check("[view.a]\nsources = []\n", "/c.toml:2", "at least one");
        check("[view.a]\nsources = [\"/x/a\", \"/y/a\"]\n", "/c.toml:2", "named");
        check("[view.a]\nsources = [\"/x\"]\n[view.a.policy]\nfeatures = [\"fly\"]\n", "/c.toml:4", "fly");
        check("[view.a]\nsources = [\"/x\"]\n[store]\ndurability = \"most\"\n", "/c.toml:4", "strict");
        check("[view.a]\nsources = [\"/x\"]\n[view.a.policy]\nask = [\"delete\"]\n", "/c.toml:4", "ask");
        check("", "/c.toml", "no [view");
    }
}
