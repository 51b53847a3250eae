//! A full check finds what is damaged and names it; an export is what was recorded.

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    dropping::{ago, noise},
    ground::{Ground, append, change, create, furnish, operation, state},
};
use crate::{
    types::{Kind, OpId},
    versions::{ChangeKind, Content, State, Store},
};

fn kept(store: &Store, bytes: &[u8]) -> State {
    let (hash, _) = store.put_blob(bytes).expect("kept");
    state(Kind::File, bytes.len() as u64, Content::Blob(hash))
}

/// Three versions of `a/f` and a file aside that was `g`.
fn stock(ground: &Ground, store: &Store) -> Vec<OpId> {
    let all: Vec<State> = (0..3).map(|n| kept(store, &noise(n, 2000))).collect();
    let name = store.aside_name(crate::types::NodeId(2)).to_string();
    std::fs::write(ground.store().join("aside").join(&name), b"gone").expect("written");
    let gone = state(Kind::File, 4, Content::Aside(name));
    vec![
        ago(store, 50, "a", vec![change(ChangeKind::Create, "a/f", 1, None, Some(all[0].clone()))]),
        ago(store, 40, "a", vec![change(ChangeKind::Write, "a/f", 1, Some(all[0].clone()), Some(all[1].clone()))]),
        ago(store, 30, "b", vec![change(ChangeKind::Write, "a/f", 1, Some(all[1].clone()), Some(all[2].clone()))]),
        ago(store, 20, "b", vec![change(ChangeKind::Remove, "g", 2, Some(gone), None)]),
    ]
}

#[test]
fn a_whole_store_is_found_whole_before_and_after_a_collection() {
    let ground = Ground::new();
    let store = ground.open();
    furnish(&store, 20);
    stock(&ground, &store);
    let report = store.verify().expect("checked");
    assert_eq!(report.damage, Vec::<String>::new());
    assert!(report.records > 70 && report.contents >= 23 && report.asides == 1, "{report:?}");
    store.keeping.told_long_ago(&store);
    store.gc(false).expect("collected");
    let report = store.verify().expect("checked");
    assert_eq!((report.damage, report.files), (vec![], vec![]));
    assert_eq!(
        std::fs::read_dir(ground.store().join("tmp")).expect("there").count(),
        0,
        "nothing is left of the check"
    );
}

