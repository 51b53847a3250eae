//! Locks among those who use one mount.

use crate::harness::{Setup, program, sh};

#[test]
fn flock_and_record_locks_exclude() {
    program("python3");
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let script = "python3 - <<'P'
import fcntl, subprocess, sys
def other(call):
    return subprocess.run([sys.executable, '-c', 'import fcntl,sys; f=open(\"a\",\"r+\")\\ntry: ' + call + '; print(\"got\")\\nexcept OSError: print(\"held\")'], capture_output=True, text=True).stdout.strip()
f = open('a', 'r+')
fcntl.flock(f, fcntl.LOCK_EX)
print(other('fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)'))
fcntl.flock(f, fcntl.LOCK_UN)
print(other('fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)'))
fcntl.lockf(f, fcntl.LOCK_EX, 10, 100)
print(other('fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 105)'))
print(other('fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 200)'))
P";
    assert_eq!(sh(mount.path(), script).ok(), "held\ngot\nheld\ngot\n");
}

#[test]
fn only_one_of_many_makes_an_exclusive_file() {
    let Some(mount) = Setup::new().mount() else { return };
    let script = "for r in $(seq 20); do for i in 1 2 3 4; do (set -C; echo $i > lock.$r) 2>/dev/null && echo won & done; wait; done | wc -l";
    assert_eq!(sh(mount.path(), script).ok().trim(), "20");
}
