//! What is pending, and what it was before, is kept whatever space is needed; what is accepted goes as anything else.

use serde_json::Value;

use super::{pending, review, reviewed, run, whole};
use crate::harness::{Mounted, Shell, sh};

fn collected(mount: &Mounted) -> Value {
    let shell = Shell::of(mount.wardfs().args(["gc", "--json"]).current_dir(mount.path()));
    serde_json::from_str(&shell.ok()).unwrap()
}

#[test]
fn a_base_outlives_a_quota_that_takes_all_else() {
    let Some(mount) = reviewed().file("small", "base\n").with(&["-o", "retain_bytes=4MiB"]).mount() else { return };
    // A base of its own noise, so that it is worth dropping.
    sh(mount.path(), "head -c 900000 /dev/urandom > base; sha256sum base > sum").ok();
    review(&mount, &["accept", "--all"]);
    sh(mount.path(), "head -c 900000 /dev/urandom > base; echo changed > small").ok();
    // Much that others leave behind, accepted as it comes.
    for _ in 0..6 {
        sh(mount.path(), "for i in 1 2 3 4 5 6 7 8; do head -c 200000 /dev/urandom > f$i; done").ok();
        run(&mount, &["accept", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"]).ok();
        collected(&mount);
    }
    let told = collected(&mount);
    let held = &told["unreviewed"];
    assert!(held["contents"].as_u64().unwrap() >= 2 && held["views"][0]["since"].as_u64().is_some(), "{told:#}");
    let said = Shell::of(mount.wardfs().arg("gc").current_dir(mount.path())).ok();
    assert!(said.contains("reviews hold") && said.contains("keeps all from operation"), "{said}");
    assert_eq!(pending(&mount), ["- changed base", "- changed small"]);
    run(&mount, &["reject", "base", "small"]).ok();
    assert_eq!(sh(mount.source(), "sha256sum -c sum; cat small").ok(), "base: OK\nbase\n");
    review(&mount, &["accept", "--all"]);
    assert_eq!(collected(&mount)["unreviewed"], Value::Null);
    whole(&mount);
}
