//! `undo` and `redo`: one step back is one save, however many system calls it took, and nothing temporary comes back.

use serde_json::json;

use super::{host, point};
use crate::harness::{Mounted, Setup, Shell, program, sh};

fn run(mount: &Mounted, command: &str) -> Shell {
    Shell::of(mount.wardfs().arg(command).current_dir(mount.path()))
}

fn names(mount: &Mounted) -> String {
    sh(mount.source(), "ls -A").ok()
}

/// A save that `script` makes of `a.txt`, undone and redone; before it another change was made.
fn saved(script: &str) {
    let Some(mount) = Setup::new().file("a.txt", "zero\n").mount() else { return };
    sh(mount.path(), "printf 'one\\ntwo\\n' > a.txt").ok();
    sh(mount.path(), "chmod 640 a.txt").ok();
    let before = names(&mount);
    sh(mount.path(), script).ok();
    let after = names(&mount);
    assert_eq!(host(&mount, "a.txt"), b"one\nTWO\n", "{script}");
    run(&mount, "undo").ok();
    assert_eq!(host(&mount, "a.txt"), b"one\ntwo\n", "{script}: undone");
    assert_eq!(names(&mount), before, "{script}: what undo left");
    assert_eq!(sh(mount.source(), "stat -c %a a.txt").ok(), "640\n", "{script}");
    run(&mount, "redo").ok();
    assert_eq!(host(&mount, "a.txt"), b"one\nTWO\n", "{script}: redone");
    assert_eq!(names(&mount), after, "{script}: what redo left");
    run(&mount, "undo").ok();
    assert_eq!(host(&mount, "a.txt"), b"one\ntwo\n", "{script}: undone again");
    // The next step is the mode, then the change before.
    run(&mount, "undo").ok();
    run(&mount, "undo").ok();
    assert_eq!((host(&mount, "a.txt"), names(&mount)), (b"zero\n".to_vec(), "a.txt\n".into()), "{script}: three steps");
    let end = run(&mount, "undo");
    assert!(end.status == 1 && end.err.contains("nothing to undo"), "{script}: {end:?}");
}

#[test]
fn a_temporary_file_renamed_over() {
    saved("sed -i s/two/TWO/ a.txt");
}

#[test]
fn sed_with_a_backup_that_stays() {
    saved("sed -i.bak s/two/TWO/ a.txt");
}

#[test]
fn several_files_by_one_process_are_undone_one_by_one() {
    let Some(mount) = Setup::new().file("a", "x\n").file("b", "x\n").mount() else { return };
    sh(mount.path(), "sed -i s/x/y/ a b").ok();
    run(&mount, "undo").ok();
    assert_eq!((host(&mount, "a"), host(&mount, "b")), (b"y\n".to_vec(), b"x\n".to_vec()));
    run(&mount, "undo").ok();
    assert_eq!((host(&mount, "a"), names(&mount)), (b"x\n".to_vec(), "a\nb\n".into()));
}

#[test]
fn vim_aside_and_new() {
    program("vim");
    for backupcopy in ["no", "yes", "auto"] {
        saved(&format!(
            "vim -Nu NONE -n -es -c 'set backupskip= nobackup writebackup backupcopy={backupcopy}' -c '%s/two/TWO/' -c wq a.txt"
        ));
    }
}

#[test]
fn vim_with_a_swap_file_that_was_there_for_long() {
    program("vim");
    saved("vim -Nu NONE -es -c '%s/two/TWO/' -c 'sleep 1200m' -c wq a.txt");
}

#[test]
fn the_patterns_of_other_editors() {
    program("python3");
    for script in [
        // Aside by rename, new with its mode, the old one removed, and a lock that came long before.
        "python3 - <<'P'
import os, time
os.symlink('me', '.#a.txt'); time.sleep(1.2)
d = open('a.txt').read(); os.rename('a.txt', 'a.txt~')
f = open('a.txt', 'w'); f.write(d.replace('two', 'TWO')); f.close()
os.chmod('a.txt', 0o640); os.remove('a.txt~'); os.remove('.#a.txt')
P",
        // A probe of the directory first, then a temporary file over it.
        "python3 - <<'P'
import os
open('4913', 'w').close(); os.remove('4913')
f = open('.t', 'w'); f.write(open('a.txt').read().replace('two', 'TWO')); f.close()
os.chmod('.t', 0o640); os.replace('.t', 'a.txt')
P",
        // In place.
        "python3 - <<'P'
f = open('a.txt', 'r+'); d = f.read(); f.seek(0); f.write(d.replace('two', 'TWO')); f.close()
P",
    ] {
        saved(script);
    }
}

#[test]
fn what_a_session_did_last_is_undone_and_later_work_of_others_stays() {
    let Some(mount) = Setup::new().file("a", "a\n").file("b", "b\n").mount() else { return };
    let (mut one, mut other) = (mount.client().session("one"), mount.client().session("other"));
    one.call("write", &json!({"path": "a", "content": "one\n"}));
    other.call("write", &json!({"path": "b", "content": "other\n"}));
    let undone = one.call("revert", &json!({"last": "change", "session": "one"}));
    assert_eq!(undone["paths"][0]["path"], json!("a"), "{undone}");
    assert_eq!((host(&mount, "a"), host(&mount, "b")), (b"a\n".to_vec(), b"other\n".to_vec()));
    assert_eq!(one.refused("revert", &json!({"last": "change", "session": "one"})), "version_not_found");
    one.call("revert", &json!({"last": "undo"}));
    assert_eq!(host(&mount, "a"), b"one\n");
    assert_eq!(one.refused("revert", &json!({"last": "undo"})), "version_not_found");
    assert_eq!(one.refused("revert", &json!({"last": "change", "path": "a"})), "invalid_argument");
    assert_eq!(one.refused("revert", &json!({"last": "undo", "session": "one"})), "invalid_argument");
}

#[test]
fn what_removes_much_is_shown_to_a_person_first_or_done_in_one_command() {
    program("script");
    let Some(mount) = Setup::new().file("a", "a\n").mount() else { return };
    point(&mut mount.client(), "start");
    sh(mount.path(), "echo new > new").ok();
    let back = |more: &str, typed: &str| {
        let (wardfs, socket) = (env!("CARGO_BIN_EXE_wardfs"), mount.socket());
        let command = format!("WARDFS_SOCKET={} {wardfs} revert --checkpoint start {more}", socket.display());
        sh(mount.path(), &format!("printf '{typed}\\n' | script -qec '{command}' /dev/null"))
    };
    let plain = Shell::of(mount.wardfs().args(["revert", "--checkpoint", "start"]).current_dir(mount.path()));
    assert!(plain.status == 3 && plain.err.contains("--yes"), "{plain:?}");
    assert_eq!(names(&mount), "a\nnew\n");
    let no = back("", "n");
    assert!(no.status == 3 && no.out.contains("remove new"), "{no:?}");
    assert_eq!(names(&mount), "a\nnew\n");
    back("", "y").ok();
    assert_eq!(names(&mount), "a\n");
    run(&mount, "redo").ok();
    back("--yes", "").ok();
    assert_eq!(names(&mount), "a\n");
}
