//! What the mount says of itself.

use crate::harness::{Mounted, sh};

#[test]
fn space_is_the_hosts() {
    let Some(mount) = Mounted::new() else { return };
    let here = rustix::fs::statvfs(mount.path()).unwrap();
    let host = rustix::fs::statvfs(mount.source()).unwrap();
    assert_eq!((here.f_blocks * here.f_frsize, here.f_files), (host.f_blocks * host.f_frsize, host.f_files));
    assert_eq!(here.f_namemax, 255);
    sh(mount.path(), "df . && df -i .").ok();
}

#[test]
fn the_mount_is_ours_and_trusts_no_device_or_setuid() {
    let Some(mount) = Mounted::new() else { return };
    let line = mount.mountinfo().unwrap();
    let (before, after) = line.split_once(" - ").unwrap();
    let options: Vec<&str> = before.split(' ').nth(5).unwrap().split(',').collect();
    assert!(options.contains(&"nosuid") && options.contains(&"nodev"), "{line}");
    assert!(after.starts_with("fuse.wardfs "), "{line}");
}

#[test]
fn an_unknown_ioctl_is_refused_as_elsewhere() {
    let Some(mount) = Mounted::new() else { return };
    let script = "echo > f; python3 -c \"
import fcntl, errno
try: fcntl.ioctl(open('f'), 0x12345678)
except OSError as e: print(errno.errorcode[e.errno])
\"";
    assert_eq!(sh(mount.path(), script).ok(), "ENOTTY\n");
}
