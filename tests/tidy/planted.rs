//! Each rule sees a fault that is planted for it, and does not see one where there is none.

use crate::{File, points, rules};

type Rule = fn(&[File]) -> Vec<String>;

fn tree(files: &[(&str, &str)]) -> Vec<File> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn caught(rule: Rule, files: &[(&str, &str)]) {
    assert!(!rule(&tree(files)).is_empty(), "not seen: {files:?}");
}

fn fine(rule: Rule, files: &[(&str, &str)]) {
    assert_eq!(rule(&tree(files)), Vec::<String>::new(), "{files:?}");
}

#[test]
fn an_import_that_points_up_is_seen() {
    caught(rules::layers, &[("src/host/file.rs", "use crate::view::View;")]);
    caught(rules::layers, &[("src/host/file.rs", "use crate::{\n    types::Ino,\n    view::{self, View},\n};")]);
    caught(rules::layers, &[("src/host/file.rs", "fn f() -> crate::versions::Store { x }")]);
    caught(rules::layers, &[("src/host/file.rs", "use super::super::view::View;")]);
    caught(rules::layers, &[("src/host.rs", "mod inner { use super::super::view::View; }")]);
    caught(rules::layers, &[("src/view.rs", "use crate::tools::x;")]);
    caught(rules::layers, &[("src/view.rs", "use crate::{host, run};")]);
    fine(rules::layers, &[("src/view/walk.rs", "use crate::{host::HostFs, types::{Ino, ViewPath}}; use super::node;")]);
    fine(rules::layers, &[("src/host/file.rs", "// use crate::view::View;\nconst X: &str = \"crate::view\";")]);
    fine(rules::layers, &[("src/host.rs", "mod tests { use super::view_of; }")]);
}

#[test]
fn an_import_within_a_row_is_seen() {
    caught(rules::layers, &[("src/host.rs", "use crate::policy::Policy;")]);
    caught(rules::layers, &[("src/fuse/door.rs", "use crate::control::Line;")]);
    caught(rules::layers, &[("src/versions.rs", "use crate::config::Config;")]);
    caught(rules::layers, &[("src/types.rs", "use crate::search::glob;")]);
    caught(rules::layers, &[("src/tools.rs", "use crate::control::Line;")]);
    fine(rules::layers, &[("src/control.rs", "use crate::tools::call;")]);
    fine(rules::layers, &[("src/run.rs", "use crate::cli::Args;")]);
}

#[test]
fn a_module_without_a_layer_is_seen() {
    caught(rules::layers, &[("src/extra.rs", "")]);
    caught(rules::layers, &[("src/extra/one.rs", "")]);
}

#[test]
fn a_crate_outside_its_fence_is_seen() {
    for (krate, home) in
        [("fuser", "fuse"), ("tokio", "control"), ("rmcp", "run"), ("rusqlite", "versions"), ("control_api", "cli")]
    {
        let text = format!("use {krate}::Thing;");
        caught(rules::fences, &[("src/view/walk.rs", &text)]);
        caught(rules::fences, &[("src/view.rs", &format!("fn f() {{ {krate}::thing() }}"))]);
        caught(rules::fences, &[("src/view.rs", &format!("use {krate};"))]);
        fine(rules::fences, &[(&format!("src/{home}/one.rs"), &text)]);
    }
    caught(rules::fences, &[("src/view.rs", "fn f() { tracing::info!(\"x\"); }")]);
    fine(rules::fences, &[("src/view.rs", "fn f(fuser: u32) -> u32 { fuser } // use fuser::x")]);
    fine(rules::fences, &[("src/view.rs", "#[cfg(test)]\nmod tests { use tokio::spawn; }\nfn f() {}")]);
    caught(rules::fences, &[("src/view.rs", "#[cfg(test)]\nmod tests { fn g() {} }\nuse tokio::spawn;")]);
}

#[test]
fn std_fs_in_the_room_is_seen() {
    caught(rules::std_fs, &[("src/view/walk.rs", "use std::{collections::HashMap, fs};")]);
    caught(rules::std_fs, &[("src/tools.rs", "fn f() { std::fs::read(\"x\") }")]);
    fine(rules::std_fs, &[("src/versions/log.rs", "use std::fs::File;")]);
    fine(rules::std_fs, &[("src/view.rs", "#[cfg(test)]\nmod probe;"), ("src/view/probe.rs", "use std::fs;")]);
    caught(rules::std_fs, &[("src/view.rs", "mod probe;"), ("src/view/probe.rs", "use std::fs;")]);
    let deep = [
        ("src/view.rs", "#[cfg(test)]\nmod tests;"),
        ("src/view/tests.rs", "mod a;"),
        ("src/view/tests/a.rs", "use std::fs;"),
    ];
    fine(rules::std_fs, &deep);
}

