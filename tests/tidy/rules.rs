//! The rules: each looks at all files and says which break it, and how.

use std::collections::HashSet;

use crate::{
    File,
    code::{Named, declared as declared_mods, named, tokens, without_tests},
};

const LONGEST: usize = 600;

/// Layers from the bottom; a module may import those of lower numbers. The highest is the process itself, whose three
/// parts know each other.
const LAYERS: &[(&str, usize)] = &[
    ("types", 0),
    ("host", 1),
    ("policy", 1),
    ("text", 1),
    ("search", 1),
    ("versions", 2),
    ("config", 2),
    ("view", 3),
    ("tools", 4),
    ("control", 5),
    ("fuse", 5),
    ("cli", PROCESS),
    ("run", PROCESS),
    ("main", PROCESS),
    ("lib", PROCESS),
];
const PROCESS: usize = 6;

/// Crates, and the modules that may name them.
const FENCES: &[(&str, &[&str])] = &[
    ("fuser", &["fuse"]),
    ("tokio", &["control", "run"]),
    ("rmcp", &["control", "run"]),
    ("rusqlite", &["versions"]),
    ("control_api", &["control", "tools", "cli", "run"]),
    ("tracing", &["fuse", "control", "cli", "run", "main"]),
];

const STD_FS: &[&str] = &["host", "versions", "config", "run", "cli"];

const TOP: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "control-api",
    "fuzz",
    "scripts",
    "src",
    "tests",
];

/// Words in two halves, so that this file does not hold them.
const WORDS: &[(&str, &str)] = &[
    ("/wor", "k/"),
    (".libr", "ary/"),
    ("shared/des", "ign"),
    ("sub", "agent"),
    ("sub-", "agent"),
    ("issue", " #"),
    ("crates", ".io"),
    ("pypi", ".org"),
    ("npmjs", ".org"),
    ("deb.debian", ".org"),
    ("claude", " code session"),
    ("co-authored", "-by"),
];

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// The module of a file of the main crate: `src/view/walk.rs` is in `view`.
fn module(path: &str) -> Option<&str> {
    let below = path.strip_prefix("src/").filter(|_| is_rust(path))?;
    Some(below.split_once('/').map_or(below.trim_end_matches(".rs"), |(first, _)| first))
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// How many modules stand above the code of a file: none for `lib.rs`, one for `view.rs`, two for `view/walk.rs`.
fn depth(path: &str) -> usize {
    let below = path.trim_start_matches("src/");
    if below == "lib.rs" || below == "main.rs" { 0 } else { below.split('/').count() }
}

/// The top-level module that a path leads to, if it leads to one: by `crate::`, or by `super::` up to the root.
fn leads_to(name: &Named, file_depth: usize) -> Option<&str> {
    let supers = name.parts.iter().take_while(|part| *part == "super").count();
    let first = name.parts.first()?.as_str();
    let target = match first {
        "crate" | "wardfs" => name.parts.get(1),
        "super" if supers == file_depth + name.depth => name.parts.get(supers),
        _ => None,
    };
    target.map(String::as_str)
}

/// Imports only point down; modules of one row never import each other.
pub fn layers(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, text) in files {
        let Some(from) = module(path) else { continue };
        let Some(own) = layer(from) else {
            broken.push(format!("{path}: module `{from}` has no layer"));
            continue;
        };
        for name in named(&tokens(text)) {
            let Some(to) = leads_to(&name, depth(path)) else { continue };
            let Some(other) = layer(to) else { continue };
            if to != from && other >= own && own != PROCESS {
                broken.push(format!("{path}: `{from}` imports `{to}`, which is not below it"));
            }
        }
    }
    broken.dedup();
    broken
}

/// Files of the main crate that exist for tests alone.
fn test_files(files: &[File]) -> HashSet<String> {
    let mut found = HashSet::new();
    for (path, text) in files.iter().filter(|(path, _)| module(path).is_some()) {
        let folder = if depth(path) == 0 { "src" } else { path.trim_end_matches(".rs") };
        for (name, tests) in declared_mods(&tokens(text)) {
            if tests || found.contains(path) {
                found.insert(format!("{folder}/{name}.rs"));
            }
        }
    }
    found
}

/// The paths that the product's own code names, file by file.
fn product(files: &[File]) -> Vec<(&str, &str, Vec<Named>)> {
    let tests = test_files(files);
    files
        .iter()
        .filter(|(path, _)| !tests.contains(path) && !tests.iter().any(|test| is_below(path, test)))
        .filter_map(|(path, text)| Some((path.as_str(), module(path)?, named(&without_tests(&tokens(text))))))
        .collect()
}

