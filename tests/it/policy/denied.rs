//! What is denied does not exist, by whatever call and spelling.

use rustix::io::Errno;
use serde_json::json;

use super::{guarded, untouched};
use crate::harness::{as_user, program, sh};

/// Names that lead to what is denied.
const SPELLINGS: &[&str] = &[
    ".env",
    "./.env",
    "dir/../.env",
    "dir/.env",
    "private",
    "private/key.pem",
    "private/deep/notes.txt",
    "private/../private/key.pem",
    "dir/../private/deep/notes.txt",
    "dir//.env",
    "private/.",
    "locked/../.env",
];

#[test]
fn every_call_answers_as_for_what_is_not_there() {
    let Some(mount) = guarded().mount() else { return };
    for spelling in SPELLINGS {
        let path = mount.at(spelling);
        let code = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).map(|_| ()).map_err(code), Err(Errno::NOENT), "lstat {spelling}");
        assert_eq!(std::fs::read(&path).map_err(code), Err(Errno::NOENT), "open {spelling}");
        assert_eq!(std::fs::read_dir(&path).map(|_| ()).map_err(code), Err(Errno::NOENT), "opendir {spelling}");
        assert_eq!(std::fs::remove_file(&path).map_err(code), Err(Errno::NOENT), "unlink {spelling}");
        assert_eq!(std::fs::rename(&path, mount.at("out")).map_err(code), Err(Errno::NOENT), "rename {spelling}");
        assert_eq!(std::fs::hard_link(&path, mount.at("out")).map_err(code), Err(Errno::NOENT), "link {spelling}");
        assert_eq!(std::fs::read_link(&path).map_err(code), Err(Errno::NOENT), "readlink {spelling}");
    }
    untouched(&mount);
}

#[test]
fn no_listing_names_it() {
    let Some(mount) = guarded().mount() else { return };
    let wanted = ".\n./dir\n./dir/free.txt\n./free.txt\n./locked\n./locked/a.txt\n";
    assert_eq!(sh(mount.path(), "find . | sort").ok(), wanted);
    assert_eq!(
        sh(mount.path(), "shopt -s dotglob; echo * dir/*; ls -AR | grep -c env || true").ok(),
        "dir free.txt locked dir/free.txt\n0\n"
    );
}

#[test]
fn links_are_not_counted() {
    let Some(mount) = guarded().mount() else { return };
    // A directory's link count is two and one for each directory in it: a hidden one must not show.
    let seen = sh(mount.path(), "stat -c %h .; find . -mindepth 1 -maxdepth 1 -type d | wc -l").ok();
    let numbers: Vec<u32> = seen.lines().map(|line| line.parse().unwrap()).collect();
    assert!(
        numbers[0] == 1 || numbers[0] == numbers[1] + 2,
        "link count {} with {} folders to be seen",
        numbers[0],
        numbers[1]
    );
}

#[test]
fn making_it_is_refused_whether_or_not_it_is_there() {
    let Some(mount) = guarded().mount() else { return };
    let script = |name: &str, act: &str| format!("{{ {}; }} 2>&1 || true", act.replace("NAME", name));
    for act in [
        "echo x > NAME",
        "mkdir NAME",
        "ln -s free.txt NAME",
        "ln free.txt NAME",
        "mkfifo NAME",
        "cp free.txt NAME",
        "mv -T dir/free.txt NAME",
    ] {
        let there = sh(mount.path(), &script("private", act)).ok().replace("private", "NAME");
        let missing = sh(mount.path(), &script(".env.new", act)).ok().replace(".env.new", "NAME");
        assert!(there.contains("denied"), "{act}: {there}");
        assert_eq!(there, missing, "{act}: tells whether it exists");
    }
    untouched(&mount);
    assert_eq!(std::fs::read_to_string(mount.at("dir/free.txt")).unwrap(), "free too\n");
}

#[test]
fn a_folder_with_only_hidden_things_is_not_removed() {
    let Some(mount) = guarded().file("only/.env", "x").mount() else { return };
    let error = std::fs::remove_dir(mount.at("only")).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTEMPTY));
    sh(mount.path(), "rm -rf only").fails();
    assert!(mount.beside("only/.env").exists());
}

#[test]
fn python_and_mmap_see_nothing_either() {
    program("python3");
    let Some(mount) = guarded().mount() else { return };
    let script = "python3 - <<'P'
import os, mmap
for p in ['.env', 'private/key.pem', 'dir/.env']:
    for act in (lambda: open(p), lambda: os.stat(p), lambda: os.open(p, os.O_PATH), lambda: mmap.mmap(os.open(p, os.O_RDONLY), 0), lambda: os.getxattr(p, 'user.wardfs.hash')):
        try: act()
        except FileNotFoundError: continue
        raise SystemExit('seen: ' + p)
d = os.open('.', os.O_RDONLY)
for act in (lambda: os.open('.env', os.O_RDONLY, dir_fd=d), lambda: os.stat('private', dir_fd=d)):
    try: act()
    except FileNotFoundError: continue
    raise SystemExit('seen by a directory handle')
P";
    sh(mount.path(), script).ok();
}

#[test]
fn an_ordinary_user_sees_no_more() {
    let Some(mount) = guarded().with(&["-o", "allow_other"]).mount() else { return };
    let output = as_user(1000, "cat").arg(mount.at(".env")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("No such file"), "{output:?}");
}

#[test]
fn tools_answer_as_for_what_is_not_there() {
    let Some(mount) = guarded().mount() else { return };
    let mut client = mount.client();
    for spelling in SPELLINGS {
        for (tool, arguments) in [
            ("read", json!({"path": spelling})),
            ("list", json!({"path": spelling})),
            ("edit", json!({"path": spelling, "edits": [{"old_text": "hunter2", "new_text": "x"}]})),
            ("delete", json!({"path": spelling, "recursive": true})),
            ("move", json!({"from": spelling, "to": "out"})),
            ("copy", json!({"from": spelling, "to": "out"})),
        ] {
            assert_eq!(client.refused(tool, &arguments), "not_found", "{tool} {spelling}");
        }
        assert_eq!(client.call("stat", &json!({"path": spelling}))["exists"], json!(false), "{spelling}");
    }
    for (path, mode) in
        [(".env", "overwrite"), (".env.new", "create"), ("private/new", "create"), ("dir/.env", "append")]
    {
        let code = client.refused("write", &json!({"path": path, "content": "x", "mode": mode}));
        assert!(code == "create_denied" || code == "not_found", "{path}: {code}");
    }
    untouched(&mount);
}

#[test]
fn tools_do_not_leave_the_view() {
    let Some(mount) = guarded().mount() else { return };
    let outside = mount.setup().dir().join("outside.txt");
    std::fs::write(&outside, super::SECRET).unwrap();
    let mut client = mount.client();
    let source = mount.beside("free.txt");
    for path in
        ["/etc/passwd", outside.to_str().unwrap(), "../outside.txt", "dir/../../outside.txt", "/proc/self/environ", "/"]
    {
        let error = client.try_call("read", &json!({"path": path})).unwrap_err();
        assert_eq!(error.code, "outside_view", "{path}: {}", error.body);
    }
    assert_eq!(client.read(mount.at("free.txt").to_str().unwrap()), "free\n", "below the mountpoint");
    assert_eq!(client.read("/workspace/free.txt"), "free\n", "by the alias");
    let code = client.refused("read", &json!({"path": source.to_str().unwrap()}));
    assert_eq!(code, "outside_view", "the source's own path");
}
