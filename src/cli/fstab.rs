//! As `mount.fuse.wardfs`, the name by which mount(8) calls the helper of a line in /etc/fstab.

use std::{ffi::OsString, path::Path};

use crate::config::split_options;

/// Options of a line in /etc/fstab that are arguments of `wardfs mount`.
const ARGUMENTS: &[&str] = &["config", "view", "policy", "store", "socket", "tools"];

/// The arguments of this process, those of a mount helper put as `wardfs mount` takes them: `PROGRAM SOURCE MOUNTPOINT
/// [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`. None if there is nothing to do.
pub(super) fn translated(arguments: Vec<OsString>) -> Option<Vec<OsString>> {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| name.to_string_lossy().starts_with("mount.")) {
        return Some(arguments);
    }
    let mut given = arguments.into_iter();
    let mut out: Vec<OsString> = given.next().into_iter().chain(["mount".into()]).collect();
    let mut paths = Vec::new();
    while let Some(argument) = given.next() {
        match argument.to_str() {
            // mount(8) says what a line would do, and does nothing.
            Some(flags) if is_flags(flags) && flags.contains('f') => return None,
            Some(flags) if is_flags(flags) => {}
            Some("-t" | "-N") => drop(given.next()),
            Some("-o") => {
                let list = given.next().unwrap_or_default();
                out.extend(option_arguments(&list.to_string_lossy()));
            }
            Some(_) | None => paths.push(argument),
        }
    }
    out.push("--".into());
    // A view of a config has its own directories.
    let of_config = out.iter().any(|argument| argument.to_string_lossy().starts_with("--config="));
    let skipped = usize::from(of_config && paths.first().is_some_and(|source| source == "none" || source == "wardfs"));
    out.extend(paths.into_iter().skip(skipped));
    Some(out)
}

fn is_flags(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| "sfnv".contains(flag)))
}

fn option_arguments(list: &str) -> Vec<OsString> {
    let mut out = Vec::new();
    for option in split_options(&[list.to_owned()]) {
        match option.split_once('=') {
            Some((key, value)) if ARGUMENTS.contains(&key) => out.push(format!("--{key}={value}").into()),
            Some(_) | None => {
                // It will be split again.
                out.push("-o".into());
                out.push(option.replace(',', "\\,").into());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: Option<&[&str]>) {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(translated(words(given)), expected.map(words), "{given:?}");
    }

    #[test]
    fn a_line_of_fstab_becomes_a_mount() {
        let helper = "/sbin/mount.fuse.wardfs";
        check(&["wardfs", "mount", "-f", "/a", "/b"], Some(&["wardfs", "mount", "-f", "/a", "/b"]));
        check(
            &[helper, "/a", "/b", "-sn", "-o", "rw,deny=x\\,y:z,nofail", "-t", "fuse.wardfs"],
            Some(&[helper, "mount", "-o", "rw", "-o", "deny=x\\,y:z", "-o", "nofail", "--", "/a", "/b"]),
        );
        check(
            &[helper, "none", "/b", "-o", "config=/etc/w.toml,view=agent,ro"],
            Some(&[helper, "mount", "--config=/etc/w.toml", "--view=agent", "-o", "ro", "--", "/b"]),
        );
        check(&[helper, "/a", "/b", "-f", "-o", "rw"], None);
        check(&[helper, "-dash", "/b"], Some(&[helper, "mount", "--", "-dash", "/b"]));
    }
}
