//! Whatever changes through the mount is recorded, with who did it, and can be taken back.

mod actors;
mod archives;
mod audit;
mod conflicts;
mod databases;
mod editors;
mod edits;
mod removal;
mod undo;
mod windows;

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Mounted};

/// Where the history stands, to come back to.
pub fn point(client: &mut Client, name: &str) {
    client.call("checkpoint", &json!({"name": name}));
}

/// Takes everything since `name` back.
#[track_caller]
pub fn back_to(client: &mut Client, name: &str) -> Value {
    client.revert(&json!({"checkpoint": name}))
}

/// The changes of an operation, as pairs of what and path.
pub fn changes(operation: &Value) -> Vec<(String, String)> {
    let changes = operation["changes"].as_array().unwrap_or_else(|| panic!("no changes: {operation}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    changes.iter().map(|change| (text(&change["change"]), text(&change["path"]))).collect()
}

/// Puts a path back to the state before its last change.
#[track_caller]
pub fn revert(client: &mut Client, path: &str) {
    client.call("revert", &json!({"path": path}));
}

/// Bytes of a file beside the mount: what really is on the host.
pub fn host(mount: &Mounted, path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(mount.source().join(path)).unwrap()
}
