//! Changes beside the mount, in the source itself, are seen as soon as they are reported, however long the kernel may believe
//! what it was told before.

use std::{
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use serde_json::json;

use crate::harness::{Mounted, Setup, sh, wait_for};

/// A mount that believes for long, of a source with a file `a`, a link `link` and a directory `dir` with a file `f`.
fn mounted() -> Option<Mounted> {
    let setup = Setup::new().file("a", "one\n").file("dir/f", "inside\n");
    symlink("a", setup.source().join("link")).unwrap();
    let mount = setup.mount()?;
    let told = mount.client().call("info", &json!({}))["sources"][0]["freshness"].clone();
    assert_eq!(told, "told", "this file system tells of its changes");
    Some(mount)
}

fn names(path: &Path) -> Vec<String> {
    let mut all: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Lets the kernel know what is there, and what is not.
fn known(mount: &Mounted) {
    assert_eq!(names(mount.path()), ["a", "dir", "link"]);
    assert_eq!(names(&mount.at("dir")), ["f"]);
    assert_eq!(fs::metadata(mount.at("a")).unwrap().len(), 4);
    assert_eq!(fs::read_to_string(mount.at("link")).unwrap(), "one\n");
    assert!(!mount.at("new").exists() && !mount.at("dir/new").exists());
    // Reading made the kernel ask again; now it knows.
    assert_eq!(fs::metadata(mount.at("a")).unwrap().len(), 4);
}

#[test]
fn a_new_name_is_seen_where_there_was_none() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    fs::write(mount.beside("new"), "x").unwrap();
    fs::create_dir(mount.beside("dir/new")).unwrap();
    wait_for("the new names", || mount.at("new").exists() && mount.at("dir/new").is_dir());
    wait_for("the listings", || names(mount.path()).len() == 4 && names(&mount.at("dir")) == ["f", "new"]);
    fs::remove_file(mount.beside("new")).unwrap();
    fs::remove_dir(mount.beside("dir/new")).unwrap();
    wait_for("their removal", || !mount.at("new").exists() && !mount.at("dir/new").exists());
    wait_for("the listings", || names(mount.path()).len() == 3 && names(&mount.at("dir")) == ["f"]);
}

#[test]
fn another_content_size_and_mode_are_seen() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    let size = || fs::metadata(mount.at("a")).unwrap().len();
    fs::write(mount.beside("a"), "two, longer\n").unwrap();
    wait_for("the size", || size() == 12);
    assert_eq!(fs::read_to_string(mount.at("a")).unwrap(), "two, longer\n");
    fs::File::options().write(true).open(mount.beside("a")).unwrap().set_len(3).unwrap();
    wait_for("the shorter size", || size() == 3);
    fs::set_permissions(mount.beside("a"), fs::Permissions::from_mode(0o640)).unwrap();
    wait_for("the mode", || fs::metadata(mount.at("a")).unwrap().mode() & 0o777 == 0o640);
    fs::set_permissions(mount.beside("dir"), fs::Permissions::from_mode(0o700)).unwrap();
    wait_for("the directory's mode", || fs::metadata(mount.at("dir")).unwrap().mode() & 0o777 == 0o700);
    fs::hard_link(mount.beside("a"), mount.beside("second")).unwrap();
    wait_for("the links", || fs::metadata(mount.at("a")).unwrap().nlink() == 2);
    fs::remove_file(mount.beside("second")).unwrap();
    wait_for("one link less", || fs::metadata(mount.at("a")).unwrap().nlink() == 1);
}

#[test]
fn a_write_by_a_second_name_outside_the_source_is_seen() {
    let Some(mount) = mounted() else { return };
    let outside = mount.setup().dir().join("second");
    fs::hard_link(mount.beside("a"), &outside).unwrap();
    known(&mount);
    fs::write(&outside, "from elsewhere\n").unwrap();
    wait_for("the size", || fs::metadata(mount.at("a")).unwrap().len() == 15);
}

#[test]
fn an_atomic_save_is_seen_and_who_has_the_old_file_open_keeps_it() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    let mut open = fs::File::open(mount.at("a")).unwrap();
    fs::write(mount.beside("tmp"), "two\n").unwrap();
    fs::rename(mount.beside("tmp"), mount.beside("a")).unwrap();
    wait_for("the new file", || fs::read_to_string(mount.at("a")).unwrap() == "two\n");
    let mut old = String::new();
    open.read_to_string(&mut old).unwrap();
    assert_eq!(old, "one\n");
    assert!(!mount.at("tmp").exists());
}

#[test]
fn a_link_that_leads_elsewhere_is_seen() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    fs::remove_file(mount.beside("link")).unwrap();
    symlink("dir/f", mount.beside("link")).unwrap();
    wait_for("the new target", || fs::read_to_string(mount.at("link")).is_ok_and(|content| content == "inside\n"));
}

