//! A mountpoint or a store inside the source is not seen through the mount.

use crate::harness::{Mounted, Setup, sh};

fn inside() -> Option<Mounted> {
    let setup = Setup::new().file("a", "x").file("dir/b", "y");
    let (mountpoint, store) = (setup.source().join("dir/mnt"), setup.source().join("dir/store"));
    std::fs::create_dir_all(&mountpoint).unwrap();
    setup.mountpoint(mountpoint).store(store).mount()
}

#[test]
fn neither_is_listed_or_found() {
    let Some(mount) = inside() else { return };
    assert_eq!(sh(mount.path(), "find . | sort").ok(), ".\n./a\n./dir\n./dir/b\n");
    for name in ["dir/mnt", "dir/store", "dir/mnt/a", "dir/store/x"] {
        let error = std::fs::symlink_metadata(mount.at(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}");
    }
    let mut client = mount.client();
    let listed =
        client.call("find", &serde_json::json!({"pattern": "**", "hidden": true, "ignored": true})).to_string();
    assert!(!listed.contains("mnt") && !listed.contains("store"), "{listed}");
}

#[test]
fn neither_can_be_made_or_replaced() {
    let Some(mount) = inside() else { return };
    for script in [
        "mkdir dir/mnt",
        "echo > dir/store",
        "mv a dir/store",
        "ln -s a dir/mnt",
        "ln a dir/store",
        "rm -r dir/store",
        "rmdir dir/mnt",
        "mv dir/store b",
    ] {
        sh(mount.path(), script).fails();
    }
    sh(mount.path(), "rm -rf dir; mkdir -p dir/other").fails();
    assert!(mount.is_mounted() && mount.beside("dir/store").is_dir());
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "x");
}

#[test]
fn a_mountpoint_over_the_source_itself_works_or_is_refused_in_words() {
    let setup = Setup::new().file("a", "x");
    let source = setup.source().to_owned();
    if crate::harness::left_out() {
        return;
    }
    let output = setup.mountpoint(source.clone()).mount_or_refusal();
    match output {
        Ok(mount) => assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "x"),
        Err(said) => assert!(said.contains(source.to_str().unwrap()), "{said}"),
    }
}
