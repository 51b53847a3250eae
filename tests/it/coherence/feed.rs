//! What others do beside the mount is recorded soon after they did it, and what goes through us is not recorded twice.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
};

use serde_json::{Value, json};

use crate::harness::{Client, Mounted, Setup, program, sh, wait_for, watcher};

/// All external changes so far, oldest first: `create a`, `rename b < a`.
fn external(client: &mut Client) -> Vec<String> {
    let mut operations = client.history(None);
    operations.reverse();
    let of = |operation: Value| {
        assert_eq!(operation["kind"] == "external", operation["actor"]["channel"] == "external", "{operation}");
        let changes = if operation["kind"] == "external" { operation["changes"].clone() } else { json!([]) };
        changes.as_array().unwrap().clone()
    };
    let said = |change: Value| {
        let word = |name: &str| change[name].as_str().map(str::to_owned);
        let from = word("from").map_or_else(String::new, |from| format!(" < {from}"));
        format!("{} {}{from}", word("change").unwrap(), word("path").unwrap())
    };
    operations.into_iter().flat_map(of).map(said).collect()
}

/// Waits until everything that was done beside so far is recorded, and gives it: a last change is waited for.
fn recorded(mount: &Mounted) -> Vec<String> {
    let mut client = mount.client();
    let name = format!("last-{}", external(&mut client).len());
    fs::create_dir(mount.beside(&name)).unwrap();
    wait_for("the last change", || !client.history(Some(&name)).is_empty());
    let mut all = external(&mut client);
    all.retain(|change| !change.contains("last-"));
    all
}

/// Does something beside and checks what is recorded of it.
fn leads_to(mount: &Mounted, act: impl FnOnce(&Mounted), expected: &[&str]) {
    let before = recorded(mount).len();
    act(mount);
    let mut all = Vec::new();
    wait_for("what was done", || {
        all = recorded(mount).split_off(before);
        all.len() >= expected.len()
    });
    assert_eq!(all, expected);
}

#[test]
fn each_change_beside_is_recorded_as_what_it_was() {
    let Some(mount) = Setup::new().file("old", "never looked at\n").file("dir/f", "x").mount() else { return };
    leads_to(&mount, |m| fs::write(m.beside("a"), "one\n").unwrap(), &["create a"]);
    leads_to(&mount, |m| fs::write(m.beside("a"), "two, longer\n").unwrap(), &["write a"]);
    let private = || fs::Permissions::from_mode(0o600);
    leads_to(&mount, |m| fs::set_permissions(m.beside("a"), private()).unwrap(), &["meta a"]);
    leads_to(&mount, |m| fs::rename(m.beside("a"), m.beside("dir/b")).unwrap(), &["rename dir/b < a"]);
    leads_to(&mount, |m| fs::hard_link(m.beside("dir/b"), m.beside("c")).unwrap(), &["link c < dir/b"]);
    leads_to(&mount, |m| fs::remove_file(m.beside("c")).unwrap(), &["remove c"]);
    leads_to(&mount, |m| fs::remove_file(m.beside("dir/b")).unwrap(), &["remove dir/b"]);
    leads_to(&mount, |m| fs::rename(m.beside("dir"), m.beside("moved")).unwrap(), &["rename moved < dir"]);
    leads_to(&mount, |m| fs::write(m.beside("old"), "now\n").unwrap(), &["write old"]);
    leads_to(&mount, |m| fs::remove_file(m.beside("old")).unwrap(), &["remove old"]);
    let away = mount.setup().dir().join("away");
    leads_to(&mount, |m| fs::rename(m.beside("moved"), &away).unwrap(), &["remove moved"]);
    leads_to(&mount, |m| fs::rename(&away, m.beside("back")).unwrap(), &["create back"]);
}

