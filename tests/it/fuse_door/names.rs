//! Names, links, attributes and extended attributes, and what policy says of them.

use std::{
    fs,
    io::{Error, Write},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, XattrFlags};

use super::door::{Door, Shows, Way, both_ways};
use crate::harness::is_root;

fn errno<T>(done: Result<T, Error>) -> Option<i32> {
    done.err().map(|error| error.raw_os_error().unwrap())
}

#[test]
fn names_come_move_and_go() {
    both_ways(|door| {
        fs::create_dir_all(door.at("a/b")).unwrap();
        fs::write(door.at("a/b/f"), b"1").unwrap();
        fs::rename(door.at("a"), door.at("c")).unwrap();
        assert_eq!(fs::read(door.at("c/b/f")).unwrap(), b"1");
        assert_eq!(errno(fs::metadata(door.at("a"))), Some(libc::ENOENT));
        fs::write(door.at("g"), b"2").unwrap();
        fs::rename(door.at("g"), door.at("c/b/f")).unwrap();
        assert_eq!(fs::read(door.host("c/b/f")).unwrap(), b"2");
        assert_eq!(errno(fs::remove_dir(door.at("c/b"))), Some(libc::ENOTEMPTY));
        fs::remove_file(door.at("c/b/f")).unwrap();
        fs::remove_dir(door.at("c/b")).unwrap();
        assert_eq!(fs::read_dir(door.host("c")).unwrap().count(), 0);
        assert_eq!(errno(fs::create_dir(door.at("c"))), Some(libc::EEXIST));
        assert_eq!(errno(fs::File::create_new(door.at("c"))), Some(libc::EEXIST));
        assert_eq!(errno(fs::write(door.at("c"), b"")), Some(libc::EISDIR));
        assert_eq!(errno(fs::write(door.at(&"n".repeat(256)), b"")), Some(libc::ENAMETOOLONG));
    });
}

#[test]
fn renames_take_their_flags() {
    both_ways(|door| {
        fs::write(door.at("a"), b"a").unwrap();
        fs::write(door.at("b"), b"b").unwrap();
        let rename = |from: &str, to: &str, flags| {
            rustix::fs::renameat_with(CWD, door.at(from), CWD, door.at(to), flags).map_err(Error::from)
        };
        assert_eq!(errno(rename("a", "b", RenameFlags::NOREPLACE)), Some(libc::EEXIST));
        rename("a", "c", RenameFlags::NOREPLACE).unwrap();
        rename("b", "c", RenameFlags::EXCHANGE).unwrap();
        assert_eq!((fs::read(door.at("b")).unwrap(), fs::read(door.at("c")).unwrap()), (b"a".to_vec(), b"b".to_vec()));
        assert_eq!(errno(rename("b", "none", RenameFlags::EXCHANGE)), Some(libc::ENOENT));
        assert_eq!(errno(rename("b", "d", RenameFlags::WHITEOUT)), Some(libc::EINVAL));
    });
}

#[test]
fn links_of_both_kinds_are_made() {
    both_ways(|door| {
        fs::write(door.at("f"), b"1").unwrap();
        fs::hard_link(door.at("f"), door.at("g")).unwrap();
        fs::write(door.at("g"), b"22").unwrap();
        let (f, g) = (fs::metadata(door.at("f")).unwrap(), fs::metadata(door.at("g")).unwrap());
        assert_eq!((f.ino(), f.nlink(), f.len()), (g.ino(), 2, 2));
        fs::remove_file(door.at("f")).unwrap();
        assert_eq!(fs::metadata(door.at("g")).unwrap().nlink(), 1);
        symlink("g", door.at("s")).unwrap();
        assert_eq!(fs::read_link(door.at("s")).unwrap(), Path::new("g"));
        assert_eq!(fs::read(door.at("s")).unwrap(), b"22");
        symlink("/nowhere/at all", door.at("t")).unwrap();
        assert_eq!(fs::read_link(door.host("t")).unwrap(), Path::new("/nowhere/at all"));
        assert_eq!(errno(fs::read(door.at("t"))), Some(libc::ENOENT));
    });
}

