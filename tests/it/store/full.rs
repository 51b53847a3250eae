//! A store that is full: the oldest goes, or changes are refused; it stays within its quota either way.

use std::time::{Duration, Instant};

use crate::harness::{Mounted, Setup, Shell, sh};

/// Bytes that a store takes on its disk, without what is allocated ahead.
fn taken(mount: &Mounted) -> u64 {
    mount.status()["store"]["fullness"]["used"].as_u64().unwrap()
}

#[test]
fn rebuilding_again_and_again_stays_within_the_quota() {
    let Some(mount) = Setup::new().with(&["-o", "retain_bytes=16MiB"]).mount() else { return };
    sh(mount.path(), "echo precious > notes; echo changed > notes").ok();
    let mut most = 0;
    for round in 0..12 {
        let script = "mkdir -p target/deps; for i in $(seq 60); do head -c 40000 /dev/urandom > target/deps/f$i; done; rm -rf target";
        sh(mount.path(), script).ok();
        let start = Instant::now();
        // The keeper looks twice a second.
        while taken(&mount) > 16 << 20 {
            assert!(start.elapsed() < Duration::from_secs(60), "round {round}: {} stays", taken(&mount));
            std::thread::sleep(Duration::from_millis(50));
        }
        most = most.max(taken(&mount));
    }
    let status = mount.status();
    let full = &status["store"]["fullness"];
    assert_eq!(full["quota"], 16 << 20, "{full}");
    let rules: Vec<_> = full["dropped"].as_array().unwrap().iter().map(|rule| rule["rule"].clone()).collect();
    assert!(rules.contains(&"quota".into()) || rules.contains(&"short".into()), "{full}");
    // What is kept shortly went first.
    let mut client = mount.client();
    let old = client.history(Some("notes"));
    let first = old.last().unwrap()["operation"].clone();
    let found = client.call("read", &serde_json::json!({"path": "notes", "at": {"operation": first}}));
    assert!(found.to_string().contains("precious"), "{found}");
    let gone = client.history(Some("target/deps/f1"));
    let oldest = gone.iter().rev().find(|operation| operation["changes"][0]["change"] == "remove").unwrap().clone();
    let at = serde_json::json!({"path": "target/deps/f1", "at": {"before": oldest["operation"]}});
    let error = client.try_call("read", &at).unwrap_err();
    let said = format!("{error:?}");
    assert!(said.contains("trimmed") && said.contains("quota"), "{said}");
    let verified = Shell::of(mount.wardfs().args(["verify", "--store"]).arg(mount.answer()["store"].as_str().unwrap()));
    assert_eq!(verified.status, 0, "{verified:?}");
}

#[test]
fn a_store_told_to_refuse_answers_edquot_and_keeps_its_history() {
    let Some(mount) = Setup::new().with(&["-o", "on_full=refuse,retain_bytes=2MiB"]).mount() else { return };
    let script = "
import errno, os
for i in range(400):
    with open('f%d' % i, 'wb') as f: f.write(os.urandom(40000))
refused = 0
for i in range(400):
    try:
        with open('f%d' % i, 'r+b') as f: f.write(b'over')
    except OSError as error:
        assert error.errno == errno.EDQUOT, error
        refused += 1
print(refused)
";
    std::fs::write(mount.setup().dir().join("script.py"), script).unwrap();
    let said = sh(mount.path(), "python3 ../script.py").ok();
    let refused: u32 = said.trim().parse().unwrap();
    assert!(refused > 200 && refused < 400, "{refused} of 400 were refused");
    let status = mount.status();
    let full = &status["store"]["fullness"];
    assert_eq!(full["on_full"], "refuse");
    sh(mount.path(), "echo new > new; cat new").ok();
}