#[test]
fn an_atomic_save_beside_displaces_the_old_file() {
    let Some(mount) = Setup::new().mount() else { return };
    mount.client().call("write", &json!({"path": "a", "content": "one\n"}));
    let save = |m: &Mounted| {
        fs::write(m.beside("a.tmp"), "two\n").unwrap();
        fs::rename(m.beside("a.tmp"), m.beside("a")).unwrap();
    };
    let before = recorded(&mount).len();
    save(&mount);
    let all = recorded(&mount).split_off(before);
    assert!(
        all.ends_with(&["remove a".into(), "rename a < a.tmp".into()]) || all == ["remove a", "create a"],
        "{all:?}"
    );
    mount.client().call("revert", &json!({"path": "a", "on_conflict": "force"}));
    assert_eq!(fs::read_to_string(mount.at("a")).unwrap(), "one\n");
}

#[test]
fn what_was_stored_before_comes_back_and_what_was_not_is_said_to_be_lost() {
    let Some(mount) = Setup::new().file("unknown", "nobody knows\n").mount() else { return };
    let mut client = mount.client();
    client.call("write", &json!({"path": "a", "content": "one\n"}));
    for content in ["two, beside\n", "three, beside as well\n"] {
        leads_to(&mount, |m| fs::write(m.beside("a"), content).unwrap(), &["write a"]);
    }
    let first = client.history(Some("a")).last().unwrap()["operation"].clone();
    client.call("revert", &json!({"path": "a"}));
    assert_eq!(fs::read_to_string(mount.beside("a")).unwrap(), "two, beside\n");
    client.call("revert", &json!({"path": "a", "to": first}));
    assert_eq!(fs::read_to_string(mount.beside("a")).unwrap(), "one\n");
    leads_to(&mount, |m| fs::write(m.beside("unknown"), "now\n").unwrap(), &["write unknown"]);
    let change = client.history(Some("unknown"))[0]["changes"][0].clone();
    assert_eq!(change["unversioned"], "external", "{change}");
    client.refused("revert", &json!({"path": "unknown"}));
    assert_eq!(fs::read_to_string(mount.beside("unknown")).unwrap(), "now\n");
}

#[test]
fn a_feed_tells_who_did_it() {
    let Some(mount) = Setup::new().mount() else { return };
    let mut client = mount.client();
    let since = client.call("changes", &json!({}))["next"].clone();
    sh(mount.source(), "exec python3 -c 'open(\"made\", \"w\").write(\"x\"); import time; time.sleep(1)'").ok();
    let told = client.call("changes", &json!({"since": since, "wait_ms": 10_000, "actor": {"channel": "external"}}));
    let operation = &told["operations"][0];
    assert_eq!(operation["changes"][0]["path"], "made", "{told}");
    assert!(operation["actor"]["command"].as_str().unwrap().contains("python3 -c"), "{operation}");
}

#[test]
fn what_goes_through_us_is_recorded_once_and_never_as_external() {
    let Some(mount) = Setup::new().file("a", "one\n").file("big", vec![7; 3 << 20]).mount() else { return };
    program("git");
    sh(
        mount.path(),
        "for n in $(seq 60); do echo $n > f$n; echo more >> f$n; cp f$n t; mv t g$n; chmod 600 g$n; ln f$n l$n; done
         rm f1 l2; truncate -s 1 f3; mkdir d; mv f4 d/x; mv d e; ln -s a s; cat g* > all; dd if=/dev/zero of=big bs=64k count=4 conv=notrunc status=none
         python3 -c 'import mmap; f = open(\"a\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[0:3] = b\"map\"; m.close(); f.close()'
         git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm m && git gc -q; tar cf x.tar e; tar xf x.tar; rm -r e",
    )
    .ok();
    let mut client = mount.client();
    for round in 0..20 {
        client.call("write", &json!({"path": "tool", "content": format!("{round}\n")}));
        sh(mount.path(), "echo shell >> tool").ok();
    }
    client.call("move", &json!({"from": "tool", "to": "tool2"}));
    client.call("revert", &json!({"path": "tool2"}));
    client.call("delete", &json!({"path": "all"}));
    assert_eq!(recorded(&mount), Vec::<String>::new());
}

