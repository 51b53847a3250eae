//! Everything that is no file and no directory.

use crate::harness::{Mounted, Setup, is_root, sh};

#[test]
fn a_fifo_carries_bytes() {
    let Some(mount) = Mounted::new() else { return };
    assert_eq!(sh(mount.path(), "mkfifo p; echo through > p & cat p; wait; stat -c %F p").ok(), "through\nfifo\n");
}

#[test]
fn a_socket_can_be_bound_and_reached() {
    let Some(mount) = Mounted::new() else { return };
    let listener = std::os::unix::net::UnixListener::bind(mount.at("s")).unwrap();
    let client = std::os::unix::net::UnixStream::connect(mount.at("s")).unwrap();
    std::io::Write::write_all(&mut &client, b"hello").unwrap();
    drop(client);
    let (server, _) = listener.accept().unwrap();
    assert_eq!(std::io::read_to_string(server).unwrap(), "hello");
    assert_eq!(sh(mount.path(), "stat -c %F s").ok(), "socket\n");
}

#[test]
fn symlinks_keep_their_bytes_and_are_followed() {
    let Some(mount) = Setup::new().file("dir/a", "x").mount() else { return };
    let long = "l".repeat(3000);
    std::os::unix::fs::symlink(&long, mount.at("long")).unwrap();
    assert_eq!(std::fs::read_link(mount.at("long")).unwrap().to_str(), Some(&*long));
    assert_eq!(std::fs::symlink_metadata(mount.at("long")).unwrap().len(), 3000);
    assert_eq!(
        sh(mount.path(), "ln -s dir/a l; ln -s dir d; ln -s loop loop; cat l d/a; cat loop 2>&1 || true").ok(),
        "xxcat: loop: Too many levels of symbolic links\n"
    );
}

#[test]
fn a_device_can_be_made_and_not_used() {
    let Some(mount) = Mounted::new() else { return };
    if !is_root() {
        let said = sh(mount.path(), "mknod null c 1 3").fails();
        assert!(said.contains("Operation not permitted") && !mount.beside("null").exists(), "{said}");
        return;
    }
    let out = sh(
        mount.path(),
        "mknod null c 1 3; stat -c '%F %t %T' null; (echo x > null) 2>/dev/null && echo used || echo refused",
    )
    .ok();
    assert_eq!(out, "character special file 1 3\nrefused\n");
}
