//! Names are bytes, up to 255 of them.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use rustix::io::Errno;

use crate::harness::{Mounted, sh};

#[test]
fn any_bytes_make_a_name() {
    let Some(mount) = Mounted::new() else { return };
    let names: [&[u8]; 6] =
        [&[b'n'; 255], b"not \xff utf-8 \xfe", b"new\nline", b" ", b"-rf", "\u{fe}\u{20ac}".as_bytes()];
    for name in names {
        let name = OsStr::from_bytes(name);
        std::fs::write(mount.path().join(name), name.as_bytes()).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(std::fs::read(mount.beside(".").join(name)).unwrap(), name.as_bytes(), "{name:?}");
    }
    let mut listed: Vec<_> = std::fs::read_dir(mount.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    let mut wanted: Vec<_> = names.map(|name| OsStr::from_bytes(name).to_owned()).into();
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted);
    for name in listed {
        std::fs::rename(mount.path().join(&name), mount.at("x")).unwrap();
        std::fs::remove_file(mount.at("x")).unwrap();
    }
}

#[test]
fn a_name_of_256_bytes_is_too_long() {
    let Some(mount) = Mounted::new() else { return };
    let long = mount.at(&"n".repeat(256));
    let code = |error: std::io::Error| Errno::from_io_error(&error);
    assert_eq!(std::fs::write(&long, "").map_err(code), Err(Some(Errno::NAMETOOLONG)));
    assert_eq!(std::fs::metadata(&long).map(|_| ()).map_err(code), Err(Some(Errno::NAMETOOLONG)));
}

#[test]
fn upper_and_lower_case_are_two_names() {
    let Some(mount) = Mounted::new() else { return };
    assert_eq!(sh(mount.path(), "echo a > README; echo b > readme; cat README readme; ls | wc -l").ok(), "a\nb\n2\n");
}

#[test]
fn a_deep_tree_can_be_walked_and_removed() {
    let Some(mount) = Mounted::new() else { return };
    let script = "for i in $(seq 200); do mkdir a-directory-with-a-name; cd a-directory-with-a-name; done; echo deep > file; cat file; /bin/pwd | wc -c";
    assert!(sh(mount.path(), script).ok().starts_with("deep\n"));
    assert_eq!(sh(mount.path(), "find . | wc -l; rm -rf a-directory-with-a-name; ls -A").ok(), "202\n");
}