#[test]
fn what_policy_hides_is_not_told() {
    let Some(mount) = Setup::new().policy("deny = [\"/private\", \".env\"]\n").mount() else { return };
    fs::create_dir(mount.beside("private")).unwrap();
    fs::write(mount.beside("private/key"), "x").unwrap();
    fs::write(mount.beside(".env"), "x").unwrap();
    fs::rename(mount.beside(".env"), mount.beside("private/env")).unwrap();
    fs::write(mount.beside("shown"), "x").unwrap();
    fs::remove_dir_all(mount.beside("private")).unwrap();
    assert_eq!(recorded(&mount), ["create shown"]);
}

#[test]
fn a_watcher_wakes_for_what_is_done_beside() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    program("python3");
    let mut child = watcher(mount.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    fs::write(mount.beside("a"), "y, longer").unwrap();
    let mut seen = Vec::new();
    let found = lines.map_while(Result::ok).any(|line| {
        seen.push(line.clone());
        ["modify a", "attrib a"].contains(&&*line)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "{seen:?}");
    assert_eq!(recorded(&mount), ["write a"], "waking is no change");
}

#[test]
fn a_flood_beside_is_recorded_whole_and_stalls_nobody() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let script = "mkdir -p t/{1..30} && for d in t/*; do for f in $(seq 100); do echo $f > $d/$f; done; done";
    let mut flood =
        std::process::Command::new("bash").args(["-c", script]).current_dir(mount.source()).spawn().unwrap();
    let mut slowest = std::time::Duration::ZERO;
    while flood.try_wait().unwrap().is_none() {
        let start = std::time::Instant::now();
        fs::write(mount.at("a"), "through the mount").unwrap();
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest.as_secs() < 5, "a write took {slowest:?}");
    let all = recorded(&mount);
    let made = all.iter().filter(|change| change.starts_with("create t")).count();
    assert_eq!(made, 3031);
    // A file that was found while its content was on the way is told of again.
    let other: Vec<_> = all.iter().filter(|change| !change.contains(" t/")).collect();
    assert!(other.is_empty() || other == ["create t"], "{other:?}");
}

#[test]
fn attributes_of_a_directory_that_nobody_holds_are_recorded_and_come_back() {
    let Some(mount) = Setup::new().mount() else { return };
    fs::create_dir(mount.beside("d")).unwrap();
    assert_eq!(recorded(&mount), ["create d"]);
    let tag = |path: &std::path::Path| sh(path, "getfattr --only-values -n user.tag d").ok();
    sh(mount.source(), "setfattr -n user.tag -v value d").ok();
    assert_eq!(recorded(&mount), ["create d", "meta d"]);
    mount.client().call("checkpoint", &json!({"name": "tagged"}));
    sh(mount.path(), "rmdir d").ok();
    mount.client().revert(&json!({"checkpoint": "tagged"}));
    assert_eq!(tag(mount.source()), "value");
}

#[test]
fn a_checkpoint_stands_behind_all_that_was_done_beside_before_it() {
    let Some(mount) = Setup::new().mount() else { return };
    for round in 0..20 {
        sh(mount.source(), &format!("for i in $(seq 20); do echo {round} > f{round}-$i; done; mkdir d{round}")).ok();
        let mut client = mount.client();
        client.call("checkpoint", &json!({"name": format!("round {round}")}));
        let later = client.history(Some(&format!("d{round}")));
        assert_eq!(later.len(), 1, "the last thing done is recorded at once");
        client.revert(&json!({"checkpoint": format!("round {round}")}));
        assert!(mount.beside(&format!("f{round}-20")).exists() && mount.beside(&format!("d{round}")).exists());
    }
}
