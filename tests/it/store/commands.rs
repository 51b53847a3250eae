//! `store stats`, `gc`, `verify`, `export`: with a daemon that has the store, and without one.

use serde_json::Value;

use crate::harness::{Mounted, Setup, Shell, sh};

fn json(setup: &Setup, arguments: &[&str], store: &str) -> Value {
    let shell = Shell::of(setup.wardfs().args(arguments).args(["--json", "--store", store]));
    serde_json::from_str(&shell.out).unwrap_or_else(|error| panic!("{error}: {shell:?}"))
}

fn check(setup: &Setup, store: &str) {
    let stats = json(setup, &["store", "stats"], store);
    assert!(stats["operations"].as_u64().unwrap() >= 4 && stats["contents"].as_u64().unwrap() >= 2, "{stats}");
    assert_eq!(stats["sources"][0]["path"], setup.source().to_str().unwrap(), "{stats}");
    assert!(stats["sources"][0]["ages"]["hour"]["contents"].as_u64().unwrap() >= 2, "{stats}");
    let (used, quota) = (stats["fullness"]["used"].as_u64().unwrap(), stats["fullness"]["quota"].as_u64().unwrap());
    assert!(0 < used && used < quota, "{stats}");
    let would = json(setup, &["gc", "--dry-run"], store);
    assert_eq!((&would["dry_run"], &would["operations"]), (&true.into(), &0.into()), "{would}");
    let verified = json(setup, &["verify"], store);
    assert_eq!((&verified["whole"], &verified["damage"]), (&true.into(), &serde_json::json!([])), "{verified}");
    assert!(verified["records"].as_u64().unwrap() > 8, "{verified}");
    json(setup, &["gc"], store);
    assert_eq!(json(setup, &["store", "verify"], store)["whole"], true);
    let (stream, repository) = (setup.dir().join("stream"), setup.dir().join("repository"));
    let exported = Shell::of(setup.wardfs().args(["export", "--store", store, "-o"]).arg(&stream));
    assert_eq!(exported.status, 0, "{exported:?}");
    let script = format!(
        "rm -rf {0}; git init -q {0}; cd {0}; git fast-import --quiet < {1}; git show wardfs:a; git show wardfs~1:a; git log --format=%s wardfs | wc -l",
        repository.display(),
        stream.display()
    );
    let said = sh(setup.dir(), &script).ok();
    assert!(said.starts_with("three\ntwo\n"), "{said}");
    let piped = Shell::of(setup.wardfs().args(["export", "--store", store]));
    assert_eq!(piped.out.as_bytes(), std::fs::read(&stream).unwrap(), "the same on standard output");
}

#[test]
fn the_commands_answer_with_a_daemon_and_without() {
    let Some(mount) = Mounted::new() else { return };
    sh(mount.path(), "echo one > a; echo two > a; echo b > b; rm b; echo three > a").ok();
    // Its content is stored a moment after it is closed, or at the end.
    let store = mount.answer()["store"].as_str().unwrap().to_owned();
    mount.client().call("checkpoint", &serde_json::json!({"name": "now"}));
    sh(mount.path(), "cat a").ok();
    crate::harness::wait_for("the contents are stored", || {
        mount.status()["store"]["contents"].as_u64().is_some_and(|n| n >= 3)
    });
    check(mount.setup(), &store);
    // It is found from inside the mount, too.
    let near = Shell::of(mount.wardfs().args(["store", "stats"]).current_dir(mount.path())).ok();
    assert!(near.contains("used, drop_oldest when full"), "{near}");
    let elsewhere = mount.setup().dir().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut stranger = mount.setup().wardfs();
    let refused = Shell::of(stranger.args(["gc", "--store", &store]).env("XDG_RUNTIME_DIR", &elsewhere)).fails();
    assert!(refused.contains("is in use by process"), "{refused}");
    mount.umount().ok();
    assert!(mount.gone_within(20));
    check(mount.setup(), &store);
    let none = Shell::of(mount.setup().wardfs().args(["verify", "--store"]).arg(&elsewhere)).fails();
    assert!(none.contains("there is no store here"), "{none}");
}

#[test]
fn a_damaged_store_is_told_by_the_exit_status_and_the_names() {
    let Some(mut mount) = Mounted::new() else { return };
    sh(mount.path(), "seq 1000 > a; seq 2000 > a; mkdir d; head -c 90000 /dev/urandom > d/f; echo over > d/f").ok();
    let store = mount.answer()["store"].as_str().unwrap().to_owned();
    // The damage is in the midst of the log, so that no crash can have done it.
    for _ in 0..2 {
        mount.umount().ok();
        assert!(mount.gone_within(20));
        mount.mount_again();
        sh(mount.path(), "echo more > more").ok();
    }
    mount.umount().ok();
    assert!(mount.gone_within(20));
    let segment = std::path::Path::new(&store).join("log/00000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let end = bytes.len();
    // Inside the noise of `d/f`, which is most of the segment.
    bytes[end / 2] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let shell = Shell::of(mount.setup().wardfs().args(["verify", "--store", &store]));
    assert_eq!(shell.status, 1, "{shell:?}");
    assert!(shell.out.contains("DAMAGE: ") && shell.out.contains("d/f: the version of operation"), "{shell:?}");
    assert!(shell.out.contains("last good version: operation"), "{shell:?}");
}
