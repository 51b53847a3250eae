//! A small mixed load: scenes, each in a folder of its own, played by a shell and a tool at the same time until they are done
//! or the daemon is gone. Each scene tells what was acknowledged.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::scenes::Scene;
use crate::harness::{Mounted, Random, Times, Tree};

/// How far a scene came, and what was acknowledged in it.
pub struct Played {
    /// Its folder.
    pub name: &'static str,
    /// As it was after the last step that was acknowledged.
    pub acknowledged: Tree,
    /// Contents that were saved, by path in the source, oldest first.
    pub saved: Vec<(String, Vec<u8>)>,
    /// Operations that a tool answered.
    pub answered: Vec<u64>,
    /// Moments at which a call's answer had not come: what it was to leave, all or nothing.
    pub unanswered: Option<Vec<(String, Option<Vec<u8>>)>>,
    /// A step had begun when the daemon died, and was no tool's.
    pub cut_off: bool,
    /// The folder before the first step.
    pub before: Tree,
    /// The steps that were acknowledged.
    pub passed: Vec<Passed>,
}

/// What a step leaves, by name in the scene's folder; none: nothing at all.
pub type Leaves = Vec<(String, Option<Vec<u8>>)>;

/// A step that was acknowledged.
pub struct Passed {
    /// What the clock of the load said then.
    pub at: u64,
    /// The folder after it.
    pub tree: Tree,
    /// What outlasts a power cut from then on, under strict durability.
    pub sure: Sure,
}

/// What outlasts a power cut.
pub enum Sure {
    /// Nothing.
    Nothing,
    /// Files that an application put on disk.
    Synced(Leaves),
    /// All that an operation of a tool did.
    Operation(u64, Leaves),
}

/// What tells when a step was acknowledged.
pub type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// The daemon is gone, or refused what no scene goes on without.
#[derive(Debug)]
pub struct Gone;

pub type Step<T = ()> = Result<T, Gone>;

/// One scene at play.
pub struct Stage<'a> {
    mount: &'a Path,
    host: PathBuf,
    /// The scene's folder in the mount.
    pub at: PathBuf,
    socket: &'a Path,
    lines: Option<BufReader<UnixStream>>,
    calls: u64,
    refusals: bool,
    clock: Clock<'a>,
    /// What happened so far.
    pub played: Played,
}