#[test]
fn what_is_recorded_again_during_a_check_is_no_damage() {
    let ground = Ground::new();
    let store = ground.open();
    furnish(&store, 20);
    let op = append(&store, vec![create("open", 77, 1)]);
    let checked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A file that stays open: its one operation is recorded anew with each flush.
        let writer = scope.spawn(|| {
            for size in 2..30_000 {
                store.append(&operation(op, vec![create("open", 77, size)])).expect("appended");
                if checked.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let found: Vec<_> = (0..2).map(|_| store.verify().map(|report| report.damage)).collect();
        checked.store(true, Ordering::Relaxed);
        writer.join().expect("written");
        for damage in found {
            assert_eq!(damage.expect("checked"), Vec::<String>::new());
        }
    });
}

#[test]
fn what_is_damaged_is_named_with_the_last_version_that_is_good() {
    let ground = Ground::new();
    let ops = {
        let store = ground.open();
        let ops = stock(&ground, &store);
        store.close().expect("closed");
        ops
    };
    let segment = &ground.segments()[0];
    let mut bytes = std::fs::read(segment).expect("a segment");
    let at = bytes.windows(100).position(|part| part == &noise(2, 2000)[..100]).expect("the third content");
    bytes[at + 50] ^= 1;
    std::fs::write(segment, &bytes).expect("changed");
    std::fs::remove_file(
        ground.store().join("aside").read_dir().expect("there").next().expect("one").expect("one").path(),
    )
    .expect("removed");
    let store = ground.open();
    let report = store.verify().expect("checked");
    assert_eq!(report.damage.len(), 3, "{report:?}");
    let names: Vec<_> = report.files.iter().map(|f| (f.path.to_string(), f.op, f.last_good)).collect();
    assert_eq!(names, [("a/f".into(), ops[2], Some(ops[1])), ("g".into(), ops[3], None)]);
}

#[test]
fn an_index_that_lies_is_found_out() {
    let ground = Ground::new();
    {
        let store = ground.open();
        stock(&ground, &store);
        store.close().expect("closed");
    }
    let db = rusqlite::Connection::open(ground.index()).expect("an index");
    assert_eq!(db.execute("UPDATE touch SET path = x'62' WHERE op = 2", []).expect("changed"), 1);
    drop(db);
    let report = ground.open().verify().expect("checked");
    assert!(report.damage.len() == 1 && report.damage[0].contains("`touch`"), "{report:?}");
}

fn git(dir: &std::path::Path, args: &[&str]) -> String {
    let out = Command::new("git").current_dir(dir).args(args).output().expect("git runs");
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn an_export_is_a_repository_with_every_version() {
    let ground = Ground::new();
    let store = ground.open();
    stock(&ground, &store);
    let text = kept(&store, b"text\n");
    ago(&store, 9, "c", vec![change(ChangeKind::Create, "a/sp ace\"\\\n\u{e9}", 3, None, Some(text.clone()))]);
    let mut moved = change(
        ChangeKind::Rename,
        "b",
        4,
        Some(state(Kind::Dir, 0, Content::None)),
        Some(state(Kind::Dir, 0, Content::None)),
    );
    moved.from = Some(super::ground::path("a"));
    ago(&store, 8, "c", vec![moved]);
    let lost = state(Kind::File, 3, Content::Lost(crate::versions::Loss::Size));
    ago(&store, 7, "c", vec![change(ChangeKind::Write, "b/f", 1, Some(kept(&store, &noise(2, 2000))), Some(lost))]);
    let mut stream = Vec::new();
    let report = store.export(&mut stream).expect("exported");
    assert_eq!((report.operations, report.missing), (7, 1), "{report:?}");
    let repository = ground.dir().join("repository");
    std::fs::create_dir(&repository).expect("made");
    git(&repository, &["init", "-q"]);
    let mut import = Command::new("git")
        .current_dir(&repository)
        .args(["fast-import", "--quiet", "--done"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git runs");
    import.stdin.take().expect("a pipe").write_all(&stream).expect("taken");
    assert!(import.wait().expect("ended").success());
    let subjects = git(&repository, &["log", "--format=%s|%cn", "--reverse", "wardfs"]);
    let expected = "write: operation 1|a\nwrite: operation 2|a\nwrite: operation 3|b\nas it was before: operation 4|b\n\
                    write: operation 4|b\nwrite: operation 5|c\nwrite: operation 6|c\nwrite: operation 7|c\n";
    assert_eq!(subjects, expected);
    let at = |commit: &str, path: &str| git(&repository, &["rev-parse", &format!("{commit}:{path}")]);
    let hash_of = |bytes: &[u8]| {
        let file = ground.dir().join("content");
        std::fs::write(&file, bytes).expect("written");
        git(&repository, &["hash-object", file.to_str().expect("plain")])
    };
    assert_eq!(at("wardfs~7", "a/f"), hash_of(&noise(0, 2000)));
    assert_eq!(at("wardfs~5", "a/f"), hash_of(&noise(2, 2000)));
    assert_eq!(at("wardfs~4", "g"), hash_of(b"gone"));
    assert_eq!(at("wardfs~1", "b/sp ace\"\\\n\u{e9}"), hash_of(b"text\n"));
    assert_eq!(at("wardfs~1", "b/f"), hash_of(&noise(2, 2000)));
    let last = git(&repository, &["show", "--stat", "--format=%B", "wardfs"]);
    assert!(last.contains("not available: b/f (size)"), "{last}");
}
