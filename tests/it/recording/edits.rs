//! A hundred edits by what shells and agents use: each is one row with its actor, and each comes back byte for byte.

use serde_json::json;

use super::{host, revert};
use crate::harness::{Mounted, Setup, program, sh};

const COUNT: usize = 25;

fn before(number: usize) -> String {
    format!("file {number}\nthe second line\r\nno final newline, and a tab:\t{number}")
}

fn files(prefix: &str) -> Setup {
    (0..COUNT).fold(Setup::new(), |setup, number| setup.file(&format!("{prefix}{number}.txt"), before(number)))
}

/// Every file was changed, is recorded with `command`, and comes back.
fn all_come_back(mount: &Mounted, prefix: &str, command: &str) {
    let mut client = mount.client();
    for number in 0..COUNT {
        let path = format!("{prefix}{number}.txt");
        assert_ne!(host(mount, &path), before(number).into_bytes(), "{path} was not changed");
        let rows = client.history(Some(&path));
        let newest = rows.first().unwrap_or_else(|| panic!("{path}: not recorded"));
        assert_eq!(newest["actor"]["channel"], json!("fuse"), "{newest}");
        let by = newest["actor"]["command"].as_str().unwrap_or_default();
        assert!(by.contains(command), "{path}: done by {by:?}, not {command}");
        revert(&mut client, &path);
        assert_eq!(host(mount, &path), before(number).into_bytes(), "{path} did not come back");
        assert_eq!(std::fs::read(mount.at(&path)).unwrap(), before(number).into_bytes(), "{path} through the mount");
    }
}

#[test]
fn sed_in_place() {
    let Some(mount) = files("f").mount() else { return };
    for number in 0..COUNT {
        sh(mount.path(), &format!("sed -i 's/second/2nd/' f{number}.txt")).ok();
    }
    all_come_back(&mount, "f", "sed");
}

#[test]
fn heredocs() {
    let Some(mount) = files("f").mount() else { return };
    for number in 0..COUNT {
        sh(mount.path(), &format!("cat > f{number}.txt <<'E'\nwholly\nnew {number}\nE\n")).ok();
    }
    all_come_back(&mount, "f", "cat");
}

#[test]
fn python() {
    program("python3");
    let Some(mount) = files("f").mount() else { return };
    let script = format!(
        "python3 - <<'P'
for i in range({COUNT}):
    f = open(f'f{{i}}.txt', 'r+b'); f.seek(3); f.write(b'PATCHED'); f.truncate(20); f.close()
P"
    );
    sh(mount.path(), &script).ok();
    all_come_back(&mount, "f", "python");
}

#[test]
fn git_checkout() {
    program("git");
    let Some(mount) = files("f").mount() else { return };
    let script = "git init -q .; git add .; git commit -qm one; git checkout -q -b other; sed -i s/second/2nd/ *.txt; git commit -qam two; git checkout -q main";
    sh(mount.path(), script).ok();
    for number in 0..COUNT {
        assert_eq!(host(&mount, format!("f{number}.txt")), before(number).into_bytes());
    }
    sh(mount.path(), "git checkout -q other; [ -z \"$(git status --porcelain)\" ]; git fsck --strict 2>&1").ok();
    all_come_back(&mount, "f", "git");
}

#[test]
fn many_edits_of_one_file_come_back_one_by_one() {
    let Some(mount) = Setup::new().file("a", "0\n").mount() else { return };
    for number in 1..=30 {
        sh(mount.path(), &format!("echo {number} >> a")).ok();
    }
    let mut client = mount.client();
    let rows = client.history(Some("a"));
    assert_eq!(rows.len(), 30, "one row an edit");
    for number in (0..30).rev() {
        client.call("revert", &json!({"operation": rows[29 - number]["operation"]}));
        let wanted: String = (0..=number).map(|n| format!("{n}\n")).collect();
        assert_eq!(String::from_utf8(host(&mount, "a")).unwrap(), wanted);
    }
}

#[test]
fn a_revert_can_be_reverted() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    sh(mount.path(), "echo two > a").ok();
    let mut client = mount.client();
    revert(&mut client, "a");
    assert_eq!(host(&mount, "a"), b"one\n");
    let newest = client.history(Some("a")).remove(0);
    assert_eq!(newest["actor"]["channel"], json!("revert"), "{newest}");
    client.call("revert", &json!({"operation": newest["operation"]}));
    assert_eq!(host(&mount, "a"), b"two\n");
}

#[test]
fn what_somebody_changed_later_is_a_conflict() {
    let Some(mount) = Setup::new().file("a", "one\n").mount() else { return };
    sh(mount.path(), "echo two > a").ok();
    let mut client = mount.client();
    let first = client.history(Some("a"))[0]["operation"].clone();
    sh(mount.path(), "echo three > a").ok();
    assert_eq!(client.refused("revert", &json!({"operation": first})), "revert_conflict");
    assert_eq!(host(&mount, "a"), b"three\n");
    client.call("revert", &json!({"operation": first, "on_conflict": "force"}));
    assert_eq!(host(&mount, "a"), b"one\n");
}
