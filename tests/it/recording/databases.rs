//! Databases: whole under load in every journal mode, and back where they were by one revert.

use super::{back_to, point};
use crate::harness::{Mounted, program, sh};

fn sqlite(mode: &str) {
    program("sqlite3");
    let Some(mount) = Mounted::new() else { return };
    let make = format!(
        "sqlite3 t.db 'pragma journal_mode={mode}; create table t(a integer primary key, b blob); insert into t(b) values(randomblob(500));' >/dev/null"
    );
    sh(mount.path(), &make).ok();
    let sum = "sqlite3 t.db 'pragma integrity_check; select count(*), sum(length(b)) from t'";
    let before = sh(mount.path(), sum).ok();
    let mut client = mount.client();
    point(&mut client, "before");
    let load = "for w in 1 2 3; do (for i in $(seq 15); do sqlite3 -cmd '.timeout 60000' t.db \"begin immediate; insert into t(b) values(randomblob(2000)); insert into t(b) values(randomblob(20)); commit\"; done) & done; wait; sqlite3 t.db vacuum";
    sh(mount.path(), load).ok();
    let after = sh(mount.path(), sum).ok();
    assert!(after.starts_with("ok\n91|"), "{mode}: {after}");
    assert_eq!(sh(mount.source(), sum).ok(), after, "{mode}: beside the mount");
    back_to(&mut client, "before");
    assert_eq!(sh(mount.path(), sum).ok(), before, "{mode}: after the revert");
}

#[test]
fn rollback_journal() {
    sqlite("delete");
}

#[test]
fn truncated_journal() {
    sqlite("truncate");
}

#[test]
fn persistent_journal() {
    sqlite("persist");
}

#[test]
fn write_ahead_log() {
    sqlite("wal");
}