impl Stage<'_> {
    /// A step of a shell: acknowledged if the daemon answers afterwards.
    pub fn shell(&mut self, step: impl FnOnce(&Path) -> std::io::Result<()>) -> Step {
        self.step(step)?;
        self.acknowledge(Sure::Nothing);
        Ok(())
    }

    /// A step of a shell that has put these files on disk, with their names, when it is done.
    pub fn synced(&mut self, names: &[&str], step: impl FnOnce(&Path) -> std::io::Result<()>) -> Step {
        self.step(step)?;
        let content = |name: &str| std::fs::read(self.host.join(name)).ok();
        let leaves = names.iter().map(|name| ((*name).to_owned(), content(name))).collect();
        self.acknowledge(Sure::Synced(leaves));
        Ok(())
    }

    fn step(&mut self, step: impl FnOnce(&Path) -> std::io::Result<()>) -> Step {
        self.played.cut_off = true;
        let done = step(&self.at);
        if let Err(gone) = rustix::fs::statfs(self.mount) {
            assert!(matches!(gone.raw_os_error(), libc::ENOTCONN | libc::ECONNABORTED), "{gone}");
            return Err(Gone);
        }
        match done {
            Ok(()) => {}
            // What it did until then was not acknowledged as a whole.
            Err(_) if self.refusals => return Err(Gone),
            Err(error) => panic!("{}: a step failed: {error}", self.played.name),
        }
        Ok(())
    }

    /// A step of a shell that leaves this content in a file.
    pub fn save(&mut self, name: &str, step: impl FnOnce(&Path) -> std::io::Result<()>) -> Step {
        self.shell(|at| step(&at.join(name)))?;
        let content = std::fs::read(self.host.join(name)).unwrap();
        self.played.saved.push((format!("{}/{name}", self.played.name), content));
        Ok(())
    }

    /// A step beside the daemon, which is not told.
    pub fn beside(&mut self, step: impl FnOnce(&Path)) {
        step(&self.host);
        self.acknowledge(Sure::Nothing);
    }

    fn acknowledge(&mut self, sure: Sure) {
        let at = (self.clock)();
        self.played.acknowledged = Tree::of(&self.host, Times::Ignore);
        self.played.passed.push(Passed { at, tree: self.played.acknowledged.clone(), sure });
        (self.played.cut_off, self.played.unanswered) = (false, None);
    }

    /// A call that shall leave these contents (none: nothing at all), by name in the folder; paths in the arguments that
    /// begin with `@/` are in the scene's folder.
    pub fn tool(&mut self, tool: &str, arguments: &Value, leaves: &[(&str, Option<&[u8]>)]) -> Step {
        let here = format!("{}/", self.played.name);
        let arguments: Value = serde_json::from_str(&arguments.to_string().replace("@/", &here)).unwrap();
        let kept = |content: &Option<&[u8]>| content.map(<[u8]>::to_vec);
        let leaves: Leaves = leaves.iter().map(|(name, content)| ((*name).to_owned(), kept(content))).collect();
        self.played.unanswered = Some(leaves.clone());
        let answer = self.call(tool, &arguments)?;
        let result = &answer["result"];
        if result["isError"] == json!(true) {
            assert!(self.refusals, "{tool} {arguments}: {answer}");
            if result["structuredContent"]["applied"] == json!(true) {
                // As if there had been no answer.
                return Err(Gone);
            }
            // Refused: nothing of it may be there.
            let now = Tree::of(&self.host, Times::Ignore);
            self.played
                .acknowledged
                .same(&now, &format!("{tool} {arguments} was refused and changed something: {result}"));
            self.acknowledge(Sure::Nothing);
            return Ok(());
        }
        let op = &result["structuredContent"]["operation"];
        let op = op.as_u64().unwrap_or_else(|| panic!("{tool} {arguments}: {answer}"));
        self.played.answered.push(op);
        for (at, (name, content)) in leaves.iter().enumerate() {
            let found = std::fs::read(self.host.join(name)).ok();
            assert!(found == *content, "{tool} {arguments}: {name} is not what it should be");
            // A file of several names is recorded under that by which it was reached, one that moves under its old one.
            let again = leaves[..at].iter().any(|(_, other)| content.is_some() && other == content);
            if let Some(content) = content.as_ref().filter(|_| !again && ["write", "edit", "copy"].contains(&tool)) {
                self.played.saved.push((format!("{}/{name}", self.played.name), content.clone()));
            }
        }
        self.acknowledge(Sure::Operation(op, leaves));
        Ok(())
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Step<Value> {
        if self.lines.is_none() {
            let stream = UnixStream::connect(self.socket).map_err(|_| Gone)?;
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            self.lines = Some(BufReader::new(stream));
        }
        let Some(lines) = &mut self.lines else { return Err(Gone) };
        self.calls += 1;
        let params = json!({"name": tool, "arguments": arguments, "session": self.played.name});
        let call = json!({"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params});
        lines.get_mut().write_all(format!("{call}\n").as_bytes()).map_err(|_| Gone)?;
        let mut answer = String::new();
        match lines.read_line(&mut answer) {
            Ok(count) if count > 0 && answer.ends_with('\n') => Ok(serde_json::from_str(&answer).unwrap()),
            Ok(_) => Err(Gone),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Err(Gone),
            Err(error) => panic!("{tool} {arguments}: {error}"),
        }
    }
}

/// Plays the scenes of a shell and those of a tool at the same time, each in an order that the seed chooses. Returns what was
/// acknowledged in each, also in those that did not begin.
pub fn play(mount: &Mounted, scenes: &[Scene], seed: u64, refusals: bool, clock: Clock<'_>) -> Vec<Played> {
    let socket = mount.socket();
    let mut random = Random::new(seed);
    let mut threads: [Vec<&Scene>; 2] = [Vec::new(), Vec::new()];
    for scene in scenes {
        let thread = &mut threads[usize::from(scene.by_tool)];
        let place = if seed == 0 { thread.len() } else { random.below(thread.len() + 1) };
        thread.insert(place, scene);
    }
    let [shell, tool] = threads;
    let run = |scenes| run(mount, &socket, scenes, refusals, clock);
    std::thread::scope(|scope| {
        let threads = [scope.spawn(|| run(shell)), scope.spawn(|| run(tool))];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Plays scenes one after the other.
fn run(mount: &Mounted, socket: &Path, scenes: Vec<&Scene>, refusals: bool, clock: Clock<'_>) -> Vec<Played> {
    let mut played = Vec::new();
    let mut gone = false;
    for scene in scenes {
        let host = mount.beside(scene.name);
        let acknowledged = Tree::of(&host, Times::Ignore);
        let mut stage = Stage {
            mount: mount.path(),
            at: mount.at(scene.name),
            host,
            socket,
            lines: None,
            calls: 0,
            refusals,
            clock,
            played: Played {
                name: scene.name,
                before: acknowledged.clone(),
                passed: Vec::new(),
                acknowledged,
                saved: Vec::new(),
                answered: Vec::new(),
                unanswered: None,
                cut_off: false,
            },
        };
        gone = gone || (scene.play)(&mut stage).is_err();
        played.push(stage.played);
    }
    played
}
