//! The daemon dies under a load of writers, again and again.

use std::{
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::json;

use crate::harness::{Client, Mounted, Random, Setup};

fn rounds() -> u64 {
    std::env::var("WARDFS_TEST_ROUNDS").ok().map_or(4, |value| value.parse().unwrap())
}

/// Writes by a tool until the daemon dies; gives what was answered: path and content.
fn tool_writer(socket: &Path, name: &str, stop: &AtomicBool) -> Vec<(String, String)> {
    let mut done = Vec::new();
    let mut lines = match std::os::unix::net::UnixStream::connect(socket) {
        Ok(stream) => std::io::BufReader::new(stream),
        Err(_) => return done,
    };
    for number in 0.. {
        let (path, content) =
            (format!("{name}/{}", number % 20), format!("{name} {number}\n").repeat(1 + number % 400));
        let call = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "write", "arguments": {"path": path, "content": content}}});
        let mut answer = String::new();
        let sent = lines.get_mut().write_all(format!("{call}\n").as_bytes()).is_ok();
        if !sent
            || std::io::BufRead::read_line(&mut lines, &mut answer).unwrap_or(0) == 0
            || stop.load(Ordering::Relaxed)
        {
            break;
        }
        assert!(answer.contains("\"isError\":false") || !answer.contains("isError"), "{answer}");
        done.push((path, content));
    }
    done
}

/// Writes through the mount until it dies; gives what was closed without an error.
fn shell_writer(folder: &Path, name: &str, stop: &AtomicBool) -> Vec<(String, String)> {
    let mut done = Vec::new();
    for number in 0.. {
        let (path, content) = (format!("{}", number % 20), format!("{name} {number}\n").repeat(1 + number % 400));
        let written = std::fs::File::create(folder.join(&path)).and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            // `close` tells whether the flush that records went through; dropping would not say.
            let closed = rustix::io::dup(&file)?;
            drop(closed);
            Ok(())
        });
        if written.is_err() || stop.load(Ordering::Relaxed) {
            break;
        }
        done.push((format!("{name}/{path}"), content));
    }
    done
}

/// What was answered last for each path. Any later, unanswered write may be there instead.
fn check(mount: &Mounted, client: &mut Client, done: &[(String, String)], name: &str) {
    let mut newest = std::collections::HashMap::new();
    for (at, (path, content)) in done.iter().enumerate() {
        newest.insert(path, (at, content));
    }
    for (path, (at, content)) in newest {
        let found = std::fs::read_to_string(mount.beside(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let unanswered = at + 20 >= done.len();
        assert!(
            found == *content || (unanswered && (found.is_empty() || found.starts_with(name))),
            "{path}: answered {:?}, found {:?}",
            content.lines().next(),
            found.lines().next()
        );
        assert_eq!(client.read(path), found, "{path} by a tool");
        let rows = client.history(Some(path));
        assert!(!rows.is_empty(), "{path}: nothing recorded");
        // The newest row's content is what is there, so the one before it can be had back.
        let diff = client.call("diff", &json!({"a": {"path": path, "at": rows[0]["operation"]}, "b": path}));
        assert_eq!(diff["identical"], json!(true), "{path}: the newest version is not what is there: {diff}");
    }
}

fn killed_under_load(setup: Setup) {
    let Some(mut mount) = setup.mount() else { return };
    for name in ["tool-0", "tool-1", "shell-0", "shell-1"] {
        std::fs::create_dir(mount.beside(name)).unwrap();
    }
    for round in 0..rounds() {
        let stop = AtomicBool::new(false);
        let socket = mount.socket();
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let tools: Vec<_> = ["tool-0", "tool-1"]
                .map(|name| {
                    (
                        name,
                        scope.spawn({
                            let (socket, stop) = (&socket, &stop);
                            move || tool_writer(socket, name, stop)
                        }),
                    )
                })
                .into();
            let shells: Vec<_> = ["shell-0", "shell-1"]
                .map(|name| {
                    (
                        name,
                        scope.spawn({
                            let (folder, stop) = (mount.at(name), &stop);
                            move || shell_writer(&folder, name, stop)
                        }),
                    )
                })
                .into();
            std::thread::sleep(Duration::from_millis(1500 + Random::new(round).next() % 500));
            mount.kill();
            stop.store(true, Ordering::Relaxed);
            all.extend(tools.into_iter().chain(shells).map(|(name, thread)| (name, thread.join().unwrap())));
        });
        mount.mount_again();
        let mut client = mount.client();
        for (name, done) in &all {
            assert!(!done.is_empty(), "round {round}: {name} did nothing before the kill");
            check(&mount, &mut client, done, name);
        }
        assert!(
            std::fs::read_dir(mount.source()).unwrap().count() == 4,
            "round {round}: something was left in the source"
        );
    }
}

#[test]
fn with_strict_durability() {
    killed_under_load(Setup::new().with(&["--durability", "strict"]));
}

#[test]
fn with_relaxed_durability() {
    killed_under_load(Setup::new().with(&["--durability", "relaxed"]));
}

#[test]
fn removed_files_come_back_after_a_kill() {
    let Some(mut mount) =
        (0..200).fold(Setup::new(), |setup, n| setup.file(&format!("d/{n}"), format!("content {n}\n"))).mount()
    else {
        return;
    };
    mount.client().call("checkpoint", &json!({"name": "before"}));
    let path = mount.path().to_owned();
    std::thread::scope(|scope| {
        let remover = scope
            .spawn(move || (0..200).take_while(|n| std::fs::remove_file(path.join(format!("d/{n}"))).is_ok()).count());
        std::thread::sleep(Duration::from_millis(15));
        mount.kill();
        remover.join().unwrap();
    });
    mount.mount_again();
    mount.client().revert(&json!({"checkpoint": "before"}));
    for number in 0..200 {
        let found = std::fs::read_to_string(mount.at(&format!("d/{number}")))
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(found, format!("content {number}\n"));
    }
}

#[test]
fn the_next_mount_waits_for_nobody() {
    let Some(mut mount) = Mounted::new() else { return };
    let path = mount.path().to_owned();
    for round in 0..5 {
        for number in 0..20 {
            std::fs::write(path.join(format!("f{number}")), format!("{round}\n")).unwrap();
        }
        // It is still dying when the command begins.
        rustix::process::kill_process(mount.pid(), rustix::process::Signal::KILL).unwrap();
        if let Err(said) = mount.try_mount() {
            panic!("after {round} kills: {said}");
        }
        assert_eq!(std::fs::read_to_string(path.join("f19")).unwrap(), format!("{round}\n"));
    }
}
