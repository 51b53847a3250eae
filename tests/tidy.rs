//! The tree holds to its own rules: layers, fences, file heads, sizes, declared files, words.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree has failed")]

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/points.rs"]
mod points;
#[path = "tidy/rules.rs"]
mod rules;

use std::path::Path;

/// One file of the tree: its path from the top, and its text (empty for what is not text).
type File = (String, String);

fn collect(dir: &Path, top: &Path, files: &mut Vec<File>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        if name == ".git" || name == "target" || name.ends_with("/target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, top, files);
        } else {
            let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap_or_default();
            files.push((name, text));
        }
    }
}

fn tree() -> Vec<File> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(top, top, &mut files);
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"), "this is not the tree: {top:?}");
    files
}

fn holds(rule: fn(&[File]) -> Vec<String>) {
    let broken = rule(&tree());
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn imports_only_point_down() {
    holds(rules::layers);
}

#[test]
fn crates_stay_behind_their_fences() {
    holds(rules::fences);
}

#[test]
fn std_fs_stays_where_files_of_our_own_are() {
    holds(rules::std_fs);
}

#[test]
fn each_file_says_what_it_is() {
    holds(rules::heads);
}

#[test]
fn no_file_is_too_long() {
    holds(rules::lengths);
}

#[test]
fn no_test_is_ignored() {
    holds(rules::ignored);
}

#[test]
fn no_file_is_forgotten() {
    holds(rules::declared);
}

#[test]
fn no_mod_rs() {
    holds(rules::mod_rs);
}

#[test]
fn the_top_folder_holds_what_it_should() {
    holds(rules::top_level);
}

#[test]
fn the_tree_speaks_of_itself_alone() {
    holds(rules::words);
}

#[test]
fn crash_points_are_listed_where_they_are_placed() {
    holds(points::points);
}
