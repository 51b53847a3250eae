//! What git says of the entries of a listing: asked of the nearest repository above, and of those among the entries, as far
//! as a moment's time goes. Of names that policy hides nothing is told, and a repository of which parts are hidden tells
//! nothing.

use std::{
    collections::{BTreeMap, HashMap},
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Core, Found, View, node::Node, resolve::Follow};
use crate::{
    host::{GitAsk, GitBadge, GitDir},
    types::{EntryName, Kind, Lsn, ViewPath},
};

/// The longest that a listing waits for git.
const TIME: Duration = Duration::from_millis(200);
/// Repositories remembered, and answers of each.
const REMEMBERED_MAX: usize = 32;
/// References that lead to another, at most.
const REFERENCES_MAX: usize = 5;
/// Settings of a repository that say how contents are compared; no other is taken over.
const SETTINGS: [&str; 6] = ["autocrlf", "eol", "filemode", "symlinks", "ignorecase", "trustctime"];

/// What is remembered of repositories, by their roots.
#[derive(Default)]
pub(crate) struct Repositories(Mutex<HashMap<ViewPath, Repository>>);

struct Repository {
    dir: GitDir,
    answers: HashMap<ViewPath, (Moment, Arc<States>)>,
}

/// What would show that anything changed since.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    recorded: Lsn,
    reports: u64,
}

/// What git says of paths below a repository's root; of a directory that holds nothing known, with one word for all of it.
type States = BTreeMap<ViewPath, GitBadge>;

/// A repository with what it said.
struct Answered {
    root: ViewPath,
    states: Arc<States>,
}

impl View {
    /// What git says of `entries`, which are all below `start`. Of a directory: what it says of anything in it.
    pub fn git_badges(&self, start: &ViewPath, entries: &[(ViewPath, Kind)]) -> Vec<Option<GitBadge>> {
        let until = Instant::now() + TIME;
        let mut answered = Vec::new();
        if let Some(root) = self.repository_above(start) {
            answered.extend(self.ask_git(&root, start, until));
        }
        for (path, _) in entries.iter().filter(|(_, kind)| *kind == Kind::Dir) {
            if Instant::now() < until && self.is_repository(path) {
                answered.extend(self.ask_git(path, path, until));
            }
        }
        entries.iter().map(|(path, kind)| badge(&answered, path, *kind == Kind::Dir)).collect()
    }

    fn repository_above(&self, start: &ViewPath) -> Option<ViewPath> {
        let mut at = Some(start.clone());
        while let Some(dir) = at {
            if self.is_repository(&dir) {
                return Some(dir);
            }
            at = dir.parent().filter(|_| !dir.is_root());
        }
        None
    }

    fn is_repository(&self, dir: &ViewPath) -> bool {
        self.find(&dir.join_path(&in_git(b"")), Follow::No).is_ok_and(|found| found.attr.kind == Kind::Dir)
    }

    fn ask_git(&self, root: &ViewPath, start: &ViewPath, until: Instant) -> Option<Answered> {
        let scope = start.strip_prefix(root)?;
        let now = self.core.moment();
        let mut all = self.repositories.0.try_lock_until(until)?;
        if let (Some(now), Some((moment, states))) = (now, all.get(root).and_then(|known| known.answers.get(&scope)))
            && *moment == now
        {
            return Some(Answered { root: root.clone(), states: Arc::clone(states) });
        }
        let tree = self.find(root, Follow::No).ok()?;
        let head = self.git_head(root)?;
        // What is hidden of it would be given away by what git says.
        for name in [&b"index"[..], b"objects"] {
            self.class(&root.join_path(&in_git(name)), name == b"objects")?;
        }
        if all.len() >= REMEMBERED_MAX && !all.contains_key(root) {
            all.clear();
        }
        let repository = match all.entry(root.clone()) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let dir = GitDir::new(&self.core.store.path().join("tmp"))?;
                new.insert(Repository { dir, answers: HashMap::new() })
            }
        };
        let fd = tree.node.file.host.path_fd().ok()?;
        let said = repository.dir.status(&GitAsk {
            tree: fd.as_fd(),
            path: &tree.node.file.host.path_hint().ok()?,
            head: head.as_deref(),
            settings: &self.git_settings(&tree),
            scope: scope.as_bytes(),
            every_file: !self.policy().is_uniform(),
            until,
        })?;
        let states = Arc::new(self.shown_states(root, said));
        if repository.answers.len() >= REMEMBERED_MAX {
            repository.answers.clear();
        }
        if let Some(moment) = now {
            repository.answers.insert(scope, (moment, Arc::clone(&states)));
        }
        Some(Answered { root: root.clone(), states })
    }

    fn shown_states(&self, root: &ViewPath, said: BTreeMap<Vec<u8>, GitBadge>) -> States {
        let shown = |(path, badge): (Vec<u8>, GitBadge)| {
            let is_dir = path.last() == Some(&b'/');
            let path = ViewPath::parse(path.strip_suffix(b"/").unwrap_or(&path)).ok()?;
            self.class(&root.join_path(&path), is_dir).map(|_| (path, badge))
        };
        said.into_iter().filter_map(shown).collect()
    }

    /// The commit that HEAD leads to; none before the first. `None` if that cannot be told.
    fn git_head(&self, root: &ViewPath) -> Option<Option<Vec<u8>>> {
        let read = |name: &[u8]| self.read_in_git(root, name);
        if self.find(&root.join_path(&in_git(b"reftable")), Follow::No).is_ok() {
            return None;
        }
        let mut reference = read(b"HEAD")?;
        for _ in 0..REFERENCES_MAX {
            let text = reference.trim_ascii();
            let Some(name) = text.strip_prefix(b"ref:") else { return is_commit(text).then(|| Some(text.to_vec())) };
            let name = name.trim_ascii().to_vec();
            reference = match read(&name) {
                Some(next) => next,
                None => match packed(&read(b"packed-refs").unwrap_or_default(), &name) {
                    Some(commit) => commit,
                    None => return Some(None),
                },
            };
        }
        None
    }

    fn git_settings(&self, tree: &Found) -> Vec<(String, String)> {
        let text = self.read_in_git(&tree.path, b"config").unwrap_or_default();
        settings(&String::from_utf8_lossy(&text))
    }

    /// A small file in `.git`; none if it is missing or hidden.
    fn read_in_git(&self, root: &ViewPath, name: &[u8]) -> Option<Vec<u8>> {
        let path = root.join_path(&ViewPath::parse(name).ok().map(|below| in_git(b"").join_path(&below))?);
        let found = self.find(&path, Follow::No).ok()?;
        let dir: Arc<Node> = self.find(&path.parent()?, Follow::No).ok()?.node;
        let name: EntryName = found.path.file_name()?;
        self.read_small(&dir, &name)
    }
}

