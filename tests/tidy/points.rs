//! The rule of named points: each crash point and each planted fault is listed once and stands once in the code.

use crate::File;

const LISTS: &str = "src/versions/crash.rs";

/// The names in a list of `crash.rs`.
fn listed(text: &str, list: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once(&format!("pub const {list}: &[&str] = &[")) else { return Vec::new() };
    let body = rest.split_once("];").map_or(rest, |(body, _)| body);
    let lines = body.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The names that the code passes to `call`, with their files. Comments do not count.
fn placed<'a>(files: &'a [File], call: &str) -> Vec<(String, &'a str)> {
    let call = &format!("{call}(\"");
    let sources = files.iter().filter(|(path, _)| path.starts_with("src/") && path.ends_with(".rs") && path != LISTS);
    sources
        .flat_map(|(path, text)| {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            lines.map(move |line| (path.as_str(), line))
        })
        .flat_map(|(path, line)| {
            let names = line.split(call.as_str()).skip(1);
            names.filter_map(move |rest| Some((rest.split_once('"')?.0.to_owned(), path)))
        })
        .collect()
}

/// What is listed stands in the code, once; what stands in the code is listed, once.
pub fn points(files: &[File]) -> Vec<String> {
    let lists = files.iter().find(|(path, _)| path == LISTS).map_or("", |(_, text)| text);
    let mut broken = Vec::new();
    for (list, call) in [("POINTS", "crash_point!"), ("FAULTS", "planted")] {
        let (listed, placed) = (listed(lists, list), placed(files, call));
        for (at, name) in listed.iter().enumerate() {
            let places: Vec<&str> = placed.iter().filter(|(other, _)| other == name).map(|(_, path)| *path).collect();
            if places.len() != 1 {
                broken
                    .push(format!("{LISTS}: `{name}` of {list} stands {} times in the code: {places:?}", places.len()));
            }
            if listed[..at].contains(name) {
                broken.push(format!("{LISTS}: `{name}` is twice in {list}"));
            }
        }
        for (name, path) in placed.iter().filter(|(name, _)| !listed.contains(name)) {
            broken.push(format!("{path}: `{name}` is not in {list} of {LISTS}"));
        }
    }
    broken
}