fn is_below(path: &str, file: &str) -> bool {
    path.strip_prefix(file.trim_end_matches(".rs")).is_some_and(|rest| rest.starts_with('/'))
}

/// Each fenced crate is named only where it belongs.
pub fn fences(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, module, names) in product(files) {
        for name in names {
            let fence = FENCES.iter().find(|(krate, _)| name.parts.first().is_some_and(|first| first == krate));
            let Some((krate, homes)) = fence else { continue };
            if (name.import || name.parts.len() > 1) && !homes.contains(&module) {
                broken.push(format!("{path}: `{krate}` is only for {}", homes.join(", ")));
            }
        }
    }
    broken.dedup();
    broken
}

/// Served files are reached through `host` alone; `std::fs` is for files of our own.
pub fn std_fs(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, module, names) in product(files) {
        let uses = names
            .iter()
            .any(|name| name.parts.first().is_some_and(|p| p == "std") && name.parts.get(1).is_some_and(|p| p == "fs"));
        if uses && !STD_FS.contains(&module) {
            broken.push(format!("{path}: std::fs is only for {}", STD_FS.join(", ")));
        }
    }
    broken
}

/// Each Rust file begins with a `//!` sentence.
pub fn heads(files: &[File]) -> Vec<String> {
    let has_sentence = |text: &str| {
        let head: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .take_while(|line| !line.trim().is_empty())
            .map(str::trim)
            .collect();
        head.join(" ").ends_with(['.', ':', '!', '?'])
    };
    files
        .iter()
        .filter(|(path, text)| is_rust(path) && !has_sentence(text))
        .map(|(path, _)| format!("{path}: does not begin with a `//!` sentence"))
        .collect()
}

/// No Rust file is longer than it can be read.
pub fn lengths(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|(path, _)| is_rust(path))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(path, lines)| format!("{path}: {lines} lines, more than {LONGEST}: look for its second noun"))
        .collect()
}

/// No test is ignored.
pub fn ignored(files: &[File]) -> Vec<String> {
    let marked = |text: &str| {
        let tokens: Vec<String> = tokens(text).iter().map(|token| format!("{token:?}")).collect();
        let (hash, open, word) = ("Punct('#')", "Punct('[')", "Ident(\"ignore\")");
        tokens.windows(3).any(|three| three == [hash, open, word])
    };
    files
        .iter()
        .filter(|(path, text)| is_rust(path) && marked(text))
        .map(|(path, _)| format!("{path}: a test is ignored: make it run or take it out"))
        .collect()
}

/// Each file is part of a crate: its parent declares it. A file that nobody declares is never compiled.
pub fn declared(files: &[File]) -> Vec<String> {
    let roots = ["src/main.rs", "src/lib.rs", "tests/it/main.rs", "control-api/src/lib.rs"];
    let crates = ["src/", "tests/it/", "control-api/src/"];
    let mut broken = Vec::new();
    for (path, _) in files.iter().filter(|(path, _)| is_rust(path) && crates.iter().any(|c| path.starts_with(c))) {
        if roots.contains(&path.as_str()) {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap();
        let parents = if crates.iter().any(|c| c.trim_end_matches('/') == folder) {
            vec![format!("{folder}/lib.rs"), format!("{folder}/main.rs")]
        } else {
            vec![format!("{folder}.rs")]
        };
        let name = name.trim_end_matches(".rs");
        let known = files
            .iter()
            .filter(|(parent, _)| parents.contains(parent))
            .any(|(_, text)| declared_mods(&tokens(text)).iter().any(|(declared, _)| declared == name));
        if !known {
            broken.push(format!("{path}: no `mod {name};` in {}", parents.join(" or ")));
        }
    }
    broken
}

/// A folder's module lies beside it.
pub fn mod_rs(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|(path, _)| path.ends_with("/mod.rs"))
        .map(|(path, _)| format!("{path}: put it beside its folder, named after it"))
        .collect()
}

/// The top folder holds what it should.
pub fn top_level(files: &[File]) -> Vec<String> {
    let mut seen = HashSet::new();
    files
        .iter()
        .map(|(path, _)| path.split('/').next().unwrap())
        .filter(|top| !top.starts_with('.') && !TOP.contains(top) && seen.insert(*top))
        .map(|top| format!("{top}: does not belong at the top of the tree"))
        .collect()
}

/// The tree speaks of itself alone.
pub fn words(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path != "Cargo.lock") {
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for (one, two) in WORDS {
                if line.contains(&format!("{one}{two}")) {
                    broken.push(format!("{path}:{}: `{one}{two}` has no place here", number + 1));
                }
            }
        }
    }
    broken
}
