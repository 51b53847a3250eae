//! Handles, `/proc/self/fd` and working directories give no way round.

use super::{guarded, untouched};
use crate::harness::{program, sh};

#[test]
fn proc_self_fd_gives_no_more_than_the_handle() {
    program("python3");
    let Some(mount) = guarded().mount() else { return };
    let script = "python3 - <<'P'
import os
def refused(act, *kinds):
    try: act()
    except kinds: return
    raise SystemExit('went through')
f = os.open('locked/a.txt', os.O_RDONLY)
refused(lambda: os.open(f'/proc/self/fd/{f}', os.O_WRONLY), OSError)
refused(lambda: os.open(f'/proc/self/fd/{f}', os.O_RDWR | os.O_TRUNC), OSError)
refused(lambda: os.truncate(f'/proc/self/fd/{f}', 0), OSError)
refused(lambda: os.chmod(f'/proc/self/fd/{f}', 0o666), OSError)
p = os.open('locked/a.txt', os.O_PATH)
refused(lambda: os.open(f'/proc/self/fd/{p}', os.O_RDWR), OSError)
refused(lambda: os.link(f'/proc/self/fd/{p}', 'out', follow_symlinks=True) or open('out', 'w'), OSError)
d = os.open('dir', os.O_RDONLY)
refused(lambda: os.open(f'/proc/self/fd/{d}/.env', os.O_RDONLY), FileNotFoundError)
refused(lambda: os.open(f'/proc/self/fd/{d}/../private/key.pem', os.O_RDONLY), FileNotFoundError)
assert '.env' not in os.listdir(f'/proc/self/fd/{d}')
os.chdir('dir')
refused(lambda: os.open('../.env', os.O_RDONLY), FileNotFoundError)
refused(lambda: os.open('/proc/self/cwd/.env', os.O_RDONLY), FileNotFoundError)
P";
    sh(mount.path(), script).ok();
    untouched(&mount);
}

#[test]
fn a_handle_on_a_parent_does_not_lead_out() {
    let Some(mount) = guarded().mount() else { return };
    let out = sh(&mount.at("dir"), "cd ..; ls -A; cd ..; /bin/pwd").ok();
    assert_eq!(out, format!("dir\nfree.txt\nlocked\n{}\n", mount.setup().dir().display()));
}

#[test]
fn file_handles_of_hidden_inodes_do_not_open() {
    program("python3");
    let Some(mount) = guarded().mount() else { return };
    // The inode number of a secret is no key to it: a handle made up from it is stale or of no file.
    let script = "python3 - <<'P'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
h = Handle(bytes=128); m = ctypes.c_int()
if libc.name_to_handle_at(-100, b'free.txt', ctypes.byref(h), ctypes.byref(m), 0) != 0: sys.exit(0)
secret = os.stat('../source/.env').st_ino
data = bytearray(bytes(h.data)[:h.bytes]); data[:8] = struct.pack('<Q', secret); h.data[:len(data)] = data
d = os.open('.', os.O_RDONLY)
fd = libc.open_by_handle_at(d, ctypes.byref(h), os.O_RDONLY)
if fd >= 0: sys.exit('opened: ' + os.read(fd, 100).decode())
P";
    sh(mount.path(), script).ok();
}
