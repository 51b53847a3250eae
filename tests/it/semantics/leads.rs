//! Directories that are shown for what is allowed below them: an ordinary user makes, changes and removes allowed names there.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::harness::{Mounted, Setup, sh, sh_as, wait_for};

const USER: u32 = 1000;

/// Folders that anybody may write in, and a view of the Rust files below one of them.
fn only_rust(policy: &str) -> Option<Mounted> {
    let setup = Setup::new().file("src/a.rs", "a\n").file("src/deep/b.rs", "b\n").file("src/c.txt", "c\n");
    for dir in ["", "src", "src/deep"] {
        std::fs::set_permissions(setup.source().join(dir), PermissionsExt::from_mode(0o777)).unwrap();
    }
    for file in ["src/a.rs", "src/deep/b.rs", "src/c.txt"] {
        std::fs::set_permissions(setup.source().join(file), PermissionsExt::from_mode(0o666)).unwrap();
    }
    setup.policy(policy).with(&["-o", "allow_other"]).mount()
}

fn mode(mount: &Mounted, path: &str) -> u32 {
    std::fs::metadata(mount.at(path)).unwrap().mode() & 0o7777
}

#[test]
fn an_ordinary_user_makes_what_is_allowed() {
    let Some(mount) = only_rust("allow = [\"src/**/*.rs\"]\n") else { return };
    let script = "echo new > src/new.rs; mv src/new.rs src/deep/moved.rs; ln src/deep/moved.rs src/hard.rs; \
                  ln -s a.rs src/link.rs; echo more >> src/a.rs; rm src/deep/b.rs; cat src/deep/moved.rs src/link.rs";
    assert_eq!(sh_as(USER, mount.path(), script).ok(), "new\na\nmore\n");
    assert_eq!(
        sh(mount.source(), "cat src/deep/moved.rs; stat -c %u:%h src/hard.rs; ls src/deep").ok(),
        "new\n1000:2\nmoved.rs\n"
    );
    assert_eq!((mode(&mount, ""), mode(&mount, "src"), mode(&mount, "src/deep")), (0o777, 0o777, 0o777));
}

#[test]
fn nothing_else_can_be_made_or_changed_there() {
    let Some(mount) = only_rust("allow = [\"src/**/*.rs\"]\n") else { return };
    for script in [
        "echo x > src/new.txt",
        "echo x > src/c.txt",
        "echo x > new.rs",
        "mkdir src/more",
        "mv src/a.rs src/a.txt",
        "mv src/a.rs .",
        "mv src/deep src/other",
        "rmdir src/deep",
        "rm -r src",
        "ln src/a.rs src/d.txt",
    ] {
        sh_as(USER, mount.path(), script).fails();
    }
    for script in ["chmod 700 src", "chown 1000 src", "touch -d 2001-01-01 src", "setfattr -n user.x -v y src"] {
        sh(mount.path(), script).fails();
    }
    assert_eq!(
        sh(mount.source(), "find . -type f | sort; cat src/c.txt").ok(),
        "./src/c.txt\nc\n",
        "rm -r took what it may"
    );
}

#[test]
fn the_hosts_own_modes_still_decide() {
    let Some(mount) = only_rust("allow = [\"src/**/*.rs\"]\n") else { return };
    std::fs::set_permissions(mount.beside("src/deep"), PermissionsExt::from_mode(0o755)).unwrap();
    wait_for("the mode", || mode(&mount, "src/deep") == 0o755);
    sh_as(USER, mount.path(), "echo x > src/deep/new.rs").fails();
    sh_as(USER, mount.path(), "rm -f src/deep/b.rs").fails();
    assert_eq!(std::fs::read_to_string(mount.beside("src/deep/b.rs")).unwrap(), "b\n");
}

#[test]
fn what_is_read_only_shows_no_w() {
    for policy in
        ["allow = [\"src/**/*.rs\"]\nread_only = [\"src/\"]\n", "allow = [\"src/**/*.rs\"]\nread_only = [\"**\"]\n"]
    {
        let Some(mount) = only_rust(policy) else { return };
        assert_eq!((mode(&mount, "src"), mode(&mount, "src/deep")), (0o555, 0o555), "{policy}");
        for user in [0, USER] {
            let said = sh_as(user, mount.path(), "echo x > src/new.rs").fails();
            assert!(said.contains("Read-only") || said.contains("denied"), "{policy}: {said}");
        }
    }
}

#[test]
fn a_reload_opens_and_closes_the_root() {
    let Some(mount) = only_rust("read_only = [\"**\"]\n") else { return };
    assert_eq!(mode(&mount, ""), 0o555);
    let reload = |policy: &str| {
        std::fs::write(mount.setup().policy_file(), policy).unwrap();
        rustix::process::kill_process(mount.pid(), rustix::process::Signal::HUP).unwrap();
    };
    reload("allow = [\"src/**/*.rs\"]\n");
    wait_for("the rules of a view of Rust files", || sh_as(USER, mount.path(), "echo x > src/new.rs").status == 0);
    sh_as(USER, mount.path(), "echo x > new").fails();
    reload("");
    wait_for("a root that is open", || sh_as(USER, mount.path(), "echo x > new && chmod 700 new").status == 0);
    sh(mount.path(), "touch -d 2001-01-01 .").ok();
}
