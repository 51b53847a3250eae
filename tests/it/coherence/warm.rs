//! What the kernel knows it does not ask for: a second look at a tree costs no request.

use serde_json::{Map, Value};

use crate::harness::{Mounted, Setup, program, sh};

/// The requests that somebody waited for. Totals of a file system are never remembered by the kernel, and `find` asks for
/// them once.
fn requests(mount: &Mounted, but: &[&str]) -> Map<String, Value> {
    let mut all = mount.status()["views"][0]["requests"].as_object().unwrap().clone();
    all.retain(|name, _| {
        !["forget", "batch_forget", "statfs"].contains(&name.as_str()) && !but.contains(&name.as_str())
    });
    all
}

/// Does `work` over and over until nothing is asked any more (but requests of some kinds): what was just written is asked for
/// once.
fn costs_nothing(mount: &Mounted, but: &[&str], work: impl Fn()) {
    let mut costs = Vec::new();
    for _ in 0..20 {
        let before = requests(mount, but);
        work();
        let after = requests(mount, but);
        if after == before {
            return;
        }
        costs.push(format!("{before:?} became {after:?}"));
    }
    panic!("it always costs requests: {}", costs[costs.len() - 1]);
}

fn tree() -> Option<Mounted> {
    let mut setup = Setup::new();
    for number in 0..300 {
        setup = setup.file(&format!("d{}/e{}/f{number}", number % 7, number % 3), format!("{number}\n"));
    }
    for number in 0..20 {
        std::os::unix::fs::symlink("../d1", setup.source().join(format!("d{}/link{number}", number % 7))).unwrap();
    }
    setup.mount()
}

#[test]
fn a_second_walk_asks_for_nothing() {
    let Some(mount) = tree() else { return };
    for script in ["find . > /dev/null", "du -s . > /dev/null", "find . -name 'f1*' -newer d1"] {
        costs_nothing(&mount, &[], || drop(sh(mount.path(), script).ok()));
    }
    // It asks once whether there are labels and once whether there are ACLs, and hears that there are none.
    let ls = || drop(sh(mount.path(), "ls -lR > /dev/null").ok());
    costs_nothing(&mount, &["getxattr"], ls);
    let asked = || requests(&mount, &[])["getxattr"].as_u64().unwrap();
    let before = asked();
    ls();
    assert!(asked() - before <= 4, "{}", asked() - before);
}

#[test]
fn a_name_that_is_missing_is_asked_for_once() {
    let Some(mount) = tree() else { return };
    let script = "for n in $(seq 50); do test -e d1/none$n && exit 1; done; true";
    costs_nothing(&mount, &[], || drop(sh(mount.path(), script).ok()));
}

#[test]
fn git_status_asks_for_nothing_but_to_open_its_own_files() {
    let Some(mount) = tree() else { return };
    program("git");
    let git = "git -c core.fsmonitor=false -c core.untrackedCache=false";
    sh(mount.path(), &format!("{git} init -q . && {git} add . && {git} -c user.name=n -c user.email=e commit -qm m"))
        .ok();
    // Each of those is a request, and one more for the time of last access.
    costs_nothing(&mount, &["open", "release", "getattr"], || {
        assert_eq!(sh(mount.path(), &format!("GIT_OPTIONAL_LOCKS=0 {git} status --porcelain")).ok(), "");
    });
}