#[test]
fn a_directory_that_moves_is_seen_at_its_new_place_alone() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    let inside = fs::File::open(mount.at("dir")).unwrap();
    fs::create_dir(mount.beside("deep")).unwrap();
    fs::rename(mount.beside("dir"), mount.beside("deep/moved")).unwrap();
    wait_for("the old place is empty", || !mount.at("dir").exists() && !mount.at("dir/f").exists());
    wait_for("the new place", || mount.at("deep/moved/f").exists());
    assert_eq!(names(mount.path()), ["a", "deep", "link"]);
    // Who is in it goes on.
    let through = format!("/proc/self/fd/{}/f", std::os::fd::AsRawFd::as_raw_fd(&inside));
    assert_eq!(fs::read_to_string(through).unwrap(), "inside\n");
    fs::rename(mount.beside("deep/moved"), mount.setup().dir().join("away")).unwrap();
    wait_for("it left", || !mount.at("deep/moved").exists());
    assert_eq!(names(&mount.at("deep")), Vec::<String>::new());
}

#[test]
fn names_that_change_places_all_the_time_end_as_they_are() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    fs::write(mount.beside("b"), "other\n").unwrap();
    let script = "import ctypes, os\nlibc = ctypes.CDLL(None)\n\
                  for _ in range(20001): libc.renameat2(-100, b'a', -100, b'b', 2); libc.renameat2(-100, b'dir', -100, b'link', 2)";
    let mut storm =
        std::process::Command::new("python3").args(["-c", script]).current_dir(mount.source()).spawn().unwrap();
    let mut looks = 0;
    while storm.try_wait().unwrap().is_none() {
        for name in ["a", "b"] {
            let content = fs::read_to_string(mount.at(name)).unwrap();
            assert!(["one\n", "other\n"].contains(&&*content), "{name}: {content}");
        }
        looks += 1;
    }
    assert!(looks > 10, "the storm was over before anybody looked");
    // An odd number of times.
    wait_for("the last exchange", || {
        fs::read_to_string(mount.at("a")).unwrap() == "other\n"
            && fs::read_to_string(mount.at("b")).unwrap() == "one\n"
            && fs::symlink_metadata(mount.at("dir")).unwrap().is_symlink()
            && mount.at("link/f").exists()
    });
}

#[test]
fn tools_see_a_change_beside_at_once() {
    let Some(mount) = mounted() else { return };
    let mut client = mount.client();
    for round in 0..50 {
        fs::write(mount.beside("a"), format!("round {round}\n")).unwrap();
        assert_eq!(client.read("a"), format!("round {round}\n"));
    }
}

#[test]
fn what_one_mount_changes_another_of_the_same_source_sees() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    let other = mount.setup().dir().join("other");
    fs::create_dir(&other).unwrap();
    let mut command = mount.setup().wardfs();
    command.args(["mount", "--store"]).arg(mount.setup().dir().join("store")).arg(mount.source()).arg(&other);
    assert!(command.status().unwrap().success());
    assert_eq!(names(&other), ["a", "dir", "link"]);
    assert!(fs::metadata(other.join("a")).unwrap().len() == 4 && !other.join("new").exists());
    sh(mount.path(), "echo longer > a; echo x > new; rm link; mv dir dir2").ok();
    wait_for("all of it in the other mount", || {
        fs::metadata(other.join("a")).unwrap().len() == 7
            && names(&other) == ["a", "dir2", "new"]
            && other.join("new").exists()
            && !other.join("link").exists()
            && !other.join("dir/f").exists()
    });
    assert!(mount.setup().wardfs().arg("umount").arg(&other).status().unwrap().success());
}

#[test]
fn reports_that_were_lost_cost_nothing_but_another_look() {
    let Some(mount) = mounted() else { return };
    known(&mount);
    let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let pid = mount.pid();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let elsewhere = mount.setup().dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for number in 0..=limit {
        fs::write(elsewhere.join(number.to_string()), "").unwrap();
    }
    fs::write(mount.beside("new"), "x").unwrap();
    fs::write(mount.beside("a"), "two, longer\n").unwrap();
    fs::remove_file(mount.beside("link")).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    wait_for("all that was lost", || {
        mount.at("new").exists()
            && fs::metadata(mount.at("a")).unwrap().len() == 12
            && names(mount.path()) == ["a", "dir", "new"]
            && fs::symlink_metadata(mount.at("link")).is_err()
    });
    wait_for("the kernel's word for it", || mount.status()["outside"]["overflows"].as_u64() > Some(0));
}

#[test]
fn the_past_is_never_what_somebody_wrote_just_now() {
    let Some(mount) = mounted() else { return };
    let mut client = mount.client();
    for n in 0..40 {
        let name = format!("new{n}");
        fs::write(mount.beside(&name), "first\n").unwrap();
        let then = client.call("checkpoint", &json!({"name": name}))["operation"].clone();
        fs::write(mount.beside(&name), "second\n").unwrap();
        let read = json!({"name": "read", "arguments": {"path": name, "at": then}});
        let answer = client.request("tools/call", &read).to_string();
        assert!(!answer.contains("second"), "{answer}");
        assert!(client.call("read", &json!({"path": name})).to_string().contains("second"), "{name}");
    }
}
