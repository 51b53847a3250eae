//! A file that is open outlives its name.

use std::{
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
};

use crate::harness::{Setup, sh};

#[test]
fn an_open_file_works_after_its_removal() {
    let Some(mount) = Setup::new().file("dir/a", "before").mount() else { return };
    let mut file = std::fs::File::options().read(true).write(true).open(mount.at("dir/a")).unwrap();
    std::fs::remove_file(mount.at("dir/a")).unwrap();
    assert!(!mount.at("dir/a").exists());
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b" and after").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "before and after");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    for dir in [mount.at("dir"), mount.beside("dir")] {
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "something is left in {dir:?}");
    }
    std::fs::remove_dir(mount.at("dir")).unwrap();
    drop(file);
}

#[test]
fn an_open_file_works_after_another_took_its_name() {
    let Some(mount) = Setup::new().file("a", "old").file("b", "new").mount() else { return };
    let mut old = std::fs::File::open(mount.at("a")).unwrap();
    std::fs::rename(mount.at("b"), mount.at("a")).unwrap();
    let mut content = String::new();
    old.read_to_string(&mut content).unwrap();
    assert_eq!(content, "old");
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), "new");
}

#[test]
fn a_removed_name_can_be_made_again_while_the_old_file_is_open() {
    let Some(mount) = Setup::new().file("a", "old").mount() else { return };
    let old = std::fs::File::open(mount.at("a")).unwrap();
    std::fs::remove_file(mount.at("a")).unwrap();
    std::fs::write(mount.at("a"), "new").unwrap();
    assert_eq!(std::io::read_to_string(&old).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), "new");
    assert_ne!(old.metadata().unwrap().ino(), std::fs::metadata(mount.at("a")).unwrap().ino());
}

#[test]
fn a_temporary_file_without_a_name_works() {
    let Some(mount) = Setup::new().mount() else { return };
    let script = "python3 - <<'P'
import tempfile
with tempfile.TemporaryFile(dir='.') as f:
    f.write(b'x' * 100000); f.seek(0)
    assert f.read() == b'x' * 100000
P
ls -A";
    assert_eq!(sh(mount.path(), script).ok(), "");
}

#[test]
fn a_removed_working_directory_is_no_trap() {
    let Some(mount) = Setup::new().mount() else { return };
    let out =
        sh(mount.path(), "mkdir d; cd d; rmdir ../d; touch x 2>/dev/null && echo made || echo refused; ls -A").ok();
    assert_eq!(out, "refused\n");
}
