//! Editors save as they do; the file is right, keeps its mode, and the save comes back.

use super::{host, revert};
use crate::harness::{Mounted, Setup, program, sh};

fn saved(mount: &Mounted, script: &str) {
    sh(mount.path(), script).ok();
    let mode = sh(mount.source(), "stat -c %a a.txt; ls -A").ok();
    assert_eq!(host(mount, "a.txt"), b"one\nTWO\nthree\n", "{script}");
    assert_eq!(mode, "640\na.txt\n", "{script}: mode, and what was left behind");
    let mut client = mount.client();
    assert!(!client.history(Some("a.txt")).is_empty(), "{script}: not recorded");
    // A save of several steps (aside, write, remove) is taken back to where it began.
    for _ in 0..4 {
        if host(mount, "a.txt") != b"one\ntwo\nthree\n" {
            revert(&mut client, "a.txt");
        }
    }
    assert_eq!(host(mount, "a.txt"), b"one\ntwo\nthree\n", "{script}: did not come back");
}

fn opened() -> Option<Mounted> {
    let mount = Setup::new().file("a.txt", "one\ntwo\nthree\n").mount()?;
    sh(mount.source(), "chmod 640 a.txt").ok();
    Some(mount)
}

#[test]
fn vim_with_each_backupcopy() {
    program("vim");
    for backupcopy in ["yes", "no", "auto"] {
        let Some(mount) = opened() else { return };
        saved(
            &mount,
            &format!(
                "vim -Nu NONE -n -es -c 'set backupskip= nobackup writebackup backupcopy={backupcopy}' -c '%s/two/TWO/' -c wq a.txt"
            ),
        );
    }
}

#[test]
fn vim_with_a_swap_file() {
    program("vim");
    let Some(mount) = opened() else { return };
    saved(&mount, "vim -Nu NONE -es -c '%s/two/TWO/' -c wq a.txt");
}

#[test]
fn nano() {
    program("nano");
    program("tmux");
    let Some(mount) = opened() else { return };
    // The terminal is told to wait for what nano shows, not for a time.
    let script = "s=wardfs-nano-$$; t() { tmux -L $s \"$@\"; }; trap 't kill-server 2>/dev/null || true' EXIT
        t -f /dev/null new-session -d -x 80 -y 24 'TERM=xterm nano -I a.txt'
        seen() { for i in $(seq 200); do t capture-pane -p | grep -q \"$1\" && return; sleep 0.05; done; echo \"never saw $1\" >&2; return 1; }
        seen three; t send-keys Down C-k; t send-keys -l TWO; t send-keys Enter; seen TWO; t send-keys C-o; seen 'Write'; t send-keys Enter; seen 'Wrote'; t send-keys C-x";
    saved(&mount, script);
}

#[test]
fn the_patterns_of_other_editors() {
    program("python3");
    for script in [
        // In place: truncate, write, flush (VS Code).
        "python3 - <<'P'
import os
fd = os.open('a.txt', os.O_RDWR); d = os.read(fd, 999).replace(b'two', b'TWO'); os.ftruncate(fd, 0); os.lseek(fd, 0, 0); os.write(fd, d); os.fdatasync(fd); os.close(fd)
P",
        // A temporary file beside it, flushed and renamed over it (emacs, JetBrains, most libraries).
        "python3 - <<'P'
import os, tempfile
d = open('a.txt', 'rb').read().replace(b'two', b'TWO'); fd, t = tempfile.mkstemp(dir='.'); os.write(fd, d); os.fchmod(fd, 0o640); os.fsync(fd); os.close(fd)
os.rename(t, 'a.txt'); dd = os.open('.', os.O_DIRECTORY); os.fsync(dd)
P",
        // The old one aside, a new one written, the old one removed.
        "mv a.txt a.txt~; sed s/two/TWO/ a.txt~ > a.txt; chmod 640 a.txt; rm a.txt~",
        "perl -pi -e 's/two/TWO/' a.txt",
        "printf '%s\\n' '/two/s//TWO/' w q | python3 -c \"
import sys
d = open('a.txt').read().replace('two', 'TWO'); open('a.txt', 'w').write(d)\"",
        "printf -- '--- a.txt\\n+++ a.txt\\n@@ -1,3 +1,3 @@\\n one\\n-two\\n+TWO\\n three\\n' | patch -s a.txt",
    ] {
        let Some(mount) = opened() else { return };
        saved(&mount, script);
    }
}
