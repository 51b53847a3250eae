//! A mount of the real command over a fresh source, in a folder of its own, gone when dropped.

use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use serde_json::Value;
use tempfile::TempDir;

use super::{Client, Shell, take_away};

/// What shall be mounted, and how.
pub struct Setup {
    dir: TempDir,
    source: PathBuf,
    mountpoint: PathBuf,
    store: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A running mount.
pub struct Mounted {
    setup: Setup,
    answer: Value,
    daemon: Option<Daemon>,
}

/// The daemon's process, by a descriptor, so that no other can be meant.
struct Daemon {
    pid: Pid,
    fd: std::os::fd::OwnedFd,
}

impl Daemon {
    fn gone_within(&self, seconds: i64) -> bool {
        let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&limit)) == Ok(1)
    }

    fn kill(&self) {
        if !self.gone_within(0) {
            kill_process(self.pid, Signal::KILL).unwrap();
            assert!(self.gone_within(20), "the daemon {:?} does not die", self.pid);
        }
    }
}

impl Setup {
    /// An empty source.
    pub fn new() -> Setup {
        let dir = tempfile::Builder::new().prefix("wardfs-it-").tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["source", "mnt", "home", "run"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(at("run"), PermissionsExt::from_mode(0o700)).unwrap();
        Setup {
            source: at("source"),
            mountpoint: at("mnt"),
            store: at("store"),
            arguments: Vec::new(),
            environment: Vec::new(),
            dir,
        }
    }

    /// More arguments for `wardfs mount`.
    pub fn with(mut self, arguments: &[&str]) -> Setup {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// What the daemon finds in its environment, from the next start on, beside the usual.
    pub fn set_environment(&mut self, variables: &[(&str, &str)]) {
        self.environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }

    /// A policy: the keys of `[policy]`, in TOML.
    pub fn policy(self, text: &str) -> Setup {
        let path = self.policy_file();
        std::fs::write(&path, text).unwrap();
        self.with(&["--policy", path.to_str().unwrap()])
    }

    /// Where the policy stands.
    pub fn policy_file(&self) -> PathBuf {
        self.dir.path().join("policy.toml")
    }

    /// Another mountpoint than the one beside the source.
    pub fn mountpoint(mut self, path: PathBuf) -> Setup {
        self.mountpoint = path;
        self
    }

    /// Another store than the one beside the source.
    pub fn store(mut self, path: PathBuf) -> Setup {
        self.store = path;
        self
    }

    /// Another source than the one in its own folder.
    pub fn source_at(mut self, path: PathBuf) -> Setup {
        self.source = path;
        self
    }

    /// The source.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The folder that holds everything.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a file into the source, with the folders above it.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Setup {
        let path = self.source.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// The command, with a home and a state of its own.
    pub fn wardfs(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardfs"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WARDFS_")) {
            command.env_remove(name);
        }
        let at = |name: &str| self.dir.path().join(name);
        command
            .env("HOME", at("home"))
            .env("XDG_STATE_HOME", at("home/state"))
            .env("XDG_CONFIG_HOME", at("home/config"))
            .env("XDG_RUNTIME_DIR", at("run"))
            .current_dir(self.dir.path());
        command
    }

    /// `wardfs mount` with everything that was asked for, not yet run.
    pub fn mount_command(&self) -> Command {
        let mut command = self.wardfs();
        command.args(["mount", "--json", "--store"]).arg(&self.store).args(&self.arguments);
        command.arg(&self.source).arg(&self.mountpoint);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The store.
    pub fn store_path(&self) -> &Path {
        &self.store
    }

    /// Mounts, or gives what the command said when it refused.
    pub fn mount_or_refusal(self) -> Result<Mounted, String> {
        let mut mounted = Mounted { setup: self, answer: Value::Null, daemon: None };
        mounted.try_mount()?;
        Ok(mounted)
    }

    /// Mounts. `None`, said aloud, where the mount's tests are left out on purpose.
    #[track_caller]
    pub fn mount(self) -> Option<Mounted> {
        if left_out() {
            return None;
        }
        let mut mounted = Mounted { setup: self, answer: Value::Null, daemon: None };
        mounted.mount_again();
        Some(mounted)
    }
}

/// True, said aloud, if the environment asks to leave the mount's tests out.
pub fn left_out() -> bool {
    let out = std::env::var_os("WARDFS_TEST_NO_FUSE").is_some_and(|value| !value.is_empty());
    if out {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        // Past the harness's capture, so that it is seen.
        let _ = writeln!(std::io::stderr(), "LEFT OUT, since WARDFS_TEST_NO_FUSE is set: {name}");
    }
    out
}

impl Mounted {
    /// A mount of an empty source.
    #[track_caller]
    pub fn new() -> Option<Mounted> {
        Setup::new().mount()
    }