#[test]
fn other_kinds_of_files_are_made() {
    both_ways(|door| {
        rustix::fs::mknodat(CWD, door.at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
        let made = fs::symlink_metadata(door.at("fifo")).unwrap();
        assert!(made.file_type().is_fifo());
        assert_eq!(made.mode() & 0o7777, 0o640);
        let _listener = std::os::unix::net::UnixListener::bind(door.at("socket")).unwrap();
        assert!(fs::symlink_metadata(door.host("socket")).unwrap().file_type().is_socket());
        let mut client = std::os::unix::net::UnixStream::connect(door.at("socket")).unwrap();
        client.write_all(b"x").unwrap();
    });
}

#[test]
fn attributes_are_set_and_shown() {
    both_ways(|door| {
        fs::write(door.at("f"), b"1").unwrap();
        fs::set_permissions(door.at("f"), fs::Permissions::from_mode(0o4751)).unwrap();
        assert_eq!(fs::metadata(door.host("f")).unwrap().mode() & 0o7777, 0o4751);
        for (secs, nanos) in [(1_000_000_000_i64, 123_456_789), (-5, 250_000_000), (-5, 0), (0, 1)] {
            let whole = Duration::from_secs(5);
            let time = if secs < 0 {
                SystemTime::UNIX_EPOCH - whole + Duration::from_nanos(nanos)
            } else {
                SystemTime::UNIX_EPOCH + Duration::from_secs(secs.unsigned_abs()) + Duration::from_nanos(nanos)
            };
            let file = fs::File::options().write(true).open(door.at("f")).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
            drop(file);
            for path in [door.at("f"), door.host("f")] {
                let found = fs::metadata(&path).unwrap();
                assert_eq!((found.mtime(), found.mtime_nsec()), (secs, nanos.cast_signed()), "{}", path.display());
            }
        }
        let (through, host) = (fs::metadata(door.at("f")).unwrap(), fs::metadata(door.host("f")).unwrap());
        let all = |m: &fs::Metadata| (m.ino(), m.nlink(), m.uid(), m.gid(), m.size(), m.blocks(), m.mode());
        assert_eq!(all(&through), all(&host));
        let (through, host) = (rustix::fs::statvfs(door.root()).unwrap(), rustix::fs::statvfs(door.host("")).unwrap());
        assert_eq!((through.f_blocks, through.f_frsize, through.f_namemax), (host.f_blocks, host.f_frsize, 255));
    });
}

#[test]
fn extended_attributes_follow_their_protocol() {
    both_ways(|door| {
        let path = door.at("f");
        fs::write(&path, b"1").unwrap();
        let get = |name: &str, size| {
            let mut buf = vec![0; size];
            rustix::fs::getxattr(&path, name, &mut buf[..]).map_err(Error::from)
        };
        rustix::fs::setxattr(&path, "user.a", b"value", XattrFlags::CREATE).unwrap();
        let again = rustix::fs::setxattr(&path, "user.a", b"x", XattrFlags::CREATE).map_err(Error::from);
        assert_eq!(errno(again), Some(libc::EEXIST));
        assert_eq!(errno(get("user.a", 4)), Some(libc::ERANGE));
        assert_eq!(get("user.a", 5).unwrap(), 5);
        assert_eq!(errno(get("user.b", 9)), Some(libc::ENODATA));
        assert_eq!(errno(get("system.posix_acl_access", 9)), Some(libc::EOPNOTSUPP));
        let mut names = [0; 64];
        let length = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
        assert_eq!(&names[..length], b"user.a\0");
        assert!(get("user.wardfs.hash", 128).unwrap() >= 64);
        rustix::fs::removexattr(&path, "user.a").unwrap();
        assert_eq!(errno(get("user.a", 9)), Some(libc::ENODATA));
    });
}

#[test]
fn policy_binds_every_call() {
    let shows = Shows { deny: &[".env", "secret/"], read_only: &["fixed"], ..Shows::default() };
    for way in [Way::Past, Way::Through] {
        let door = Door::showing(way, &shows, |source| {
            fs::create_dir(source.join("secret")).unwrap();
            for name in ["open", "fixed", ".env", "secret/key"] {
                fs::write(source.join(name), b"content").unwrap();
            }
        });
        let mut names: Vec<_> = fs::read_dir(door.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["fixed", "open"]);
        for hidden in [".env", "secret", "secret/key"] {
            assert_eq!(errno(fs::read(door.at(hidden))), Some(libc::ENOENT), "{hidden}");
            assert_eq!(errno(fs::remove_file(door.at(hidden))), Some(libc::ENOENT), "{hidden}");
        }
        assert_eq!(errno(fs::write(door.at(".env"), b"x")), Some(libc::EACCES));
        assert_eq!(errno(fs::create_dir(door.at("secret"))), Some(libc::EACCES));
        assert_eq!(errno(fs::rename(door.at("open"), door.at(".env"))), Some(libc::EACCES));
        assert_eq!(fs::metadata(door.at("fixed")).unwrap().mode() & 0o222, 0);
        assert_eq!(fs::read(door.at("fixed")).unwrap(), b"content");
        for flags in ["write", "append", "truncate"] {
            let mut open = fs::OpenOptions::new();
            let open = match flags {
                "write" => open.write(true),
                "append" => open.append(true),
                _ => open.write(true).truncate(true),
            };
            // Only root is not stopped already by the mode.
            let expected = if is_root() { libc::EROFS } else { libc::EACCES };
            assert_eq!(errno(open.open(door.at("fixed"))), Some(expected), "{flags}");
        }
        assert_eq!(errno(fs::remove_file(door.at("fixed"))), Some(libc::EROFS));
        assert_eq!(errno(fs::set_permissions(door.at("fixed"), fs::Permissions::from_mode(0o777))), Some(libc::EROFS));
        assert_eq!(errno(fs::hard_link(door.at("fixed"), door.at("other"))), Some(libc::EACCES));
        assert_eq!(fs::read(door.host(".env")).unwrap(), b"content");
    }
}

#[test]
fn what_another_user_makes_is_that_users() {
    if !is_root() {
        return;
    }
    both_ways(|door| {
        fs::set_permissions(door.host(""), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(door.root().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = door.at("theirs");
        let made = std::process::Command::new("setpriv")
            .args(["--reuid=1234", "--regid=1235", "--clear-groups", "touch"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        let found = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert_eq!((found.st_uid, found.st_gid), (1234, 1235));
    });
}
