//! Policies: how a view's is compiled, and how it is read again while the view is served.

use std::{
    ffi::OsString,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags};

use super::{Result, RunError, daemon::Daemon, serving};
use crate::{
    config::{PatternConfig, PolicyConfig, PolicyFile, ViewConfig, parse_config, parse_policy, reapply_options},
    policy::Policy,
};

/// The file that a view's policy comes from.
pub(super) struct PolicyReader {
    file: PolicyFile,
    /// Its real path.
    path: PathBuf,
    /// The directory it stands in, opened before anything is mounted over it: no thread of the daemon may go through a mount
    /// of its own.
    dir: OwnedFd,
    name: OsString,
}

impl PolicyReader {
    /// Looks where the file is.
    ///
    /// # Errors
    /// The host's.
    pub fn open(file: &PolicyFile) -> Result<PolicyReader> {
        let (PolicyFile::Config(given) | PolicyFile::Policy(given)) = file;
        let failed = |error: std::io::Error| RunError::on(given.display(), error);
        let path = std::fs::canonicalize(given).map_err(failed)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(RunError::on(given.display(), "is not a file"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, parent, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        Ok(PolicyReader { file: file.clone(), name: name.to_owned(), dir, path })
    }

    /// The file's text; what is mounted at `covered` is not gone through.
    fn text(&self, covered: &[PathBuf]) -> Result<String> {
        let failed = |error: std::io::Error| RunError::on(self.given().display(), error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = if covered.iter().any(|mountpoint| self.path.starts_with(mountpoint)) {
            rustix::fs::openat(self.dir.as_fd(), &self.name, flags, Mode::empty())
        } else {
            rustix::fs::openat(CWD, self.given(), flags, Mode::empty())
        };
        let mut text = String::new();
        let mut file = std::fs::File::from(opened.map_err(|e| failed(e.into()))?);
        file.read_to_string(&mut text).map_err(failed)?;
        Ok(text)
    }

    fn given(&self) -> &Path {
        let (PolicyFile::Config(path) | PolicyFile::Policy(path)) = &self.file;
        path
    }

    /// The policy as the file and the view's options have it now.
    fn read(&self, config: &ViewConfig, covered: &[PathBuf]) -> Result<PolicyConfig> {
        let text = self.text(covered)?;
        let refused = |error: crate::config::ConfigError| RunError(error.to_string());
        let mut policy = match &self.file {
            PolicyFile::Policy(path) => parse_policy(path, &text).map_err(refused)?,
            PolicyFile::Config(path) => {
                let views = parse_config(path, &text).map_err(refused)?.views;
                let found = views.into_iter().find(|view| view.name == config.name);
                let gone = || RunError::on(path.display(), format!("it has no [view.{}] any more", config.name));
                found.ok_or_else(gone)?.policy
            }
        };
        reapply_options(&mut policy, &config.options).map_err(refused)?;
        Ok(policy)
    }
}

/// The policy of a view. The file it came from is not part of what the view shows.
///
/// # Errors
/// A pattern that is not valid.
pub(super) fn compile(config: &ViewConfig, file: Option<&PolicyReader>) -> Result<Policy> {
    let mut policy = config.policy.clone();
    for source in &config.sources {
        let Some(Ok(below)) = file.map(|file| file.path.strip_prefix(&source.path)) else { continue };
        let below = if config.sources.len() > 1 { Path::new(&source.name).join(below) } else { below.to_owned() };
        policy.deny.push(PatternConfig { text: literal(&below), origin: "the policy's own file".into() });
    }
    Policy::compile(&policy.spec(config.mount.read_only)).map_err(|e| RunError(e.to_string()))
}

/// A pattern that means one path and nothing else.
fn literal(path: &Path) -> String {
    let mut pattern = String::from("/");
    for c in path.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

impl Daemon {
    /// Reads the policies of all views again. A view whose policy is wrong keeps the one it has.
    ///
    /// # Errors
    /// What is wrong with which; the others follow their new policies.
    pub fn reload(&self) -> Result<()> {
        let _turn = self.turn.lock();
        let names: Vec<String> = self.state.lock().views.keys().cloned().collect();
        let failed: Vec<String> =
            names.iter().filter_map(|name| self.reload_one(name).err()).map(|error| error.to_string()).collect();
        if failed.is_empty() { Ok(()) } else { Err(RunError(failed.join("; "))) }
    }

    fn reload_one(&self, name: &str) -> Result<()> {
        let covered = self.mountpoints();
        let mut state = self.state.lock();
        let Some(serving) = state.views.get_mut(name) else { return Ok(()) };
        let Some(reader) = &serving.policy else { return Ok(()) };
        let read = reader.read(&serving.config, &covered).and_then(|policy| {
            let config = ViewConfig { policy, ..serving.config.clone() };
            let compiled = compile(&config, Some(reader))?;
            Ok((config, compiled))
        });
        let (config, compiled) = match read {
            Ok(read) => read,
            Err(error) => {
                let error = RunError(format!("view {name}: the policy stays as it was: {error}"));
                tracing::error!("{error}");
                serving.refused = Some(error.to_string());
                return Err(error);
            }
        };
        let (old, new) = (&serving.config.policy, &config.policy);
        let other_tools = (&old.features, old.require_hash) != (&new.features, new.require_hash);
        let review = config.policy.review;
        serving.config = config;
        serving.refused = None;
        let view = std::sync::Arc::clone(&serving.view);
        let ended = if other_tools { serving.serve_anew().map(Some) } else { Ok(None) };
        drop(state);
        // What is no longer allowed is refused before anybody is told that it is so.
        view.set_policy(compiled);
        let reviewed = view.set_review(review).map_err(|e| RunError::on(name, e));
        if let Some(server) = ended? {
            serving::end(server);
        }
        reviewed?;
        tracing::info!(view = %name, "the policy was read again");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Config, SourceConfig, apply_options},
        types::ViewPath,
    };

    fn hides(policy: &Policy, path: &str) -> bool {
        policy.class(&ViewPath::parse(path.as_bytes()).expect("a path"), false).is_none()
    }

    #[test]
    fn options_outlive_a_reload_and_the_file_itself_is_hidden() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("po[l]icy.toml");
        std::fs::write(&file, "deny = [\"a\"]\n").expect("written");
        let source =
            SourceConfig { path: dir.path().canonicalize().expect("real"), name: "s".into(), read_only: false };
        let mut all = Config { views: vec![ViewConfig::of("v", vec![source])], ..Config::default() };
        apply_options(&mut all, &["deny=b".into()]).expect("good options");
        let mut config = all.views.remove(0);
        let reader = PolicyReader::open(&PolicyFile::Policy(file.clone())).expect("it is there");
        let mut reloaded = || {
            config.policy = reader.read(&config, &[]).expect("a good policy");
            compile(&config, Some(&reader)).expect("good patterns")
        };
        let policy = reloaded();
        let hidden = ["a", "b", "c", "po[l]icy.toml", "policy.toml"].map(|path| hides(&policy, path));
        assert_eq!(hidden, [true, true, false, true, false]);
        // As an editor saves it.
        std::fs::write(dir.path().join("new"), "deny = [\"c\"]\n").expect("written");
        std::fs::rename(dir.path().join("new"), &file).expect("renamed");
        let policy = reloaded();
        assert_eq!(["a", "b", "c"].map(|path| hides(&policy, path)), [false, true, true]);
        // A mount over it is not gone through.
        let covered = [dir.path().canonicalize().expect("real")];
        assert_eq!(reader.text(&covered).expect("by its directory"), "deny = [\"c\"]\n");
    }
}
