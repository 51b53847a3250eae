//! A mount by an ordinary user, through `fusermount3`, without any privilege: data comes through the daemon, and everything
//! else is as ever. A device node of its own, in a mount namespace of its own, lets the user in; the machine's stays as it is.

use std::os::unix::fs::chown;

use crate::harness::{Setup, Shell, left_out, program};

const USER: u32 = 1000;

/// What a user comes to with a script, where `/dev/fuse` has these mode bits. `$WARDFS` is the command, `mount` mounts.
fn as_ordinary_user(setup: &Setup, device_mode: &str, script: &str) -> Shell {
    program("fusermount3");
    assert!(rustix::process::geteuid().is_root(), "only root can act as another user: run this test as root");
    let wardfs = setup.dir().join("wardfs");
    std::fs::copy(env!("CARGO_BIN_EXE_wardfs"), &wardfs).unwrap();
    for name in ["", "source", "mnt", "home", "run"] {
        chown(setup.dir().join(name), Some(USER), Some(USER)).unwrap();
    }
    let before = "set -e; mknod fuse c 10 229; chmod \"$1\" fuse; mount --bind fuse /dev/fuse; \
                  exec setpriv --reuid \"$2\" --regid \"$2\" --clear-groups --inh-caps=-all bash -c \"$3\"";
    let script = format!(
        "set -euo pipefail
        mount() {{ $WARDFS mount --json --store store \"$@\" source mnt > answer; export WARDFS_SOCKET=$(sed 's/.*\"socket\":\"\\([^\"]*\\)\".*/\\1/' answer); }}
        trap 'fusermount3 -uzq mnt || true' EXIT
        {script}"
    );
    let mut command = setup.wardfs();
    let mut outside = std::process::Command::new("unshare");
    for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        outside.env(name, value);
    }
    command = outside;
    command.args(["--mount", "--propagation", "private", "bash", "-c", before, "-", device_mode, &USER.to_string()]);
    Shell::of(command.arg(script).env("WARDFS", wardfs).env("LC_ALL", "C.UTF-8").current_dir(setup.dir()))
}

#[test]
fn files_are_read_written_mapped_and_renamed() {
    if left_out() {
        return;
    }
    let setup = Setup::new();
    let script = "
        mount
        $WARDFS status --json | grep -q '\"passthrough\":false'
        cd mnt
        umask 022
        echo hello > a; echo more >> a; cat a; cat ../source/a
        python3 - <<'PYTHON'
import mmap, os
fd = os.open('mapped', os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(fd, 20000)
with mmap.mmap(fd, 20000) as mapping:
    mapping[0:5] = b'first'; mapping[19990:19994] = b'last'; mapping.flush()
    assert os.pread(fd, 5, 0) == b'first' and os.pread(fd, 4, 19990) == b'last'
    os.pwrite(fd, b'written', 5000)
    assert mapping[5000:5007] == b'written'
os.close(fd)
assert open('../source/mapped', 'rb').read()[5000:5007] == b'written'
# As git and others do: modes that keep even their owner from opening the file again.
for mode in (0o444, 0o400, 0o200, 0):
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDONLY):
        fd = os.open(f'new-{mode}-{flags}', flags | os.O_CREAT | os.O_EXCL, mode)
        if flags != os.O_RDONLY:
            os.write(fd, b'content')
        os.close(fd)
        assert os.stat(f'../source/new-{mode}-{flags}').st_mode & 0o777 == mode
        assert os.stat(f'new-{mode}-{flags}').st_size == (7 if flags != os.O_RDONLY else 0)
fd = os.open('appended', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o444)
os.write(fd, b'one'); os.lseek(fd, 0, os.SEEK_SET); os.write(fd, b'two'); os.close(fd)
assert open('../source/appended').read() == 'onetwo'
big = os.urandom(3 << 20)
open('big', 'wb').write(big)
with open('big', 'r+b') as file:
    file.seek(1 << 20); file.write(b'x' * 5000); file.truncate(2 << 20)
expected = bytearray(big[:2 << 20]); expected[1 << 20:(1 << 20) + 5000] = b'x' * 5000
assert open('../source/big', 'rb').read() == expected == open('big', 'rb').read()
fd = os.open('gone', os.O_RDWR | os.O_CREAT); os.write(fd, b'still'); os.unlink('gone'); assert os.pread(fd, 9, 0) == b'still'; os.write(fd, b' here'); os.close(fd)
PYTHON
        mkdir dir; mv a dir/b; ln dir/b c; ln -s dir/b d; cat d; rm dir/b; cat c; rmdir dir; chmod 600 c; touch -d 2001-01-01 c; stat -c '%Y %a %h' ../source/c
        git init -q repo; cd repo; git config user.email a@b; git config user.name a; cp ../c .; git add .; git commit -qm one; git fsck --strict --full; git clone -q . ../clone; diff c ../clone/c
        cd ../..; $WARDFS umount mnt; ls -A mnt";
    let shell = as_ordinary_user(&setup, "666", script);
    assert_eq!(shell.status, 0, "{shell:#?}");
    assert_eq!(shell.out, "hello\nmore\nhello\nmore\nhello\nmore\nhello\nmore\n978307200 600 1\n", "{shell:#?}");
}

#[test]
fn changes_are_recorded_and_taken_back() {
    if left_out() {
        return;
    }
    let setup = Setup::new().file("kept", "one\n").file("dir/deep/removed", "deep\n");
    assert_eq!(Shell::of(std::process::Command::new("chown").args(["-R", "1000:1000"]).arg(setup.source())).status, 0);
    let locked = setup.source().join("locked");
    std::fs::write(&locked, "x").unwrap();
    std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let script = "
        mount
        $WARDFS checkpoint before > /dev/null
        cd mnt
        sed -i s/one/two/ kept; echo three >> kept; rm -r dir; mkdir new; echo x > new/file; python3 -c \"open('kept', 'r+').write('T')\"
        cat kept; ls
        $WARDFS log kept | grep -q kept
        $WARDFS call history '{}' | grep -q '\"uid\":1000'
        if $WARDFS call read '{\"path\": \"locked\"}' > ../refusal; then exit 9; fi; grep -q '\"code\":\"permission_denied\"' ../refusal
        $WARDFS undo > /dev/null; cat kept
        $WARDFS revert --checkpoint before --yes > /dev/null
        cat kept dir/deep/removed; ls
        cd ..; $WARDFS umount mnt; cat source/kept; ls source";
    let shell = as_ordinary_user(&setup, "666", script);
    assert_eq!(shell.status, 0, "{shell:#?}");
}

#[test]
fn a_device_that_is_not_open_names_the_command_that_opens_it() {
    if left_out() {
        return;
    }
    let shell = as_ordinary_user(&Setup::new(), "600", "mount");
    assert_eq!((shell.status, shell.err.trim_end().lines().count()), (1, 1), "{shell:#?}");
    assert!(
        shell.err.contains("/dev/fuse: Permission denied") && shell.err.contains("chmod 0666 /dev/fuse"),
        "{shell:#?}"
    );
    let shell = as_ordinary_user(&Setup::new(), "666", "PATH=/nonexistent mount");
    assert!(shell.err.contains("apt-get install fuse3"), "{shell:#?}");
    let shell = as_ordinary_user(&Setup::new(), "666", "mount -o allow_other");
    assert!(shell.err.contains("user_allow_other >> /etc/fuse.conf"), "{shell:#?}");
}

#[test]
fn a_mount_that_cannot_be_taken_away_is_served_on() {
    if left_out() {
        return;
    }
    let setup = Setup::new().file("kept", "one\n");
    let script = "
        mkdir home/bin
        printf '#!/bin/sh\ncase $1 in -u) echo fusermount3: not now >&2; exit 1;; esac\nexec %s \"$@\"\n' \"$(command -v fusermount3)\" > home/bin/fusermount3
        chmod +x home/bin/fusermount3
        old=$PATH; PATH=$PWD/home/bin:$PATH; mount; PATH=$old
        if $WARDFS umount mnt 2> said; then exit 9; fi
        cat said; cat mnt/kept; echo two > source/other; $WARDFS call read '{\"path\": \"other\"}' | grep -q two; $WARDFS status | grep -c view
        rm home/bin/fusermount3; $WARDFS umount mnt; ls -A mnt";
    let shell = as_ordinary_user(&setup, "666", script);
    assert_eq!(shell.status, 0, "{shell:#?}");
    assert!(shell.out.contains("fusermount3: not now"), "{shell:#?}");
    assert!(shell.out.contains("\none\n") && shell.out.ends_with("1\n"), "{shell:#?}");
}
