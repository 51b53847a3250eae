//! A slow reading of the policy rules, as plainly as they are written, to hold the fast one against.

use super::{Class, PolicySpec};

/// Does one gitignore pattern (without its `!`) match exactly this path? Recursion over bytes, as `wildmatch` does.
fn matches(pattern: &str, path: &str, is_dir: bool) -> bool {
    let (dir_only, pattern) = pattern.strip_suffix('/').map_or((false, pattern), |p| (true, p));
    if dir_only && !is_dir {
        return false;
    }
    match pattern.strip_prefix('/') {
        Some(anchored) => wild(anchored, path),
        None if pattern.contains('/') => wild(pattern, path),
        None => wild(pattern, path.rsplit('/').next().expect("rsplit gives one part at least")),
    }
}

fn wild(pattern: &str, path: &str) -> bool {
    if pattern == "**" {
        return true;
    }
    if let Some(rest) = pattern.strip_prefix("**/") {
        return wild(rest, path) || path.split_once('/').is_some_and(|(_, below)| wild(pattern, below));
    }
    let (name, more) = pattern.split_once('/').map_or((pattern, None), |(a, b)| (a, Some(b)));
    let (first, below) = path.split_once('/').map_or((path, None), |(a, b)| (a, Some(b)));
    wild_name(name.as_bytes(), first.as_bytes())
        && match (more, below) {
            (None, None) => true,
            (Some(more), Some(below)) => wild(more, below),
            (None, Some(_)) | (Some(_), None) => false,
        }
}

fn wild_name(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|cut| wild_name(rest, &name[cut..])),
        ([b'?', rest @ ..], [_, below @ ..]) => wild_name(rest, below),
        ([a, rest @ ..], [b, below @ ..]) => a == b && wild_name(rest, below),
        ([], [_, ..]) | ([_, ..], []) => false,
    }
}

/// The path itself and each directory above it, from the top.
fn levels(path: &str, is_dir: bool) -> Vec<(&str, bool)> {
    let ends = path.match_indices('/').map(|(at, _)| (&path[..at], true));
    ends.chain(std::iter::once((path, is_dir))).filter(|(p, _)| !p.is_empty()).collect()
}

fn git_selects(list: &[String], path: &str, is_dir: bool) -> bool {
    levels(path, is_dir).into_iter().any(|(level, is_dir)| {
        let last = list.iter().rev().find(|p| matches(p.trim_start_matches('!'), level, is_dir));
        last.is_some_and(|p| !p.starts_with('!'))
    })
}

fn last_covering(list: &[String], path: &str, is_dir: bool) -> bool {
    let covers = |p: &&String| levels(path, is_dir).into_iter().any(|(l, d)| matches(p.trim_start_matches('!'), l, d));
    list.iter().rev().find(covers).is_some_and(|p| !p.starts_with('!'))
}

/// `below`: every path that could stand below, as far as the test's alphabet of names goes.
pub(super) fn class(spec: &PolicySpec, path: &str, is_dir: bool, below: &[String]) -> Option<Class> {
    let texts = |list: &[super::Pattern]| list.iter().map(|p| p.text.clone()).collect::<Vec<_>>();
    if git_selects(&texts(&spec.deny), path, is_dir) {
        return None;
    }
    let allow = texts(&spec.allow);
    let allowed = last_covering(&allow, path, is_dir);
    let leads = is_dir && below.iter().any(|b| last_covering(&allow, b, true) || last_covering(&allow, b, false));
    (allowed || leads).then(|| Class {
        read_only: spec.all_read_only || !allowed || git_selects(&texts(&spec.read_only), path, is_dir),
        unversioned: last_covering(&texts(&spec.unversioned), path, is_dir),
    })
}
