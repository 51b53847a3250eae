//! A tree of more files than a process may have open.

use crate::harness::{Mounted, sh};

#[test]
fn more_files_than_descriptors() {
    let Some(mount) = Mounted::new() else { return };
    let make =
        "for d in $(seq 25); do mkdir d$d; done; for d in d*; do (cd $d; seq 1000 | xargs touch; echo x > 500); done";
    sh(mount.source(), make).ok();
    let script = "find . -type f | wc -l; find . -type f -size +0 -exec cat {} + | wc -l; find . -name 7 -delete; find . -type f | wc -l";
    assert_eq!(sh(mount.path(), script).ok(), "25000\n25\n24975\n");
    assert_eq!(sh(mount.source(), "find . -type f | wc -l").ok(), "24975\n");
}

#[test]
fn many_files_open_at_once() {
    let Some(mount) = Mounted::new() else { return };
    let files: Vec<std::fs::File> = (0..800)
        .map(|number| std::fs::File::create(mount.at(&number.to_string())).unwrap_or_else(|e| panic!("{number}: {e}")))
        .collect();
    for (number, file) in files.iter().enumerate() {
        std::io::Write::write_all(&mut &*file, number.to_string().as_bytes()).unwrap();
    }
    drop(files);
    assert_eq!(std::fs::read_to_string(mount.beside("799")).unwrap(), "799");
}