#[test]
fn a_file_without_a_head_is_seen() {
    caught(rules::heads, &[("src/view.rs", "use std::io;")]);
    caught(rules::heads, &[("src/view.rs", "//! No full stop\n\nuse std::io;")]);
    caught(rules::heads, &[("tests/it/one.rs", "\n//! Too late.")]);
    fine(rules::heads, &[("src/view.rs", "//! The room, over\n//! two lines.\n\nuse std::io;"), ("README.md", "# x")]);
}

#[test]
fn a_long_file_is_seen() {
    caught(rules::lengths, &[("src/view.rs", &"x\n".repeat(601))]);
    fine(rules::lengths, &[("src/view.rs", &"x\n".repeat(600)), ("README.md", &"x\n".repeat(1000))]);
}

#[test]
fn an_ignored_test_is_seen() {
    caught(rules::ignored, &[("src/view.rs", "#[test]\n#[ignore]\nfn f() {}")]);
    caught(rules::ignored, &[("tests/it/one.rs", "#[ignore = \"slow\"] fn f() {}")]);
    fine(rules::ignored, &[("src/search.rs", "fn ignore() {} // #[ignore]")]);
}

#[test]
fn a_forgotten_file_is_seen() {
    caught(rules::declared, &[("tests/it/main.rs", "mod one;"), ("tests/it/two.rs", "")]);
    caught(rules::declared, &[("tests/it/main.rs", "// mod two;"), ("tests/it/two.rs", "")]);
    caught(
        rules::declared,
        &[("tests/it/cli.rs", "mod other;"), ("tests/it/cli/readme.rs", ""), ("tests/it/main.rs", "mod cli;")],
    );
    caught(rules::declared, &[("src/lib.rs", "mod view;"), ("src/view.rs", ""), ("src/view/walk.rs", "")]);
    fine(rules::declared, &[("src/lib.rs", "pub mod view;"), ("src/view.rs", "mod walk;"), ("src/view/walk.rs", "")]);
    fine(rules::declared, &[("tests/it/main.rs", "mod cli;"), ("tests/it/cli.rs", "")]);
}

#[test]
fn a_mod_rs_is_seen() {
    caught(rules::mod_rs, &[("src/view/mod.rs", "")]);
    fine(rules::mod_rs, &[("src/view.rs", "")]);
}

#[test]
fn a_stray_thing_at_the_top_is_seen() {
    caught(rules::top_level, &[("notes.txt", "")]);
    caught(rules::top_level, &[("docs/plan.md", "")]);
    fine(rules::top_level, &[("README.md", ""), (".ci/run", ""), ("src/lib.rs", "")]);
}

#[test]
fn a_foreign_word_is_seen() {
    let words = ["see /wor", "k/notes"].concat();
    caught(rules::words, &[("README.md", &words)]);
    caught(rules::words, &[("scripts/test", &["fixes Issue", " #7"].concat())]);
    fine(rules::words, &[("README.md", "the alias /workspace, and what works"), ("Cargo.lock", &words)]);
}

#[test]
fn a_crash_point_that_is_not_listed_or_not_placed_is_seen() {
    let list = |names: &str| {
        format!("pub const POINTS: &[&str] = &[\n    // \"no\"\n    {names}\n];\npub const FAULTS: &[&str] = &[\n];\n")
    };
    let code = |text: &str, names: &str| {
        tree(&[
            ("src/versions/crash.rs", &list(names)),
            ("src/view/walk.rs", text),
            ("tests/it.rs", "crash_point!(\"x\")"),
        ])
    };
    let broken = |text: &str, names: &str| points::points(&code(text, names)).len();
    assert_eq!(broken("crash_point!(\"a\");\n// crash_point!(\"c\")\n crash_point!(\"b\");", "\"a\", \"b\","), 0);
    assert_eq!(broken("crash_point!(\"a\"); crash_point!(\"b\");", "\"a\","), 1, "placed, not listed");
    assert_eq!(broken("crash_point!(\"a\");", "\"a\", \"b\","), 1, "listed, not placed");
    assert_eq!(broken("crash_point!(\"a\"); crash_point!(\"a\");", "\"a\","), 1, "placed twice");
    assert_eq!(broken("crash_point!(\"a\");", "\"a\", \"a\","), 1, "listed twice");
    assert_eq!(broken("crash::planted(\"f\")", ""), 1, "a fault that is not listed");
}
