//! The scenes of the load: what a shell and a tool do, so that together they pass every point.

use std::{
    fs::{File, OpenOptions, create_dir, hard_link, remove_dir, remove_file, rename, set_permissions, write},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
};

use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with, setxattr};
use serde_json::json;

use super::load::{Stage, Step};
use crate::harness::Random;

/// One scene.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Its folder.
    pub name: &'static str,
    /// Played on the tool's thread.
    pub by_tool: bool,
    /// Puts into the folder what is there before the daemon first sees it.
    pub before: fn(&Path),
    /// Plays it.
    pub play: fn(&mut Stage<'_>) -> Step,
}

/// What always plays.
pub const USUAL: &[Scene] = &[
    Scene { name: "shell-contents", by_tool: false, before: contents_before, play: contents },
    Scene { name: "shell-names", by_tool: false, before: names_before, play: names },
    Scene { name: "outside", by_tool: false, before: |_| {}, play: outside },
    Scene { name: "tool-files", by_tool: true, before: files_before, play: files },
    Scene { name: "tool-sets", by_tool: true, before: sets_before, play: sets },
    Scene { name: "both", by_tool: true, before: |at| write(at.join("m"), "one\ntwo\n").unwrap(), play: both },
];

/// Much content: the log gets a second segment.
pub const BULK: Scene = Scene { name: "bulk", by_tool: false, before: |_| {}, play: bulk };

/// Bytes that do not compress, other ones for each seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    Random::new(seed).bytes(count)
}

fn contents_before(at: &Path) {
    write(at.join("a"), "an old line\n".repeat(300)).unwrap();
    write(at.join("b"), "never seen\n").unwrap();
    write(at.join("t"), "to be cut\n".repeat(9)).unwrap();
    write(at.join("large"), noise(1, 1_200_000)).unwrap();
    write(at.join("vast"), noise(2, 1_100_000)).unwrap();
}

fn contents(stage: &mut Stage<'_>) -> Step {
    stage.save("new", |path| write(path, "new\n"))?;
    stage.save("a", |path| write(path, "replaced\n"))?;
    stage.save("a", |path| OpenOptions::new().append(true).open(path)?.write_at(b"appended\n", 0).map(drop))?;
    stage.save("b", |path| OpenOptions::new().write(true).open(path)?.write_all_at(b"NEVER", 0))?;
    stage.save("large", |path| OpenOptions::new().write(true).open(path)?.write_all_at(b"in place", 5000))?;
    stage.save("vast", |path| write(path, "small now\n"))?;
    stage.save("t", |path| {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(7)
    })?;
    stage.save("new", |path| {
        let file = OpenOptions::new().append(true).open(path)?;
        file.write_at(b"synced\n", 0)?;
        file.sync_all()
    })
}

fn names_before(at: &Path) {
    for name in ["x", "y", "p", "q", "h1", "c", "last"] {
        write(at.join(name), format!("{name} as it was\n")).unwrap();
    }
    create_dir(at.join("d")).unwrap();
    write(at.join("d/z"), "below\n").unwrap();
    create_dir(at.join("empty")).unwrap();
    symlink("x", at.join("link")).unwrap();
}

fn names(stage: &mut Stage<'_>) -> Step {
    stage.shell(|at| remove_file(at.join("x")))?;
    stage.save("y.tmp", |path| write(path, "y anew\n"))?;
    stage.shell(|at| rename(at.join("y.tmp"), at.join("y")))?;
    stage.shell(|at| create_dir(at.join("m")))?;
    stage.save("m/f", |path| write(path, "in m\n"))?;
    stage.shell(|at| rename(at.join("m"), at.join("m2")))?;
    stage.shell(|at| Ok(renameat_with(CWD, at.join("p"), CWD, at.join("q"), RenameFlags::EXCHANGE)?))?;
    stage.shell(|at| hard_link(at.join("h1"), at.join("h2")))?;
    stage.save("h2", |path| write(path, "by the other name\n"))?;
    stage.shell(|at| remove_file(at.join("h1")))?;
    stage.shell(|at| remove_file(at.join("link")))?;
    stage.shell(|at| symlink("nowhere", at.join("dangling")))?;
    stage.shell(|at| set_permissions(at.join("c"), PermissionsExt::from_mode(0o600)))?;
    stage.shell(|at| Ok(setxattr(at.join("c"), "user.k", b"v", XattrFlags::empty())?))?;
    stage.shell(|at| File::options().write(true).open(at.join("c"))?.set_modified(std::time::UNIX_EPOCH))?;
    stage.shell(|at| remove_dir(at.join("empty")))?;
    stage.save("y", |path| write(path, "y once more\n"))?;
    stage.shell(|at| remove_file(at.join("y")))?;
    stage.shell(|at| rename(at.join("d/z"), at.join("z")))?;
    stage.shell(|at| rename(at.join("last"), at.join("d/last")))?;
    stage.shell(|at| remove_file(at.join("z")))
}

