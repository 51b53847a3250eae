//! Memory mappings that write, and what others see of them.

use crate::harness::{Setup, program, sh};

#[test]
fn a_shared_mapping_reaches_the_file() {
    program("python3");
    let Some(mount) = Setup::new().file("a", vec![b'.'; 20_000]).mount() else { return };
    let script = "python3 - <<'P'
import mmap, os
f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0)
m[5000:5005] = b'HELLO'
assert open('a', 'rb').read()[5000:5005] == b'HELLO', 'a read does not see the mapping'
os.pwrite(f.fileno(), b'WORLD', 9000)
assert m[9000:9005] == b'WORLD', 'the mapping does not see a write'
m.flush(); m.close(); f.close()
P";
    sh(mount.path(), script).ok();
    let content = std::fs::read(mount.beside("a")).unwrap();
    assert_eq!((&content[5000..5005], &content[9000..9005], content.len()), (&b"HELLO"[..], &b"WORLD"[..], 20_000));
}

#[test]
fn a_mapping_outlives_its_descriptor() {
    program("python3");
    let Some(mount) = Setup::new().file("a", vec![b'.'; 5000]).mount() else { return };
    let script = "python3 - <<'P'
import mmap, os
f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close()
m[0:5] = b'LATER'
m.close()
P";
    sh(mount.path(), script).ok();
    assert_eq!(&std::fs::read(mount.at("a")).unwrap()[..6], b"LATER.");
    mount.umount().ok();
    assert_eq!(&std::fs::read(mount.beside("a")).unwrap()[..6], b"LATER.");
}

#[test]
fn a_program_runs_from_the_mount() {
    let Some(mount) = Setup::new().mount() else { return };
    assert_eq!(
        sh(mount.path(), "cp /bin/echo ./echo; ./echo hello; printf '#!/bin/sh\\necho script\\n' > s; chmod +x s; ./s")
            .ok(),
        "hello\nscript\n"
    );
}
