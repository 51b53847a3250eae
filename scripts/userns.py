"""userns.py COMMAND...: runs it as root of a user and a mount namespace of its own, where root may mount but has no privilege outside.

Started by root it knows the ids 0 to 65535 as they are; started by a user, only that user, as root.
"""

import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


uid, gid = os.getuid(), os.getgid()
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    os.write(ready[1], b".")
    os.close(go[1])
    if not os.read(go[0], 1):
        sys.exit(1)
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(ready[1])
if os.read(ready[0], 1):
    size = 65536 if uid == 0 else 1
    if uid:
        with open(f"/proc/{child}/setgroups", "w") as file:
            file.write("deny")
    for name, outside in (("uid_map", uid), ("gid_map", gid)):
        with open(f"/proc/{child}/{name}", "w") as file:
            file.write(f"0 {outside} {size}")
    os.write(go[1], b".")
os.close(go[1])
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(status if status >= 0 else 128 - status)
