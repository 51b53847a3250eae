//! What git says of a working tree: the `git` command asked, read only, for a limited time.
//!
//! A repository's own configuration can name programs that git runs (a file system monitor, filters, hooks), and whoever may
//! write in a view may write that. So git is given a directory of ours in place of `.git`, which leads to the repository's
//! objects and index and holds no such thing; nothing is ever written into the repository, and nothing is fetched.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

/// Bytes of an answer; a longer one is none.
const ANSWER_MAX: usize = 8 << 20;
const CHUNK: usize = 64 << 10;

/// What git says of one path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GitBadge {
    /// Changed, in the index or the working tree; also what a merge left in conflict.
    Modified,
    /// New in the index.
    Added,
    /// Gone from the index or the working tree.
    Deleted,
    /// Under another name in the index.
    Renamed,
    /// Unknown to git.
    Untracked,
}

/// What stands in for a repository's `.git`.
pub struct GitDir {
    dir: TempDir,
    head: Option<Vec<u8>>,
}

/// What to ask.
pub struct GitAsk<'a> {
    /// The root of the working tree, and where the kernel shows it.
    pub tree: BorrowedFd<'a>,
    /// Its path.
    pub path: &'a [u8],
    /// The commit that HEAD leads to, in hex; none before the first.
    pub head: Option<&'a [u8]>,
    /// Settings of the repository that say how contents are compared.
    pub settings: &'a [(String, String)],
    /// Only what is at or below this path.
    pub scope: &'a [u8],
    /// Every file that git does not know, not only the highest directory that holds nothing else.
    pub every_file: bool,
    /// Then it is given up.
    pub until: Instant,
}

impl GitDir {
    /// Makes one in `parent`. None if that fails.
    pub fn new(parent: &Path) -> Option<GitDir> {
        let dir = tempfile::Builder::new().prefix("git-").tempdir_in(parent).ok()?;
        for name in ["refs", "objects"] {
            fs::create_dir(dir.path().join(name)).ok()?;
        }
        Some(GitDir { dir, head: None })
    }

    /// Asks git. None on any trouble: no git, no answer in time, an index that it does not understand.
    pub fn status(&mut self, ask: &GitAsk<'_>) -> Option<BTreeMap<Vec<u8>, GitBadge>> {
        let there = fs::metadata(OsStr::from_bytes(ask.path)).ok()?;
        let meant = super::stat(ask.tree).ok()?;
        // A mount over the directory would answer in its place.
        if (there.dev(), there.ino()) != (meant.dev, meant.ino) {
            return None;
        }
        let head = match ask.head {
            Some(commit) => [commit, b"\n"].concat(),
            None => b"ref: refs/heads/none\n".to_vec(),
        };
        if self.head.as_ref() != Some(&head) {
            let format = if head.len() == 65 {
                "[core]\nrepositoryformatversion=1\n[extensions]\nobjectformat=sha256\n"
            } else {
                "[core]\nrepositoryformatversion=0\n"
            };
            fs::write(self.dir.path().join("config"), format).ok()?;
            fs::write(self.dir.path().join("HEAD"), &head).ok()?;
            self.head = Some(head);
        }
        let mut child = Running(self.command(ask).spawn().ok()?);
        let answer = read(child.0.stdout.take()?, ask.until)?;
        child.0.wait().ok()?.success().then(|| parse(&answer))?
    }