impl Core {
    /// As long as it is the same, nothing changed; `None` where that is not known.
    fn moment(&self) -> Option<Moment> {
        self.catch_up();
        let views = self.views();
        let watched = views.iter().flat_map(|view| view.sources()).all(|source| source.fs.is_watched());
        let quiet = views.iter().all(|view| !view.handles.any_writes());
        let reports = self.outside_stats().reports;
        (watched && quiet).then(|| Moment { recorded: self.recorded_up_to(), reports })
    }
}

/// `.git` and a name in it.
fn in_git(name: &[u8]) -> ViewPath {
    let text = if name.is_empty() { b".git".to_vec() } else { [b".git/", name].concat() };
    ViewPath::parse(&text).unwrap_or_default()
}

fn is_commit(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

/// A reference among the packed ones.
fn packed(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let (commit, rest) = line.split_at_checked(line.iter().position(|byte| *byte == b' ')?)?;
        (rest.trim_ascii() == name && is_commit(commit)).then(|| commit.to_vec())
    })
}

/// The settings that are taken over from a repository's configuration.
fn settings(config: &str) -> Vec<(String, String)> {
    let mut in_core = false;
    let mut found = Vec::new();
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            in_core = line.eq_ignore_ascii_case("[core]");
        } else if in_core && let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if SETTINGS.contains(&key.as_str()) && is_word {
                found.push((format!("core.{key}"), value.to_owned()));
            }
        }
    }
    found
}

/// What the nearest repository says of a path, or of what is in it.
fn badge(answered: &[Answered], path: &ViewPath, is_dir: bool) -> Option<GitBadge> {
    let near = answered.iter().filter(|one| path.starts_with(&one.root)).max_by_key(|one| one.root.as_bytes().len())?;
    let below = path.strip_prefix(&near.root)?;
    let mut at = Some(below.clone());
    while let Some(here) = at.filter(|here| !here.is_root()) {
        match near.states.get(&here) {
            Some(badge) if here == below => return Some(*badge),
            Some(GitBadge::Untracked) => return Some(GitBadge::Untracked),
            Some(_) | None => at = here.parent(),
        }
    }
    if !is_dir {
        return None;
    }
    let inside = near.states.range(below.first_below()..).take_while(|(path, _)| path.starts_with(&below));
    let mut inside = inside.map(|(_, badge)| *badge);
    let first = inside.next()?;
    Some(if first == GitBadge::Untracked && inside.all(|badge| badge == first) { first } else { GitBadge::Modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_nearest_repository_speaks_of_a_path_and_of_what_is_in_it() {
        use GitBadge::{Added, Deleted, Modified, Untracked};
        let states = |list: &[(&str, GitBadge)]| Arc::new(list.iter().map(|(at, badge)| (path(at), *badge)).collect());
        let outer =
            states(&[("a", Modified), ("new", Untracked), ("d/x", Untracked), ("e/gone", Deleted), ("a.b/c", Added)]);
        let inner = states(&[("x", Added)]);
        let answered =
            [Answered { root: path(""), states: outer }, Answered { root: path("new/inner"), states: inner }];
        for (at, is_dir, expected) in [
            ("a", false, Some(Modified)),
            ("b", false, None),
            ("new", true, Some(Untracked)),
            ("new/file", false, Some(Untracked)),
            ("d", true, Some(Untracked)),
            ("e", true, Some(Modified)),
            ("f", true, None),
            ("new/inner", true, Some(Modified)),
            ("new/inner/x", false, Some(Added)),
            ("new/inner/y", false, None),
        ] {
            assert_eq!(badge(&answered, &path(at), is_dir), expected, "{at}");
        }
    }

    #[test]
    fn only_what_compares_contents_is_taken_from_a_configuration() {
        let text =
            "[core]\n\tautocrlf = input\n\tfsmonitor = /tmp/evil\n\tfileMode=false\n[filter \"x\"]\n\teol = lf\n";
        let expected = [("core.autocrlf", "input"), ("core.filemode", "false")];
        let expected: Vec<_> = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn a_packed_reference_is_found() {
        let commit = "0123456789012345678901234567890123456789";
        let text =
            format!("# pack-refs with: peeled\n{commit} refs/heads/main2\n{commit} refs/heads/main\n^{commit}\n");
        assert_eq!(packed(text.as_bytes(), b"refs/heads/main").as_deref(), Some(commit.as_bytes()));
        assert_eq!(packed(text.as_bytes(), b"refs/heads/other"), None);
    }
}
