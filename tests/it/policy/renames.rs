//! Renames neither bring things in, nor take them out, nor change what policy says of them.

use serde_json::json;

use super::{guarded, untouched};
use crate::harness::{Setup, sh};

#[test]
fn nothing_is_renamed_onto_what_is_denied_or_locked() {
    let Some(mount) = guarded().mount() else { return };
    for script in [
        "mv -T free.txt .env",
        "mv -T free.txt .env.new",
        "mv -T dir private",
        "mv free.txt locked/",
        "mv -T free.txt locked/a.txt",
        "mv locked/a.txt .",
        "mv locked out",
        "mv --exchange free.txt locked/a.txt || false",
        "python3 -c \"import os; os.rename('free.txt', 'private/x')\"",
        "python3 -c \"import os; os.rename('.env', 'x')\"",
    ] {
        sh(mount.path(), script).fails();
    }
    untouched(&mount);
    assert_eq!(std::fs::read_to_string(mount.at("free.txt")).unwrap(), "free\n");
}

#[test]
fn a_folder_is_not_renamed_where_its_secrets_would_show() {
    // Denied by where it lies, not by its name: under another name it would be seen.
    let setup = Setup::new()
        .file("app/config/keys", super::SECRET)
        .file("app/main.rs", "x")
        .policy("deny = [\"/app/config/keys\"]\n");
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), "mv app other").fails();
    sh(mount.path(), "mv app/config .").fails();
    sh(mount.path(), "mv app/config app/settings").fails();
    assert_eq!(mount.client().refused("move", &json!({"from": "app", "to": "other"})).len(), "create_denied".len());
    assert!(mount.beside("app/config/keys").exists());
    assert_eq!(sh(mount.path(), "find . | sort").ok(), ".\n./app\n./app/config\n./app/main.rs\n");
    sh(mount.path(), "mv app/main.rs main.rs; mkdir app/free; mv app/free app/freed").ok();
}

#[test]
fn a_folder_is_not_renamed_where_its_locks_would_open() {
    let setup = Setup::new().file("app/lock/a", "locked\n").policy("read_only = [\"/app/lock/**\"]\n");
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), "mv app other").fails();
    sh(mount.path(), "mv app/lock other").fails();
    assert_eq!(std::fs::read_to_string(mount.beside("app/lock/a")).unwrap(), "locked\n");
}

#[test]
fn a_file_renamed_into_a_folder_follows_that_folders_rules() {
    let setup = Setup::new()
        .file("inbox/x.txt", "x\n")
        .policy("allow = [\"/inbox/**\", \"/outbox/**\"]\nread_only = [\"/outbox/*.done\"]\n");
    std::fs::create_dir(setup.source().join("outbox")).unwrap();
    let Some(mount) = setup.mount() else { return };
    sh(mount.path(), "mv inbox/x.txt outbox/").ok();
    sh(mount.path(), "mv outbox/x.txt outbox/x.done").fails();
    sh(mount.path(), "mv outbox/x.txt .").fails();
    assert_eq!(std::fs::read_to_string(mount.beside("outbox/x.txt")).unwrap(), "x\n");
}
