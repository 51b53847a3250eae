//! The daemon is killed before system calls that it makes, one kind after the other: also where the code names no point.

use std::process::{Child, Command, Stdio};

use super::{
    load::play,
    oracle,
    points::{begin, seeds},
    scenes::USUAL,
};
use crate::harness::{Mounted, Random, wait_for};

/// What changes something on disk, or tells somebody of it.
const CALLS: &[&str] = &[
    "openat2",
    "pwrite64",
    "fdatasync",
    "fsync",
    "linkat",
    "renameat2",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "utimensat",
    "setxattr",
    "copy_file_range",
    "writev",
    "sendto",
];

/// Of one thread, at most this many of the calls are let pass before the kill.
const LET_PASS: usize = 12;

/// A tracer that kills.
struct Killer(Child);

impl Killer {
    /// The daemon is killed when one of its threads begins the call for the `count`th time.
    fn before(mount: &Mounted, call: &str, count: usize) -> Killer {
        let pid = mount.pid().as_raw_nonzero().get();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:signal=KILL:when={count}"), "-p", &pid.to_string()]);
        let killer = Killer(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("the tracer", || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads.flatten().all(|thread| {
                let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
                !status.contains("TracerPid:\t0\n")
            })
        });
        killer
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        // Asked to end it lets go of the daemon, killed it would do so, too.
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// One kill, and what must hold after it. False if no thread made the call so often; none if no mount is possible.
fn round(durability: &str, call: &str, count: usize, seed: u64) -> Option<bool> {
    let (mut mount, first) = begin(durability, USUAL)?;
    mount.set_environment(&[("WARDFS_CRASH_SMALL", "1")]);
    mount.mount_again();
    let killer = Killer::before(&mount, call, count);
    let played = play(&mount, USUAL, seed, false);
    // Its tracer learns of its end before us.
    let died = mount.gone_within(1);
    drop(killer);
    if died {
        oracle::judge(&mut mount, &played, &first);
    }
    Some(died)
}

/// Every other kind of call from `from` on, as often as seeds are asked for.
fn rounds(durability: &str, from: usize) {
    for (at, call) in CALLS.iter().enumerate().skip(from).step_by(2) {
        if durability == "relaxed" && ["fsync", "fdatasync"].contains(call) {
            continue;
        }
        for seed in 0..seeds() {
            let mut random = Random::new(seed * 1000 + at as u64);
            let mut count = 1 + random.below(LET_PASS);
            loop {
                eprintln!("{durability}: before {call} number {count}, seed {seed}");
                match round(durability, call, count, seed) {
                    None => return,
                    Some(true) => break,
                    Some(false) => assert!(count > 1, "{call} ({durability}): the load never makes it"),
                }
                count /= 2;
            }
        }
    }
}

#[test]
fn before_calls_under_strict_durability() {
    rounds("strict", 0);
}

#[test]
fn before_other_calls_under_strict_durability() {
    rounds("strict", 1);
}

#[test]
fn before_calls_under_relaxed_durability() {
    rounds("relaxed", 0);
}

#[test]
fn before_other_calls_under_relaxed_durability() {
    rounds("relaxed", 1);
}
