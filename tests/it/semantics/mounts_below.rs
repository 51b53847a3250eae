//! What something else is mounted on below a source is not part of the view, and is not half of it either.

use std::path::PathBuf;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use serde_json::json;

use crate::harness::{Mounted, Setup, sh, wait_for};

/// Something mounted below a source, until dropped.
struct Below(PathBuf);

impl Drop for Below {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            assert!(std::thread::panicking(), "{:?}: {error}", self.0);
        }
    }
}

fn tmpfs(path: PathBuf) -> Below {
    tmpfs_with(path, None)
}

fn tmpfs_with(path: PathBuf, options: Option<&std::ffi::CStr>) -> Below {
    mount("tmpfs", &path, "tmpfs", MountFlags::empty(), options)
        .unwrap_or_else(|error| panic!("this test needs root: {error}"));
    Below(path)
}

fn view() -> Option<(Mounted, Vec<Below>)> {
    if crate::harness::left_out() {
        return None;
    }
    let setup =
        Setup::new().file("dir/a", "a\n").file("dir/volume/under", "u\n").file("dir/file", "f\n").file("b", "b\n");
    let volume = tmpfs(setup.source().join("dir/volume"));
    std::fs::write(volume.0.join("inside"), "secret\n").unwrap();
    let file = setup.source().join("dir/file");
    mount_bind(setup.source().join("b"), &file).unwrap();
    // The mounts go first, so that nothing is removed through them.
    setup.mount().map(|mount| (mount, vec![volume, Below(file)]))
}

#[test]
fn it_is_neither_listed_nor_found() {
    let Some((mount, _below)) = view() else { return };
    assert_eq!(sh(mount.path(), "find . | sort; ls -la dir > /dev/null").ok(), ".\n./b\n./dir\n./dir/a\n");
    for name in ["dir/volume", "dir/volume/inside", "dir/volume/under", "dir/file"] {
        let error = std::fs::symlink_metadata(mount.at(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}");
    }
    let mut client = mount.client();
    for (tool, arguments) in [
        ("find", json!({"pattern": "**", "hidden": true, "ignored": true})),
        ("list", json!({"path": ".", "depth": 5, "hidden": true})),
        ("search", json!({"query": "secret", "hidden": true, "ignored": true})),
    ] {
        let said = client.call(tool, &arguments).to_string();
        assert!(!said.contains("volume") && !said.contains("inside") && !said.contains("dir/file"), "{tool}: {said}");
    }
}

#[test]
fn nothing_is_made_over_it_or_taken_from_it() {
    let Some((mount, below)) = view() else { return };
    for script in [
        "mkdir dir/volume",
        "echo x > dir/volume/new",
        "mv b dir/volume",
        "mv -T b dir/file",
        "ln b dir/file",
        "rmdir dir/volume",
        "rm dir/file",
        "rm -rf dir",
        "mv dir/volume away",
    ] {
        sh(mount.path(), script).fails();
    }
    assert_eq!(std::fs::read_to_string(below[0].0.join("inside")).unwrap(), "secret\n");
    assert_eq!(std::fs::read_to_string(mount.beside("b")).unwrap(), "b\n");
}

#[test]
fn what_is_mounted_and_unmounted_later_goes_and_comes() {
    let Some(mount) = Setup::new().file("dir/volume/under", "u\n").file("dir/a", "a\n").mount() else { return };
    assert_eq!(sh(mount.path(), "ls dir; cat dir/volume/under").ok(), "a\nvolume\nu\n");
    let volume = tmpfs(mount.beside("dir/volume"));
    // Nobody tells the kernel of a mount on the host, so what it knows of the name ends with its time.
    wait_for("it to go", || !mount.at("dir/volume").exists());
    let listed = || mount.client().call("find", &json!({"pattern": "**"})).to_string();
    assert!(!listed().contains("volume"));
    drop(volume);
    wait_for("it to come back", || mount.at("dir/volume").exists());
    assert!(listed().contains("dir/volume/under"));
    assert_eq!(std::fs::read_to_string(mount.at("dir/volume/under")).unwrap(), "u\n");
}

#[test]
fn a_full_disk_below_a_source_refuses_tools_and_changes_nothing() {
    if crate::harness::left_out() {
        return;
    }
    let setup = Setup::new();
    let volume = tmpfs_with(setup.source().to_owned(), Some(c"size=256k"));
    std::fs::write(volume.0.join("a"), "one\n").unwrap();
    // The mount goes first.
    let Some((mount, _volume)) = setup.mount().map(|mount| (mount, volume)) else { return };
    let mut client = mount.client();
    let large = "x".repeat(1 << 20);
    for (tool, arguments) in [
        ("write", json!({"path": "a", "content": large})),
        ("write", json!({"path": "new", "content": large})),
        ("edit", json!({"path": "a", "edits": [{"old_text": "one", "new_text": large}]})),
    ] {
        let error = client.try_call(tool, &arguments).unwrap_err();
        assert_eq!((error.code.as_str(), &error.body["applied"]), ("no_space", &json!(false)), "{}", error.body);
    }
    assert_eq!(sh(mount.source(), "cat a; ls -A").ok(), "one\na\n");
    client.call("write", &json!({"path": "a", "content": "two\n"}));
    assert_eq!(sh(mount.source(), "cat a").ok(), "two\n");
}
