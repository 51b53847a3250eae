//! Appending from several processes: every line whole, none lost.

use std::{collections::HashMap, process::Child};

use crate::harness::{Mounted, as_child};

#[test]
fn four_processes_append_to_one_file() {
    let Some(mount) = Mounted::new() else { return };
    let script = |name: &str| format!("exec >>log; for i in $(seq 500); do echo \"{name} $i\"; done");
    let children: Vec<Child> = ["a", "b", "c", "d"].map(|name| as_child(mount.path(), &script(name))).into();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let log = std::fs::read_to_string(mount.at("log")).unwrap();
    let mut last: HashMap<&str, u32> = HashMap::new();
    for line in log.lines() {
        let (name, number) = line.split_once(' ').unwrap_or_else(|| panic!("torn: {line:?}"));
        let before = last.insert(name, number.parse().unwrap()).unwrap_or_default();
        assert_eq!(number, (before + 1).to_string(), "of {name}");
    }
    assert_eq!(last, HashMap::from([("a", 500), ("b", 500), ("c", 500), ("d", 500)]));
    assert_eq!(std::fs::read_to_string(mount.beside("log")).unwrap(), log);
}

#[test]
fn an_append_beside_the_mount_is_not_overwritten() {
    use std::io::Write;
    let Some(mount) = Mounted::new() else { return };
    let append = |path| std::fs::File::options().append(true).create(true).open(path).unwrap();
    let (mut through, mut beside) = (append(mount.at("log")), append(mount.beside("log")));
    for round in 0..100 {
        writeln!(through, "through {round}").unwrap();
        writeln!(beside, "beside {round}").unwrap();
    }
    drop(through);
    let lines = std::fs::read_to_string(mount.beside("log")).unwrap();
    assert_eq!(lines.lines().count(), 200, "{lines}");
}
