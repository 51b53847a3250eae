//! Several users of one mount: each may do what it may do in the directory itself, and what it makes is its own.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use crate::harness::{Mounted, Setup, Shell, as_user, program, sh};

const USER: u32 = 1000;
const NOBODY: u32 = 65_534;
const TEAM: u32 = 2000;

/// A mount for all, with a folder that anybody may write in, and a plain folder beside it to compare with.
struct Both {
    mount: Mounted,
}

impl Both {
    fn new() -> Option<Both> {
        let mount = Setup::new().with(&["-o", "allow_other"]).mount()?;
        std::fs::create_dir(mount.setup().dir().join("plain")).unwrap();
        let both = Both { mount };
        both.as_root("mkdir open; chmod 777 open");
        Some(both)
    }

    fn folders(&self) -> [std::path::PathBuf; 2] {
        [self.mount.path().to_owned(), self.mount.setup().dir().join("plain")]
    }

    /// Prepares both as root.
    #[track_caller]
    fn as_root(&self, script: &str) {
        for dir in self.folders() {
            sh(&dir, script).ok();
        }
    }

    /// What a user comes to in the mount, which is what the same user comes to in the plain folder.
    #[track_caller]
    fn same(&self, user: u32, groups: &[u32], script: &str) -> String {
        let said = self.same_said(user, groups, script);
        let [shown, beside] = [self.mount.path(), self.mount.source()].map(|dir| state(&dir.join("open")));
        let plain = state(&self.folders()[1].join("open"));
        assert_eq!((&shown, &beside), (&plain, &plain), "after {user} with {groups:?}: {script}");
        said
    }

    /// As `same`, of what was said alone.
    #[track_caller]
    fn same_said(&self, user: u32, groups: &[u32], script: &str) -> String {
        let [mount, plain] = self.folders().map(|dir| tried(user, groups, &dir, script));
        assert_eq!(mount, plain, "as {user} with {groups:?}: {script}");
        mount
    }
}

/// Each line of a script by itself: what it printed, or why it failed.
fn tried(user: u32, groups: &[u32], dir: &Path, script: &str) -> String {
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut all = String::new();
    for line in lines {
        let shell = Shell::of(&mut shell_as(user, groups, dir, line));
        let said = shell.err.rsplit(": ").next().unwrap_or_default().trim().to_owned();
        all.push_str(&format!("{line} -> {} {}{said}\n", shell.status, shell.out));
    }
    all
}

fn shell_as(user: u32, groups: &[u32], dir: &Path, script: &str) -> Command {
    let mut command = if groups.is_empty() { as_user(user, "bash") } else { in_groups(user, groups) };
    command.args(["-c", script]).current_dir(dir.join("open")).env("LC_ALL", "C.UTF-8").env_remove("TMPDIR");
    command
}

fn in_groups(user: u32, groups: &[u32]) -> Command {
    let list: Vec<String> = groups.iter().map(u32::to_string).collect();
    let id = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--groups", &list.join(","), "--", "bash"]);
    command
}

/// Type, mode, owner and size of all there is.
fn state(dir: &Path) -> String {
    sh(dir, "find . -printf '%p %M %U:%G %n\\n' | sed 's/^\\. \\(.*\\) [0-9]*$/. \\1/' | sort; find . -type f -exec stat -c '%n %s' {} + | sort").ok()
}

#[test]
fn a_group_opens_what_the_owner_shares() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; mkdir team; echo x > team/file; chgrp -R 2000 team; chmod 770 team; chmod 660 team/file");
    let script = "cat team/file
        echo y >> team/file
        echo z > team/mine
        mkdir team/dir
        ln team/file team/hard
        mv team/file team/moved
        rm team/moved
        test -w team && echo may write
        ls team";
    assert!(both.same(USER, &[3000, TEAM], script).contains("-> 0 may write"));
    assert!(both.same(USER, &[3000], script).contains("Permission denied"));
    assert!(!both.same(NOBODY, &[], script).contains("-> 0 may write"));
}

