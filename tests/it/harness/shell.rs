//! Programs as a person runs them: in a folder, with what they said.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::mount::{UnmountFlags, unmount};

/// What a command came to.
#[derive(Debug)]
pub struct Shell {
    /// Exit status; 128 and more for a signal.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A command for bash in `dir`, with a neutral environment.
fn bash(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("set -euo pipefail; {script}")).current_dir(dir);
    neutral(&mut command);
    command
}

fn neutral(command: &mut Command) {
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "TMPDIR"] {
        command.env_remove(name);
    }
    for (name, value) in [
        ("LC_ALL", "C.UTF-8"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.invalid"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.invalid"),
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
        ("GIT_CONFIG_KEY_1", "init.defaultBranch"),
        ("GIT_CONFIG_VALUE_1", "main"),
    ] {
        command.env(name, value);
    }
}

impl Shell {
    /// Runs `command` to its end.
    pub fn of(command: &mut Command) -> Shell {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap_or_default();
        Shell {
            status: output.status.code().unwrap_or(128 + signal),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Its output, if it succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.status, 0, "failed: {self:#?}");
        self.out
    }

    /// Its error output, if it failed.
    #[track_caller]
    pub fn fails(self) -> String {
        assert_ne!(self.status, 0, "should have failed: {self:#?}");
        self.err
    }
}

/// A script in `dir`, which stops at its first failure.
pub fn sh(dir: &Path, script: &str) -> Shell {
    Shell::of(&mut bash(dir, script))
}

/// A script in `dir` that runs beside the test.
pub fn as_child(dir: &Path, script: &str) -> Child {
    bash(dir, script).spawn().unwrap()
}

/// A program that watches `dir` by inotify: says `ready`, then a line for each event (`modify NAME`); ends by itself.
pub fn watcher(dir: &Path) -> Child {
    let script = "
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None); fd = libc.inotify_init(); libc.inotify_add_watch(fd, sys.argv[1].encode(), 0xfff)
names = {1: 'access', 2: 'modify', 4: 'attrib', 8: 'close_write', 16: 'close', 32: 'open', 64: 'moved_from', 128: 'moved_to', 256: 'create', 512: 'delete'}
print('ready', flush=True)
while select.select([fd], [], [], 10)[0]:
    data = os.read(fd, 65536)
    while data:
        wd, mask, cookie, length = struct.unpack('iIII', data[:16])
        print(names.get(mask & 0xfff, 'other'), data[16:16 + length].rstrip(b'\\0').decode(), flush=True); data = data[16 + length:]
";
    Command::new("python3").args(["-c", script]).arg(dir).stdout(Stdio::piped()).spawn().unwrap()
}

/// The same as user and group `id`, with no other groups and no capability.
pub fn sh_as(id: u32, dir: &Path, script: &str) -> Shell {
    let mut command = as_user(id, "bash");
    command.arg("-c").arg(format!("set -euo pipefail; {script}")).current_dir(dir);
    neutral(&mut command);
    Shell::of(&mut command)
}

/// `program` as user and group `id`. Only root can do that, so such a test fails for others.
pub fn as_user(id: u32, program: impl AsRef<OsStr>) -> Command {
    assert!(rustix::process::geteuid().is_root(), "only root can act as another user: run this test as root");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id.to_string(), "--regid", &id.to_string(), "--clear-groups", "--"]).arg(program);
    command
}

/// Fails, with what to do, unless a program is there.
pub fn program(name: &str) {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
    assert!(found.status.success(), "`{name}` is not installed: scripts/test installs what tests need");
}

/// Waits until `done`; fails after ten seconds.
#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True if the tests may act as other users and mount by themselves.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whom the tests can give a file to, for `chown`: others as root, nobody but itself as another user.
pub fn some_owner() -> String {
    if is_root() {
        return "1000:2000".to_owned();
    }
    format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Unmounts what is mounted there, as somebody who does not know the daemon. True if it could.
pub fn take_away(mountpoint: &Path) -> bool {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => Command::new("fusermount3")
            .args(["-u", "-z"])
            .arg(mountpoint)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success()),
        done => done.is_ok(),
    }
}
