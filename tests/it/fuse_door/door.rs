//! A mounted view over a temporary directory, and the daemon that serves it: this very program, started again for one
//! test. The mount is never touched by the process that serves it.
#![expect(clippy::panic, clippy::print_stdout, reason = "the daemon does as it is told, and speaks to the test")]

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use wardfs::{
    fuse::{self, MountOptions},
    policy::{Pattern, Policy, PolicySpec},
    types::{Actor, Channel, EntryName, ViewPath},
    versions::{Store, StoreOptions},
    view::{Core, Expect, NewContent, Request, Source, SourceSpec, View, ViewSpec, WriteFile},
};

/// How long the kernel believes what it was told: longer than any test, so that only being told helps.
const LONG: Duration = Duration::from_secs(3600);

/// The way of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Past,
    Through,
}

/// A view that is mounted.
pub struct Door {
    dir: TempDir,
    root: PathBuf,
    daemon: Child,
    says: BufReader<ChildStdout>,
    input: Option<ChildStdin>,
    /// As it was asked for; the kernel may not allow it.
    pub past: bool,
}

/// What a daemon shows.
#[derive(Clone, Default)]
pub struct Shows {
    pub deny: &'static [&'static str],
    pub read_only: &'static [&'static str],
    /// Below the source, instead of beside it.
    pub inside: bool,
}

impl Door {
    pub fn open(way: Way) -> Door {
        Door::showing(way, &Shows::default(), |_| {})
    }