#[test]
fn owners_change_modes_and_groups_within_bounds() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; echo x > theirs; echo x > locked; chmod 600 locked; chown 65534 locked");
    let script = "echo x > mine; chmod 4755 mine
        chown 65534 mine
        chgrp 2000 mine
        chgrp 3000 mine
        chown 1000:2000 mine
        chmod 2775 mine
        chgrp 1000 mine
        chmod 2775 mine
        chmod 1644 mine
        mkdir dir; chmod 3777 dir; chgrp 2000 dir
        chmod 777 theirs
        chown 1000 theirs
        chmod 777 locked
        touch theirs
        touch -d 2001-01-01 theirs
        touch -d 2001-01-01 mine; stat -c %Y mine
        setfattr -n user.x -v y mine
        setfattr -n user.x -v y theirs
        setfattr -n user.x -v y locked
        getfattr --only-values -n user.x locked
        ln -s mine link; chown -h 1000:2000 link
        chown -h 0 link";
    let said = both.same(USER, &[TEAM], script);
    assert!(said.contains("Operation not permitted") && said.contains("Permission denied"), "{said}");
    both.same(
        0,
        &[0],
        "chown 1000:3000 theirs\nchmod 6777 mine\nchown 0:0 mine\nchmod 6666 mine\nchown 1:1 mine\nchgrp 7 dir",
    );
}

#[test]
fn masks_and_set_group_directories_shape_what_is_made() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; mkdir team; chgrp 2000 team; chmod 2777 team");
    let make = "import os; os.umask(0); os.close(os.open('team/p' + str(os.getuid()), os.O_CREAT | os.O_WRONLY, 0o6777)); \
                os.mkdir('team/q' + str(os.getuid()), 0o7777); os.mknod('team/r' + str(os.getuid()), 0o102775)";
    let script = format!(
        "umask 027; echo x > a; mkdir b; mkfifo c; ln -s a d
        umask 777; echo x > nothing; mkdir no
        umask 0; echo x > all; mkdir alls
        umask 022; echo x > team/in-$UID; mkdir -p team/dir-$UID/deep; mkfifo team/fifo-$UID; ln -s x team/link-$UID
        chmod 2755 team/in-$UID
        python3 -c \"{make}\""
    );
    for (user, groups) in [(USER, &[TEAM][..]), (NOBODY, &[])] {
        both.same(user, groups, &script);
        both.as_root("cd open; rm -rf a b c d nothing no all alls");
    }
}

#[test]
fn sticky_directories_keep_users_apart() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; chmod 1777 .; echo r > root; mkdir own; chown 1000 own; chmod 1777 own; echo n > own/nobodys; chown 65534 own/nobodys");
    both.same(USER, &[], "echo u > users; chmod 666 users; mkdir users.d");
    let said = both.same(
        NOBODY,
        &[],
        "rm -f users
        mv users moved
        echo n > nobodys; mv nobodys users
        mv -n nobodys renamed
        rmdir users.d
        mv users.d moved.d
        ln users hard
        rm -f root
        echo more >> users
        rm -f own/nobodys",
    );
    assert!(said.contains("Operation not permitted"), "{said}");
    both.same(USER, &[], "echo n > own/again\nrm -f own/again\nrm -f own/nobodys\nrm users\nrmdir users.d");
}

#[test]
fn a_user_without_rights_is_refused() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; mkdir -p shut/in; echo x > shut/in/file; chmod 700 shut; mkdir blind; echo x > blind/file; chmod 711 blind; \
                  mkdir list; echo x > list/file; chmod 744 list; echo s > run.sh; chmod 744 run.sh; echo w > write; chmod 622 write");
    let said = both.same(
        USER,
        &[],
        "cat shut/in/file
        ls shut
        cd shut
        echo x > shut/new
        rm -rf shut
        cat blind/file
        ls blind
        echo x > blind/new
        ls list
        cat list/file
        stat list/file
        ./run.sh
        cat write
        echo y > write
        echo x > /proc/self/cwd/shut/x
        mknod device b 7 0
        python3 -c \"import os; print([os.access(p, m) for p in ('shut', 'blind', 'list', 'write', 'run.sh') for m in (1, 2, 4)])\"",
    );
    assert!(said.contains("Permission denied") && said.contains("Operation not permitted"), "{said}");
}

