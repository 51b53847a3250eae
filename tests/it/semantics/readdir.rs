//! Listing a directory while it changes.

use std::collections::HashSet;

use crate::harness::{Mounted, sh};

const COUNT: usize = 5000;

fn filled() -> Option<Mounted> {
    let mount = Mounted::new()?;
    for number in 0..COUNT {
        std::fs::write(mount.beside(&format!("file-{number:05}")), "").unwrap();
    }
    Some(mount)
}

#[test]
fn every_entry_is_listed_once_while_they_are_removed() {
    let Some(mount) = filled() else { return };
    let mut seen = HashSet::new();
    for entry in std::fs::read_dir(mount.path()).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::remove_file(mount.path().join(&name)).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert!(seen.insert(name.clone()), "{name:?} twice");
    }
    assert_eq!(seen.len(), COUNT);
    assert_eq!(std::fs::read_dir(mount.beside(".")).unwrap().count(), 0);
}

#[test]
fn what_stays_is_listed_though_others_go() {
    let Some(mount) = filled() else { return };
    let mut entries = std::fs::read_dir(mount.path()).unwrap();
    let first: Vec<_> = entries.by_ref().take(10).map(|entry| entry.unwrap().file_name()).collect();
    for number in (0..COUNT).step_by(2) {
        std::fs::remove_file(mount.at(&format!("file-{number:05}"))).unwrap();
    }
    let mut seen: HashSet<_> = first.into_iter().collect();
    seen.extend(entries.map(|entry| entry.unwrap().file_name()));
    let stays = (1..COUNT).step_by(2).map(|number| format!("file-{number:05}").into());
    let missing: Vec<std::ffi::OsString> = stays.filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "{} entries were not listed: {:?}…", missing.len(), missing.first());
}

#[test]
fn rm_rf_of_a_large_directory_leaves_nothing() {
    let Some(mount) = filled() else { return };
    sh(
        mount.path(),
        "mkdir sub; mv file-0[0-2]* sub; rm -rf sub; ls | wc -l | grep -qx 2000; rm -rf -- *; [ -z \"$(ls -A)\" ]",
    )
    .ok();
}

#[test]
fn types_and_inode_numbers_are_those_of_stat() {
    let Some(mount) = Mounted::new() else { return };
    let script = "mkdir d; ln -s x l; mkfifo p; echo > f; python3 -c \"
import os
for e in os.scandir('.'):
    s = os.lstat(e.name)
    assert e.inode() == s.st_ino, e.name
    print(e.name, e.is_dir(follow_symlinks=False), e.is_symlink(), e.is_file(follow_symlinks=False))
\" | sort";
    assert_eq!(
        sh(mount.path(), script).ok(),
        "d True False False\nf False False True\nl False True False\np False False False\n"
    );
}