    /// With a policy, over what `fill` puts into the source.
    pub fn showing(way: Way, shows: &Shows, fill: impl FnOnce(&Path)) -> Door {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("source")).unwrap();
        let root = mountpoint(dir.path(), shows);
        std::fs::create_dir(&root).unwrap();
        fill(&dir.path().join("source"));
        let (daemon, says, input) = spawn(dir.path(), way, shows);
        let mut door = Door { dir, root, daemon, says, input: Some(input), past: false };
        let ready = door.hear();
        door.past = ready == "ready past";
        assert!(ready.starts_with("ready"), "{ready}");
        door
    }

    /// Another daemon for the same directories, after the first has gone.
    pub fn again(&mut self) {
        let (daemon, says, input) = spawn(self.dir.path(), Way::Past, &Shows::default());
        (self.daemon, self.says, self.input) = (daemon, says, Some(input));
        let ready = self.hear();
        assert!(ready.starts_with("ready"), "{ready}");
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path through the mount.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The same on the host.
    pub fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join("source").join(path)
    }

    /// Asks the daemon for something.
    pub fn ask(&mut self, what: &str) -> String {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{what}").unwrap();
        input.flush().unwrap();
        self.hear()
    }

    /// The next line that the daemon says to us; empty at its end.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.says.read_line(&mut line).unwrap() == 0 {
                return String::new();
            }
            if let Some((_, said)) = line.split_once("door: ") {
                return said.trim_end().to_owned();
            }
        }
    }

    pub fn kill(&mut self) {
        self.daemon.kill().unwrap();
        assert_eq!(self.daemon.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    /// Waits until the daemon has ended by itself. True if it was well.
    pub fn wait(&mut self) -> bool {
        self.input = None;
        self.daemon.wait().unwrap().success()
    }

    /// What the kernel lists at the mountpoint.
    pub fn mounts(&self) -> usize {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = self.dir.path().to_str().unwrap();
        table.lines().filter(|line| line.contains(dir)).count()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.input = None;
        // A daemon that was killed or hangs must not leave a mount behind, whatever the test found.
        if self.daemon.wait().is_err() || self.mounts() > 0 {
            crate::harness::take_away(&self.root);
        }
    }
}

/// Runs `test` with the data past the daemon and through it.
pub fn both_ways(test: impl Fn(&mut Door)) {
    for way in [Way::Past, Way::Through] {
        test(&mut Door::open(way));
    }
}

fn spawn(dir: &Path, way: Way, shows: &Shows) -> (Child, BufReader<ChildStdout>, ChildStdin) {
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fuse_door::door::serve", "--nocapture"])
        .env("WARDFS_DOOR", dir)
        .env("WARDFS_DOOR_MOUNT", mountpoint(dir, shows))
        .env("WARDFS_DOOR_PAST", if way == Way::Past { "yes" } else { "no" })
        .env("WARDFS_DOOR_DENY", shows.deny.join("\n"))
        .env("WARDFS_DOOR_READ_ONLY", shows.read_only.join("\n"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (says, input) = (daemon.stdout.take().unwrap(), daemon.stdin.take().unwrap());
    (daemon, BufReader::new(says), input)
}

fn mountpoint(dir: &Path, shows: &Shows) -> PathBuf {
    dir.join(if shows.inside { "source/mnt" } else { "mnt" })
}

fn patterns(variable: &str) -> Vec<Pattern> {
    let lines = std::env::var(variable).unwrap();
    lines.lines().map(|text| Pattern { text: text.into(), origin: variable.into() }).collect()
}

/// The daemon: not a test, but what the tests of this module start.
#[test]
fn serve() {
    let Some(dir) = std::env::var_os("WARDFS_DOOR").map(PathBuf::from) else { return };
    rustix::process::umask(rustix::fs::Mode::empty());
    let core = Core::new(Store::open(&dir.join("store"), &StoreOptions::default()).unwrap());
    let name = EntryName::new(b"source").unwrap();
    let spec = SourceSpec { path: dir.join("source"), name, read_only: false };
    let source = Source::open(&core, spec).unwrap();
    core.recover(std::slice::from_ref(&source)).unwrap();
    let spec = PolicySpec {
        deny: patterns("WARDFS_DOOR_DENY"),
        read_only: patterns("WARDFS_DOOR_READ_ONLY"),
        ..PolicySpec::default()
    };
    let policy = Policy::compile(&spec).unwrap();
    let view = View::new(&core, ViewSpec { name: "door".into(), sources: vec![source], policy }).unwrap();
    let options = MountOptions {
        ttl: LONG,
        negative_ttl: LONG,
        passthrough: std::env::var("WARDFS_DOOR_PAST").unwrap() == "yes",
        nudger: Some(env!("CARGO_BIN_EXE_wardfs").into()),
        ..MountOptions::default()
    };
    let mountpoint = PathBuf::from(std::env::var_os("WARDFS_DOOR_MOUNT").unwrap());
    let mount = Arc::new(fuse::mount(&view, &mountpoint, &options).unwrap());
    println!("door: ready {}", if mount.passthrough() { "past" } else { "through" });
    for line in std::io::stdin().lines() {
        println!("door: {}", answer(&view, &mount, &line.unwrap()));
    }
    mount.unmount(Duration::from_secs(1)).unwrap();
    core.shutdown();
    core.store().close().unwrap();
}

fn request() -> Request {
    Request {
        actor: Actor::of(Channel::Tool),
        tool: "write".into(),
        operation: None,
        dry_run: false,
        require_hash: false,
        owner: (0, 0),
    }
}

fn answer(view: &Arc<View>, mount: &Arc<fuse::Mount>, line: &str) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        // Forgetting is not answered: it may still be on its way.
        "held" => {
            let until = std::time::Instant::now() + Duration::from_secs(10);
            while view.held_nodes() > 1 && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            view.held_nodes().to_string()
        }
        "last" => {
            view.core().store().sync_all().unwrap();
            view.core().store().last_op().to_string()
        }
        "write" => {
            let (path, content) = rest.split_once(' ').unwrap();
            let write = WriteFile {
                path: ViewPath::parse(path.as_bytes()).unwrap(),
                content: NewContent::Bytes(content.into()),
                expect: Expect::Any,
                executable: None,
                parents: true,
            };
            view.write_file(&request(), write).map_or_else(|error| error.to_string(), |_| "written".into())
        }
        // A tool that never comes back, with the file's lock in its hands.
        "stick" => {
            let (view, path) = (Arc::clone(view), ViewPath::parse(rest.as_bytes()).unwrap());
            let (stuck, wait) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let rewrite = Box::new(move |_: &[u8]| {
                    stuck.send(()).unwrap();
                    loop {
                        std::thread::park();
                    }
                });
                let content = NewContent::Rewritten { rewrite, or_empty: false };
                let write = WriteFile { path, content, expect: Expect::Any, executable: None, parents: false };
                view.write_file(&request(), write).unwrap();
            });
            wait.recv().unwrap();
            "stuck".into()
        }
        "exit" => std::process::exit(0),
        "watch" => {
            let mount = Arc::clone(mount);
            std::thread::spawn(move || {
                mount.wait_unmounted();
                println!("door: ended");
            });
            "watching".into()
        }
        "unmount" => format!("{:?}", mount.unmount(Duration::from_millis(200))),
        "panic" => panic!("as the test asked"),
        _ => panic!("not a word of ours: {line}"),
    }
}