    fn command(&self, ask: &GitAsk<'_>) -> Command {
        let tree = Path::new(OsStr::from_bytes(ask.path));
        let of_git = |name: &str| tree.join(".git").join(name).into_os_string();
        let mut command = Command::new("git");
        command
            .env_clear()
            .current_dir(tree)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("LC_ALL", "C")
            .env("GIT_DIR", self.dir.path())
            .env("GIT_WORK_TREE", tree)
            .env("GIT_OBJECT_DIRECTORY", of_git("objects"))
            .env("GIT_INDEX_FILE", of_git("index"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_LITERAL_PATHSPECS", "1");
        let own: [(&str, OsString); 4] = [
            ("core.excludesFile", of_git("info/exclude")),
            ("core.attributesFile", of_git("info/attributes")),
            ("core.fsmonitor", "false".into()),
            ("core.hooksPath", "/dev/null".into()),
        ];
        let settings = ask.settings.iter().map(|(key, value)| (key.as_str(), OsString::from(value)));
        let mut count = 0;
        for (key, value) in settings.chain(own) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        let untracked = if ask.every_file { "--untracked-files=all" } else { "--untracked-files=normal" };
        command.args(["status", "--porcelain=v2", "-z", "--ignore-submodules=all", untracked, "--"]);
        command.arg(if ask.scope.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(ask.scope) });
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }
}

/// A child that does not outlive its question.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All that comes, if it ends in time.
fn read(from: ChildStdout, until: Instant) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        let limit = Timespec::try_from(left.max(Duration::from_millis(1))).ok()?;
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let start = answer.len();
        answer.resize(start + CHUNK, 0);
        let got = rustix::io::read(from.as_fd(), &mut answer[start..]).ok()?;
        answer.truncate(start + got);
        if got == 0 {
            return Some(answer);
        }
        if answer.len() > ANSWER_MAX {
            return None;
        }
    }
}

/// The lines of `status --porcelain=v2 -z`; none if they are not such lines.
fn parse(answer: &[u8]) -> Option<BTreeMap<Vec<u8>, GitBadge>> {
    let mut badges = BTreeMap::new();
    let mut lines = answer.split(|byte| *byte == 0);
    while let Some(line) = lines.next().filter(|line| !line.is_empty()) {
        // How many fields stand before the path.
        let fields = match line.first()? {
            b'?' => 1,
            b'1' => 8,
            b'2' => 9,
            b'u' => 10,
            b'!' | b'#' => continue,
            _ => return None,
        };
        let path = line.splitn(fields + 1, |byte| *byte == b' ').nth(fields)?;
        let badge = match (line.first()?, line.get(2..4).unwrap_or_default()) {
            (b'?', _) => GitBadge::Untracked,
            (b'u', _) => GitBadge::Modified,
            (b'2', [b'C', _] | [_, b'C']) => GitBadge::Added,
            (b'2', _) => GitBadge::Renamed,
            (_, [b'A', _] | [_, b'A']) => GitBadge::Added,
            (_, [b'D', _] | [_, b'D']) => GitBadge::Deleted,
            (_, _) => GitBadge::Modified,
        };
        if *line.first()? == b'2' {
            // Where it came from.
            lines.next()?;
        }
        // Out of the index and still there: git tells of it twice, and both times that it is no longer its own.
        badges.entry(path.to_vec()).or_insert(badge);
    }
    Some(badges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &[u8], expected: Option<&[(&str, GitBadge)]>) {
        let badges = parse(answer).map(|badges| badges.into_iter().collect::<Vec<_>>());
        let expected = expected.map(|list| list.iter().map(|(path, b)| (path.as_bytes().to_vec(), *b)).collect());
        assert_eq!(badges, expected, "{}", String::from_utf8_lossy(answer));
    }

    #[test]
    fn lines_are_understood() {
        const FIELDS: &str = "N... 100644 100644 100644 1111 2222";
        let one = |xy: &str, path: &str| format!("1 {xy} {FIELDS} {path}\0");
        check(b"", Some(&[]));
        check(one(".M", "a b").as_bytes(), Some(&[("a b", GitBadge::Modified)]));
        check(one("AM", "a").as_bytes(), Some(&[("a", GitBadge::Added)]));
        check((one("D.", "a") + "? a\0").as_bytes(), Some(&[("a", GitBadge::Deleted)]));
        check(b"? dir/\0? x\0", Some(&[("dir/", GitBadge::Untracked), ("x", GitBadge::Untracked)]));
        let moved = format!("2 R. {FIELDS} R100 new name\0old name\0");
        check((moved + "? z\0").as_bytes(), Some(&[("new name", GitBadge::Renamed), ("z", GitBadge::Untracked)]));
        let merged = "u UU N... 100644 100644 100644 100644 1 2 3 a\0";
        check(merged.as_bytes(), Some(&[("a", GitBadge::Modified)]));
        check(b"fatal: nothing\0", None);
        check(b"1 M. short\0", None);
    }
}
