//! Every way round a policy, tried for real.

mod denied;
mod links;
mod open_files;
mod race;
mod refusal;
mod reload;
mod renames;
mod results;

use crate::harness::{Mounted, Setup};

/// What the secrets hold; nothing that a view gives away may contain it.
pub const SECRET: &str = "hunter2-the-secret";

/// A view with a secret file, a secret folder, a locked folder, and free files beside them.
pub fn guarded() -> Setup {
    Setup::new()
        .file("free.txt", "free\n")
        .file("dir/free.txt", "free too\n")
        .file(".env", SECRET)
        .file("dir/.env", SECRET)
        .file("private/key.pem", SECRET)
        .file("private/deep/notes.txt", SECRET)
        .file("locked/a.txt", "locked\n")
        .policy("deny = [\".env*\", \"/private\"]\nread_only = [\"/locked/**\", \"/locked\"]\n")
}

/// The secrets are as they were.
pub fn untouched(mount: &Mounted) {
    for path in [".env", "dir/.env", "private/key.pem", "private/deep/notes.txt"] {
        assert_eq!(std::fs::read_to_string(mount.beside(path)).unwrap(), SECRET, "{path}");
    }
    assert_eq!(std::fs::read_to_string(mount.beside("locked/a.txt")).unwrap(), "locked\n");
}
