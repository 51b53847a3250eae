//! Applications that put their files on disk: editors, databases, logs.

use std::{
    fs::{File, OpenOptions, create_dir, rename, write},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
};

use serde_json::json;

use crate::crash::{
    load::{Stage, Step},
    scenes::{BULK, Scene, USUAL},
};

/// All that is played before the power goes.
pub fn all() -> Vec<Scene> {
    let mut scenes = USUAL.to_vec();
    scenes.extend([
        Scene { name: "synced", by_tool: false, before: synced_before, play: synced },
        Scene {
            name: "mixed",
            by_tool: true,
            before: |at| write(at.join("m"), "one\n".repeat(50)).unwrap(),
            play: mixed,
        },
        BULK,
    ]);
    scenes
}

fn synced_before(at: &Path) {
    for name in ["edited", "database", "log"] {
        write(at.join(name), format!("{name} of old\n").repeat(600)).unwrap();
    }
}

/// Puts the names of a directory on disk.
fn sync_dir(at: &Path) -> std::io::Result<()> {
    File::open(at)?.sync_all()
}

/// A new file with its name on disk.
fn create(at: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(at.join(name))?;
    file.write_all(content)?;
    file.sync_all()?;
    sync_dir(at)
}

fn synced(stage: &mut Stage<'_>) -> Step {
    stage.synced(&["new"], |at| create(at, "new", b"new, and on disk\n"))?;
    stage.synced(&["edited"], |at| {
        create(at, ".edited.tmp", &b"saved by an editor\n".repeat(400))?;
        rename(at.join(".edited.tmp"), at.join("edited"))?;
        sync_dir(at)
    })?;
    for round in 0..3_u8 {
        stage.synced(&["database"], |at| {
            let file = OpenOptions::new().write(true).open(at.join("database"))?;
            file.write_all_at(&[b'A' + round; 700], 100 + u64::from(round) * 4000)?;
            file.sync_all()
        })?;
        stage.synced(&["log"], |at| {
            let mut file = OpenOptions::new().append(true).open(at.join("log"))?;
            file.write_all(format!("line {round}\n").as_bytes())?;
            file.sync_all()
        })?;
    }
    stage.shell(|at| write(at.join("edited"), "in place, and not on disk\n"))?;
    stage.synced(&["edited"], |at| OpenOptions::new().write(true).open(at.join("edited"))?.sync_all())?;
    stage.synced(&["d/f"], |at| {
        create_dir(at.join("d"))?;
        sync_dir(at)?;
        create(&at.join("d"), "f", b"in a new directory\n")
    })?;
    stage.synced(&["d", "e/f"], |at| {
        rename(at.join("d"), at.join("e"))?;
        sync_dir(at)
    })?;
    stage.synced(&["new"], |at| {
        std::fs::remove_file(at.join("new"))?;
        sync_dir(at)
    })
}

/// A shell leaves to chance what a tool then builds on.
fn mixed(stage: &mut Stage<'_>) -> Step {
    stage.shell(|at| create_dir(at.join("d")))?;
    let below: &[u8] = b"by a tool\n";
    stage.tool("write", &json!({"path": "@/d/f", "content": "by a tool\n"}), &[("d/f", Some(below))])?;
    stage.save("m", |path| write(path, "by a shell\n"))?;
    let edit = json!({"path": "@/m", "edits": [{"old_text": "shell", "new_text": "tool"}]});
    stage.tool("edit", &edit, &[("m", Some(below))])?;
    stage.shell(|at| rename(at.join("d"), at.join("e")))?;
    stage.tool("move", &json!({"from": "@/e/f", "to": "@/g"}), &[("e/f", None), ("g", Some(below))])?;
    stage.save("g", |path| OpenOptions::new().write(true).open(path)?.write_all_at(b"BY", 0))?;
    let whole = "large, by a tool\n".repeat(70_000);
    stage.tool("write", &json!({"path": "@/g", "content": whole}), &[("g", Some(whole.as_bytes()))])?;
    stage.tool("delete", &json!({"paths": ["@/m", "@/e"], "recursive": true}), &[("m", None), ("e", None)])
}