#[test]
fn bits_that_lend_rights_go_when_others_write() {
    let Some(both) = Both::new() else { return };
    let ways = [
        "echo x >> FILE",
        "echo x > FILE",
        "truncate -s 1 FILE",
        "truncate -s 100 FILE",
        "fallocate -l 10000 FILE",
        "dd if=/dev/zero of=FILE bs=10 count=1 conv=notrunc status=none",
        "python3 -c \"import os; s = os.open('source', os.O_RDONLY); t = os.open('FILE', os.O_WRONLY); os.copy_file_range(s, t, 3)\"",
        "python3 -c \"import os; s = os.open('source', os.O_RDONLY); t = os.open('FILE', os.O_WRONLY); os.sendfile(t, s, 0, 3)\"",
        "python3 -c \"import os; os.close(os.open('FILE', os.O_WRONLY))\"",
        "touch FILE",
        "ln FILE FILE.hard",
    ];
    both.as_root("cd open; echo source > source");
    for mode in ["6777", "4777", "2777", "4766", "6776"] {
        for (number, way) in ways.iter().enumerate() {
            let file = format!("{mode}-{number}");
            both.as_root(&format!("cd open; echo content > {file}; chmod {mode} {file}"));
            both.same(USER, &[], &way.replace("FILE", &file));
        }
    }
}

#[test]
fn users_at_the_same_time_make_what_is_theirs() {
    let Some(both) = Both::new() else { return };
    let dir = both.mount.at("open");
    let script = "for i in $(seq 60); do echo $UID > $UID-$i; mkdir $UID-$i.d; ln -s x $UID-$i.l; mv $UID-$i $UID-$i.f; echo more >> $UID-$i.f; done";
    let users = [USER, NOBODY, 1, 0];
    let running: Vec<_> =
        users.iter().map(|user| shell_as(*user, &[*user + 7], both.mount.path(), script).spawn().unwrap()).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    for user in users {
        for i in 1..=60 {
            for kind in ["f", "d", "l"] {
                for dir in [&dir, &both.mount.beside("open")] {
                    let at = dir.join(format!("{user}-{i}.{kind}")).symlink_metadata().unwrap();
                    assert_eq!((at.uid(), at.gid()), (user, user), "{user}-{i}.{kind}");
                }
            }
        }
    }
    let mut client = both.mount.client();
    let history = client.history(Some("open/1000-60.f"));
    assert!(!history.is_empty() && history.iter().all(|op| op["actor"].to_string().contains("1000")), "{history:?}");
}

#[test]
fn the_hosts_access_lists_take_rights_away() {
    program("setfacl");
    let Some(both) = Both::new() else { return };
    // A mount takes no access lists itself.
    for dir in [both.mount.source().to_owned(), both.folders()[1].clone()] {
        let script = "cd open; for f in read write; do echo x > $f.file; chmod 666 $f.file; done; \
                      for d in dir shut; do mkdir $d; chmod 777 $d; echo x > $d/file; done; \
                      setfacl -m u:1000:--- read.file; setfacl -m u:1000:r-- write.file; setfacl -m u:1000:r-x dir; \
                      setfacl -m u:1000:--- shut";
        sh(&dir, script).ok();
    }
    let said = both.same_said(
        USER,
        &[],
        "cat read.file
        echo y >> read.file
        cat write.file
        echo y >> write.file
        echo y > write.file
        truncate -s 0 write.file
        touch write.file
        setfattr -n user.x -v y write.file
        echo y > dir/new
        rm -f dir/file
        mv dir/file .
        ln write.file hard
        cat dir/file
        ls shut
        cat shut/file",
    );
    assert!(said.contains("Permission denied"), "{said}");
    // A directory shows what its list leaves to all: the kernel goes by that.
    let mode = |dir: &str| std::fs::metadata(both.mount.at(dir)).unwrap().mode() & 0o777;
    assert_eq!((mode("open/dir"), mode("open/shut"), mode("open")), (0o755, 0o700, 0o777));
    assert!(both.same_said(NOBODY, &[], "cat read.file\necho y >> write.file").contains("-> 0 x"));
}

#[test]
fn a_mode_the_host_changed_binds_at_the_next_look() {
    let Some(both) = Both::new() else { return };
    both.as_root("cd open; echo x > file; chmod 666 file");
    both.same(USER, &[], "cat file; echo y >> file");
    std::fs::set_permissions(both.mount.beside("open/file"), PermissionsExt::from_mode(0o600)).unwrap();
    crate::harness::wait_for("the refusal", || {
        Shell::of(&mut shell_as(USER, &[], both.mount.path(), "cat file")).status != 0
    });
}