fn outside(stage: &mut Stage<'_>) -> Step {
    stage.save("o", |path| write(path, "through the mount\n"))?;
    // Its content is not sure to be kept before somebody beside us overwrites it; the one before it is.
    stage.shell(|at| write(at.join("o"), "through the mount again\n"))?;
    stage.beside(|host| write(host.join("o"), "beside it, longer\n").unwrap());
    stage.shell(|at| set_permissions(at.join("o"), PermissionsExt::from_mode(0o640)))?;
    stage.save("o", |path| write(path, "and again\n"))
}

fn files_before(at: &Path) {
    for name in ["f1", "f2", "h1"] {
        write(at.join(name), format!("{name} as it was\n")).unwrap();
    }
    hard_link(at.join("h1"), at.join("h2")).unwrap();
    write(at.join("large"), noise(3, 1_150_000)).unwrap();
    set_permissions(at.join("f2"), PermissionsExt::from_mode(0o755)).unwrap();
}

fn files(stage: &mut Stage<'_>) -> Step {
    let write = |path: &str, content: &str| json!({"path": format!("@/{path}"), "content": content});
    stage.tool("write", &write("n", "new\n"), &[("n", Some(b"new\n"))])?;
    stage.tool("write", &write("f1", "written\n"), &[("f1", Some(b"written\n"))])?;
    let edit = json!({"path": "@/f2", "edits": [{"old_text": "as it", "new_text": "as it never"}]});
    stage.tool("edit", &edit, &[("f2", Some(b"f2 as it never was\n"))])?;
    let both: &[u8] = b"in place\n";
    stage.tool("write", &write("h1", "in place\n"), &[("h1", Some(both)), ("h2", Some(both))])?;
    let large = "large, and larger\n".repeat(65_000);
    stage.tool("write", &write("l", &large), &[("l", Some(large.as_bytes()))])?;
    stage.tool("write", &write("l", "small\n"), &[("l", Some(b"small\n"))])?;
    stage.tool("write", &write("large", "cut\n"), &[("large", Some(b"cut\n"))])?;
    let once = json!({"path": "@/n", "content": "once\n", "operation_id": "the-first"});
    stage.tool("write", &once, &[("n", Some(b"once\n"))])?;
    stage.tool("delete", &json!({"path": "@/n"}), &[("n", None)])
}

fn sets_before(at: &Path) {
    for name in ["a", "b", "c", "from/1", "from/2", "from/deep/3", "s/changed", "s/kept"] {
        let path = at.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(path, format!("{name} of old\n")).unwrap();
    }
}

fn sets(stage: &mut Stage<'_>) -> Step {
    stage.tool("mkdir", &json!({"paths": ["@/d1", "@/d2/d3"], "parents": true}), &[])?;
    let copied: &[(&str, Option<&[u8]>)] = &[
        ("to/1", Some(b"from/1 of old\n")),
        ("to/2", Some(b"from/2 of old\n")),
        ("to/deep/3", Some(b"from/deep/3 of old\n")),
    ];
    stage.tool("copy", &json!({"from": "@/from", "to": "@/to"}), copied)?;
    let gone: &[(&str, Option<&[u8]>)] = &[("a", None), ("b", None), ("from/1", None), ("from/2", None)];
    stage.tool("delete", &json!({"paths": ["@/a", "@/b", "@/from"], "recursive": true}), gone)?;
    stage.tool(
        "move",
        &json!({"from": "@/to", "to": "@/moved"}),
        &[("moved/1", Some(b"from/1 of old\n")), ("to/1", None)],
    )?;
    let over = json!({"from": "@/moved/1", "to": "@/c", "overwrite": true});
    stage.tool("move", &over, &[("c", Some(b"from/1 of old\n")), ("moved/1", None)])?;
    // What a shell did is taken back by a tool: a file made anew, one changed, one removed.
    stage.shell(|at| remove_file(at.join("s/kept")))?;
    stage.save("s/changed", |path| write(path, "changed by a shell\n"))?;
    stage.save("s/added", |path| write(path, "added by a shell\n"))?;
    let back: &[(&str, Option<&[u8]>)] =
        &[("s/changed", Some(b"s/changed of old\n")), ("s/kept", Some(b"s/kept of old\n")), ("s/added", None)];
    stage.tool("revert", &json!({"path": "@/s", "to": {"checkpoint": "start"}}), back)?;
    stage.tool("write", &json!({"path": "@/last", "content": "end\n"}), &[("last", Some(b"end\n"))])
}

fn both(stage: &mut Stage<'_>) -> Step {
    stage.save("m", |path| write(path, "a shell's\n"))?;
    let edit = json!({"path": "@/m", "edits": [{"old_text": "shell", "new_text": "tool"}]});
    stage.tool("edit", &edit, &[])?;
    stage.save("m", |path| write(path, "a shell's again\n"))?;
    stage.shell(|at| rename(at.join("m"), at.join("moved")))?;
    stage.tool("write", &json!({"path": "@/moved", "content": "a tool's\n"}), &[("moved", Some(b"a tool's\n"))])?;
    stage.shell(|at| remove_file(at.join("moved")))
}

fn bulk(stage: &mut Stage<'_>) -> Step {
    for number in 0..5 {
        stage.save(&format!("{number}"), |path| write(path, noise(10 + number, 300_000)))?;
    }
    Ok(())
}
