//! The daemon is killed before system calls that it makes, one kind after the other, also where the code names no point; and
//! gets errors from them.

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

/// A tracer that changes what calls do.
struct Tracer(Child);

impl Tracer {
    /// Each thread of the daemon gets `what` (a signal, an error) when it begins the call for the `count`th time.
    fn before(mount: &Mounted, call: &str, what: &str, count: usize) -> Tracer {
        let pid = mount.pid().as_raw_nonzero().get();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{what}:when={count}"), "-p", &pid.to_string()]);
        let tracer = Tracer(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("the tracer", || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads.flatten().all(|thread| {
                let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
                !status.contains("TracerPid:\t0\n")
            })
        });
        tracer
    }
}

impl Drop for Tracer {
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
    let tracer = Tracer::before(&mount, call, "signal=KILL", count);
    let played = play(&mount, USUAL, seed, false, &|| 0);
    // Its tracer learns of its end before us.
    let died = mount.gone_within(1);
    drop(tracer);
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

/// Errors of the disk and of limits, each of one call.
const ERRORS: &[(&str, &str)] = &[
    ("pwrite64", "ENOSPC"),
    ("fdatasync", "EIO"),
    ("openat2", "EMFILE"),
    ("linkat", "EMLINK"),
    ("renameat2", "EIO"),
    ("unlinkat", "EIO"),
    ("mkdirat", "EDQUOT"),
    ("pwrite64", "EIO"),
    ("utimensat", "EIO"),
];

/// Calls that fail, and what must hold then: what was refused changed nothing, what was acknowledged is there and recorded.
fn refusals(durability: &str) {
    for (at, (call, error)) in ERRORS.iter().enumerate() {
        for seed in 0..seeds() {
            let count = 1 + Random::new(seed * 1000 + at as u64).below(LET_PASS);
            eprintln!("{durability}: {call} number {count} fails with {error}, seed {seed}");
            let Some((mut mount, first)) = begin(durability, USUAL) else { return };
            mount.mount_again();
            let tracer = Tracer::before(&mount, call, &format!("error={error}"), count);
            let played = play(&mount, USUAL, seed, true, &|| 0);
            drop(tracer);
            let _ = mount.umount();
            assert!(mount.gone_within(30), "the daemon does not end");
            oracle::judge(&mut mount, &played, &first);
        }
    }
}

#[test]
fn errors_under_strict_durability() {
    refusals("strict");
}

#[test]
fn errors_under_relaxed_durability() {
    refusals("relaxed");
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
