//! Who owns what is made, who may do what, and bits that a write takes away.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::harness::{Mounted, Setup, sh, sh_as};

const USER: u32 = 1000;

/// A mount that other users may use too, with a folder that anybody may write in.
fn shared() -> Option<Mounted> {
    let mount = Setup::new().with(&["-o", "allow_other"]).mount()?;
    std::fs::create_dir(mount.beside("open")).unwrap();
    std::fs::set_permissions(mount.beside("open"), PermissionsExt::from_mode(0o777)).unwrap();
    Some(mount)
}

#[test]
fn what_a_user_makes_is_that_users() {
    let Some(mount) = shared() else { return };
    let script =
        "umask 027; echo x > file; mkdir dir; ln -s file link; mkfifo pipe; ln file hard; stat -c '%n %u:%g %a' *";
    let out = sh_as(USER, &mount.at("open"), script).ok();
    let wanted = "dir 1000:1000 750\nfile 1000:1000 640\nhard 1000:1000 640\nlink 1000:1000 777\npipe 1000:1000 640\n";
    assert_eq!(out, wanted);
    assert_eq!(sh(&mount.beside("open"), "stat -c '%n %u:%g %a' *").ok(), wanted, "beside the mount");
}

#[test]
fn a_user_may_not_do_more_than_the_host_allows() {
    let Some(mount) = shared() else { return };
    std::fs::write(mount.beside("secret"), "x").unwrap();
    std::fs::set_permissions(mount.beside("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    for script in [
        "cat ../secret",
        "echo x > ../secret",
        "echo x > ../new",
        "mv ../secret .",
        "chmod 666 ../secret",
        "chown 1000 ../secret",
    ] {
        let said = sh_as(USER, &mount.at("open"), script).fails();
        assert!(said.contains("ermission denied") || said.contains("not permitted"), "{script}: {said}");
    }
    assert_eq!(std::fs::read_to_string(mount.beside("secret")).unwrap(), "x");
}

#[test]
fn a_sticky_folder_protects_the_files_of_others() {
    let Some(mount) = shared() else { return };
    std::fs::set_permissions(mount.beside("open"), PermissionsExt::from_mode(0o1777)).unwrap();
    std::fs::write(mount.beside("open/of-root"), "x").unwrap();
    sh_as(USER, &mount.at("open"), "rm -f of-root").fails();
    assert!(mount.beside("open/of-root").exists());
}

#[test]
fn a_setgid_folder_gives_its_group() {
    let Some(mount) = shared() else { return };
    sh(mount.path(), "mkdir team; chgrp 2000 team; chmod 2777 team").ok();
    let out = sh(&mount.at("team"), "umask 022; echo > file; mkdir dir; stat -c '%n %g %a' *").ok();
    assert_eq!(out, "dir 2000 2755\nfile 2000 644\n");
    let out =
        sh_as(USER, &mount.at("team"), "umask 022; mkdir mine; echo > mine/file; stat -c '%u:%g %a' mine mine/file")
            .ok();
    assert_eq!(out, "1000:2000 2755\n1000:2000 644\n");
}

#[test]
fn a_write_by_a_user_clears_setuid_and_setgid() {
    let Some(mount) = shared() else { return };
    sh_as(USER, &mount.at("open"), "echo x > p; chmod 6755 p; stat -c %a p | grep -qx 6755; echo y >> p").ok();
    assert_eq!(std::fs::metadata(mount.beside("open/p")).unwrap().mode() & 0o7777, 0o755);
    sh_as(USER, &mount.at("open"), "chmod 6755 p; truncate -s 0 p").ok();
    assert_eq!(std::fs::metadata(mount.beside("open/p")).unwrap().mode() & 0o7777, 0o755, "after truncate");
}

#[test]
fn chown_and_chmod_reach_the_host() {
    let Some(mount) = shared() else { return };
    sh(mount.path(), "echo > f; chown 1234:4321 f; chmod 4751 f; ln -s f l; chown -h 77:88 l").ok();
    assert_eq!(sh(mount.source(), "stat -c '%u:%g %a' f; stat -c '%u:%g' l").ok(), "1234:4321 4751\n77:88\n");
    assert_eq!(sh(mount.path(), "stat -c '%u:%g %a' f; stat -c '%u:%g' l").ok(), "1234:4321 4751\n77:88\n");
}

#[test]
fn without_allow_other_nobody_else_gets_in() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let said = sh_as(USER, mount.setup().dir(), "cat mnt/a").fails();
    assert!(said.contains("Permission denied"), "{said}");
}
