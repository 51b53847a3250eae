//! Names that change while they are looked at.

use std::{
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{SECRET, guarded, untouched};

/// Something else stands at a name again and again, while tools and shells go through it.
fn race(swap: impl Fn(&std::path::Path) + Send + Sync, name: &str) {
    let setup = guarded();
    let outside = setup.dir().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("free.txt"), SECRET).unwrap();
    let Some(mount) = setup.mount() else { return };
    let stop = AtomicBool::new(false);
    let (source, path) = (mount.source().to_owned(), format!("{name}/free.txt"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(&source);
            }
        });
        let start = Instant::now();
        let mut client = mount.client();
        let mut hits = 0;
        while start.elapsed() < Duration::from_secs(3) {
            if let Ok(body) = client.try_call("read", &json!({"path": path})) {
                hits += 1;
                assert!(!body.to_string().contains(SECRET), "{body}");
            }
            // A refusal is what the race may end in; what counts is that nothing outside changes.
            let _ = client.try_call("edit", &json!({"path": path, "edits": [{"lines": [1, 1], "text": "free too\n"}]}));
            let _ = client.try_call("search", &json!({"query": "hunter2", "hidden": true})).map(|body| {
                assert!(!body.to_string().contains(SECRET), "{body}");
            });
            // The kernel resolves links itself, and ends outside rightly if it is told to; through the mount it does not.
            if let Ok(content) = std::fs::read_to_string(mount.at(&format!("{name}/../{name}/.env"))) {
                panic!("read {content:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(hits > 0, "the race never let a read through: it proves nothing");
    });
    assert_eq!(std::fs::read_to_string(outside.join("free.txt")).unwrap(), SECRET, "written outside");
    untouched(&mount);
}

#[test]
fn a_directory_that_turns_into_a_link_outside() {
    race(
        |source| {
            // Each step may find the other's leavings; the next round mends it.
            let _ = std::fs::rename(source.join("dir"), source.join("aside"));
            let _ = symlink("../outside", source.join("dir"));
            let _ = std::fs::remove_file(source.join("dir"));
            let _ = std::fs::rename(source.join("aside"), source.join("dir"));
        },
        "dir",
    );
}

#[test]
fn a_link_that_turns_from_inside_to_outside() {
    race(
        |source| {
            for target in ["dir", "../outside", "private"] {
                let _ = symlink(target, source.join("link.new"));
                let _ = std::fs::rename(source.join("link.new"), source.join("link"));
            }
        },
        "link",
    );
}
