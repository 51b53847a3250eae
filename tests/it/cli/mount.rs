//! `wardfs mount`, `umount`, `serve`: what they print and how they end.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::{Client, Mounted, Setup, Shell, left_out};

#[test]
fn mount_json_has_what_scripts_need() {
    let Some(mount) = Mounted::new() else { return };
    let answer = mount.answer();
    for key in ["mountpoint", "socket", "store", "admin_socket"] {
        assert!(answer[key].as_str().is_some_and(|path| std::path::Path::new(path).exists()), "{key}: {answer}");
    }
    assert_eq!(answer["mountpoint"].as_str().unwrap(), mount.path().to_str().unwrap());
    assert!(answer["stores"].is_array() || answer["stores"].is_object(), "{answer}");
    assert!(answer["pid"].is_u64());
    for key in ["socket", "admin_socket"] {
        let mode = std::fs::metadata(answer[key].as_str().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{key} is open to others: {mode:o}");
    }
}

#[test]
fn mount_without_json_is_for_people() {
    if left_out() {
        return;
    }
    let setup = Setup::new();
    let output = std::process::Command::new("timeout")
        .arg("60")
        .arg(setup.wardfs().get_program())
        .args(["mount", "--store"])
        .arg(setup.dir().join("store"))
        .arg(setup.source())
        .arg(setup.dir().join("mnt"))
        .envs(setup.wardfs().get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(std::fs::File::create(setup.dir().join("out")).unwrap())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    let said = std::fs::read_to_string(setup.dir().join("out")).unwrap();
    Shell::of(setup.wardfs().arg("umount").arg(setup.dir().join("mnt"))).ok();
    assert!(output.success() && said.contains(setup.dir().join("mnt").to_str().unwrap()), "{said}");
}

#[test]
fn a_failure_is_one_line_and_leaves_nothing_mounted() {
    if left_out() {
        return;
    }
    let setup = Setup::new();
    std::fs::remove_dir(setup.source()).unwrap();
    let shell = Shell::of(&mut setup.mount_command());
    assert_eq!((shell.status, shell.err.trim_end().lines().count(), &*shell.out), (1, 1, ""), "{shell:?}");
    assert!(shell.err.contains(setup.source().to_str().unwrap()), "{shell:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(setup.dir().to_str().unwrap()));
}

#[test]
fn wrong_usage_exits_with_2() {
    let setup = Setup::new();
    for arguments in [&["mount"][..], &["mount", "--no-such-option", "a", "b"], &["no-such-command"]] {
        let shell = Shell::of(setup.wardfs().args(arguments));
        assert_eq!(shell.status, 2, "{arguments:?}: {shell:?}");
    }
}

#[test]
fn umount_of_what_is_not_mounted_says_so() {
    let setup = Setup::new();
    let shell = Shell::of(setup.wardfs().arg("umount").arg(setup.dir().join("mnt")));
    assert_eq!(shell.status, 1, "{shell:?}");
    assert!(shell.err.contains("mnt"), "{shell:?}");
}

#[test]
fn several_sources_are_directories_of_the_root() {
    if left_out() {
        return;
    }
    let setup = Setup::new().file("a", "one\n");
    let second = setup.dir().join("second");
    std::fs::create_dir(&second).unwrap();
    std::fs::write(second.join("b"), "two\n").unwrap();
    let Some(mount) = setup.with(&[second.to_str().unwrap()]).mount() else { return };
    let mut names: Vec<_> = std::fs::read_dir(mount.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["second", "source"]);
    std::fs::write(mount.at("second/b"), "changed\n").unwrap();
    assert_eq!(std::fs::read_to_string(second.join("b")).unwrap(), "changed\n");
    assert_eq!(mount.client().read("source/a"), "one\n");
    assert!(std::fs::write(mount.at("new"), "x").is_err(), "the root of several sources is nobody's");
}

#[test]
fn serve_gives_a_socket_without_a_mount() {
    let setup = Setup::new().file("a", "one\n");
    let out = setup.dir().join("out");
    let status = setup
        .wardfs()
        .args(["serve", "--json", "--store"])
        .arg(setup.dir().join("store"))
        .arg(setup.source())
        .stdin(std::process::Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    let said = std::fs::read_to_string(&out).unwrap();
    assert!(status.success(), "{said}");
    let answer: Value = serde_json::from_str(&said).unwrap();
    let pid =
        answer["pid"].as_i64().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).unwrap())).unwrap();
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let mut client = Client::connect(answer["socket"].as_str().unwrap().as_ref());
    let read = client.read("a");
    client.call("write", &json!({"path": "a", "content": "two\n"}));
    let rows = client.history(Some("a")).len();
    rustix::process::pidfd_send_signal(&fd, rustix::process::Signal::TERM).unwrap();
    let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    let mut wait = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut wait, Some(&limit)), Ok(1), "serve does not end on SIGTERM");
    assert_eq!((&*read, rows), ("one\n", 1));
    assert_eq!(std::fs::read_to_string(setup.source().join("a")).unwrap(), "two\n");
}