    /// Mounts the same again, after an unmount or a kill.
    #[track_caller]
    pub fn mount_again(&mut self) {
        if let Err(said) = self.try_mount() {
            panic!("{:?}: {said}", self.setup.mount_command());
        }
    }

    /// As `set_environment` of its setup.
    pub fn set_environment(&mut self, variables: &[(&str, &str)]) {
        self.setup.set_environment(variables);
    }

    /// Mounts the same again, or gives what the command said when it did not.
    pub fn try_mount(&mut self) -> Result<(), String> {
        // The daemon may keep our pipes open, so what it says is read from files.
        let (out, err) = (self.setup.dir.path().join("mount.out"), self.setup.dir.path().join("mount.err"));
        let mut command = self.setup.mount_command();
        command
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(&err).unwrap());
        let status = command.status().unwrap();
        let said = std::fs::read_to_string(&out).unwrap();
        if !status.success() {
            return Err(format!("{status}: {said}{}", std::fs::read_to_string(&err).unwrap()));
        }
        self.answer = serde_json::from_str(&said).unwrap_or_else(|error| panic!("no JSON: {error}: {said}"));
        let pid = self.answer["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.unwrap_or_else(|| panic!("no pid in {said}"));
        self.daemon = Some(Daemon { pid, fd: pidfd_open(pid, PidfdFlags::empty()).unwrap() });
        Ok(())
    }

    /// The mountpoint.
    pub fn path(&self) -> &Path {
        &self.setup.mountpoint
    }

    /// A path in the mount.
    pub fn at(&self, path: &str) -> PathBuf {
        self.setup.mountpoint.join(path)
    }

    /// The source.
    pub fn source(&self) -> &Path {
        &self.setup.source
    }

    /// What it was made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A path in the source.
    pub fn beside(&self, path: &str) -> PathBuf {
        self.setup.source.join(path)
    }

    /// What `mount --json` said.
    pub fn answer(&self) -> &Value {
        &self.answer
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        PathBuf::from(self.answer["socket"].as_str().unwrap_or_else(|| panic!("no socket in {}", self.answer)))
    }

    /// The admin socket of its daemon.
    pub fn admin_socket(&self) -> PathBuf {
        PathBuf::from(self.answer["admin_socket"].as_str().unwrap_or_else(|| panic!("none in {}", self.answer)))
    }

    /// A new connection to the socket.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// The command, which finds this daemon.
    pub fn wardfs(&self) -> Command {
        let mut command = self.setup.wardfs();
        command.env("WARDFS_SOCKET", self.socket());
        command
    }

    /// What `status --json` says of this daemon.
    pub fn status(&self) -> Value {
        let answer = self.setup.wardfs().args(["status", "--json"]).output().unwrap();
        let all: Value = serde_json::from_slice(&answer.stdout).unwrap();
        all["daemons"][0].clone()
    }

    /// The daemon's process.
    pub fn pid(&self) -> Pid {
        self.daemon.as_ref().unwrap().pid
    }

    /// True if the daemon ends within so many seconds.
    pub fn gone_within(&self, seconds: i64) -> bool {
        self.daemon.as_ref().unwrap().gone_within(seconds)
    }

    /// `kill -9`, and waits until it is gone. The dead mount stays.
    pub fn kill(&self) {
        self.daemon.as_ref().unwrap().kill();
    }

    /// `wardfs umount`.
    pub fn umount(&self) -> Shell {
        Shell::of(self.setup.wardfs().arg("umount").arg(&self.setup.mountpoint))
    }

    /// True if something is mounted at the mountpoint.
    pub fn is_mounted(&self) -> bool {
        self.mountinfo().is_some()
    }

    /// The mountpoint's line of mountinfo.
    pub fn mountinfo(&self) -> Option<String> {
        let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let wanted = format!(" {} ", self.setup.mountpoint.display());
        all.lines().find(|line| line.contains(&wanted)).map(str::to_owned)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted() {
            let child = self.setup.wardfs().arg("umount").arg(&self.setup.mountpoint).stdin(Stdio::null()).spawn();
            if let Ok(mut child) = child {
                let start = std::time::Instant::now();
                while child.try_wait().ok().flatten().is_none() && start.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        while self.is_mounted() && take_away(&self.setup.mountpoint) {}
        if let Some(daemon) = &self.daemon
            && !daemon.gone_within(5)
        {
            daemon.kill();
        }
    }
}
