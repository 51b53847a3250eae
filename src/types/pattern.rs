//! One gitignore pattern over path bytes, matched name by name from the top, as git's own `wildmatch` would.

mod name;
mod parts;

use name::NameGlob;
pub use parts::{MatchName, Part, Parts, Progress};

/// A compiled gitignore pattern. Matching works on bytes, so names that are not UTF-8 are names like all others.
///
/// A path is fed to it one name at a time: `start`, then `step` for each name; `accepts` asks whether the names so far
/// match, `could_go_on` whether more names could.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    negated: bool,
    dir_only: bool,
    parts: Parts<NameGlob>,
}

/// Why a line is not a pattern that could ever match.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
pub enum PatternError {
    /// Nothing but slashes or white space, or `!` alone.
    #[error("it is empty")]
    Empty,
    /// Two slashes in a row.
    #[error("it holds `//`, which no path does")]
    EmptyName,
    /// `.` or `..` as a component.
    #[error("`.` and `..` never match: write the path from the root, as in `/src`")]
    DotName,
    /// `[` without its `]`, or an unknown `[:class:]`.
    #[error("a `[` is not closed, or names an unknown class; write `\\[` for the character itself")]
    BadClass,
    /// A `\` with nothing behind it.
    #[error("it ends with `\\`; write `\\\\` for the character itself")]
    TrailingBackslash,
    /// More components than a pattern may have.
    #[error("it has more than 60 components")]
    TooLong,
}

impl PathPattern {
    /// Reads one line of a gitignore file; `None` for a blank line or a comment.
    ///
    /// # Errors
    /// A line that git reads as a pattern which never matches.
    pub fn parse(line: &[u8]) -> Result<Option<PathPattern>, PatternError> {
        let line = trim_trailing_spaces(line.strip_suffix(b"\r").unwrap_or(line));
        if line.is_empty() || line[0] == b'#' {
            return Ok(None);
        }
        let (negated, rest) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
        let (dir_only, rest) = rest.strip_suffix(b"/").map_or((false, rest), |rest| (true, rest));
        if rest.is_empty() {
            return Err(PatternError::Empty);
        }
        let anchored = rest.contains(&b'/');
        let names = name::split(rest.strip_prefix(b"/").unwrap_or(rest))?;
        let mut parts: Vec<Part<NameGlob>> = Vec::with_capacity(names.len() + 1);
        if !anchored {
            parts.push(Part::AnyDirs);
        }
        let last = names.len() - 1;
        for (at, name) in names.into_iter().enumerate() {
            if name != NameGlob::AnyDirs {
                parts.push(Part::Name(name));
                continue;
            }
            if parts.last() != Some(&Part::AnyDirs) {
                parts.push(Part::AnyDirs);
            }
            if at == last {
                parts.push(Part::Name(NameGlob::Any));
            }
        }
        let parts = Parts::new(parts).ok_or(PatternError::TooLong)?;
        Ok(Some(PathPattern { negated, dir_only, parts }))
    }

    /// Begins with `!`: it frees what earlier patterns selected.
    #[must_use]
    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// True if every entry of the top directory matches, and so everything is it or below it.
    #[must_use]
    pub fn matches_all(&self) -> bool {
        !self.dir_only && self.parts.only_name().is_some_and(|name| name == &NameGlob::Any)
    }

    /// No names yet: the root.
    #[must_use]
    pub fn start(&self) -> Progress {
        self.parts.start()
    }

    /// One name further down.
    #[must_use]
    pub fn step(&self, now: Progress, name: &[u8]) -> Progress {
        self.parts.step(now, name)
    }

    /// Do the names so far match? `is_dir` tells what the last of them is.
    #[must_use]
    pub fn accepts(&self, now: Progress, is_dir: bool) -> bool {
        self.parts.accepts(now) && (is_dir || !self.dir_only)
    }

    /// Could some path below the names so far match?
    #[must_use]
    pub fn could_go_on(&self, now: Progress) -> bool {
        self.parts.could_go_on(now)
    }
}

/// Spaces at the end don't count unless the first of them is escaped.
fn trim_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at += 2;
                end = at.min(line.len());
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pattern: &str) -> PathPattern {
        PathPattern::parse(pattern.as_bytes()).expect(pattern).expect(pattern)
    }

    fn check(pattern: &str, path: &str, is_dir: bool, expected: bool) {
        let p = parse(pattern);
        let end = path.split('/').fold(p.start(), |now, name| p.step(now, name.as_bytes()));
        assert_eq!(p.accepts(end, is_dir), expected, "{pattern} on {path}");
    }

    #[test]
    fn patterns_match_as_git_reads_them() {
        check("*.pem", "a/b/x.pem", false, true);
        check("/*.pem", "a/x.pem", false, false);
        check("a/*.pem", "a/x.pem", false, true);
        check("a/*.pem", "b/a/x.pem", false, false);
        check("docs/", "x/docs", true, true);
        check("docs/", "x/docs", false, false);
        check("a/**", "a", true, false);
        check("a/**", "a/b/c", false, true);
        check("**/a/**/b", "a/b", false, true);
        check("**/a/**/b", "x/a/y/z/b", false, true);
        check("a**b", "axxb", false, true);
        check("/a**b", "ax/xb", false, false);
        check("[[:digit:]x]?", "7y", false, true);
        check("[^a-c]", "b", false, false);
        check("[]-]", "-", false, true);
        check("\\!x", "!x", false, true);
        check("x\\ ", "x ", false, true);
        check("{a,b}", "a", false, false);
        check("{a,b}", "{a,b}", false, true);
        check("/***/x", "x", false, true);
        check("a[/]b", "a/b", false, false);
    }

    #[test]
    fn what_never_matches_is_refused() {
        for (line, error) in [
            ("/", PatternError::Empty),
            ("!", PatternError::Empty),
            ("a//b", PatternError::EmptyName),
            ("./a", PatternError::DotName),
            ("a/../b", PatternError::DotName),
            ("[a", PatternError::BadClass),
            ("[[:nope:]]", PatternError::BadClass),
            ("a\\", PatternError::TrailingBackslash),
        ] {
            assert_eq!(PathPattern::parse(line.as_bytes()), Err(error), "{line}");
        }
        assert_eq!(PathPattern::parse(b"# note"), Ok(None));
        assert_eq!(PathPattern::parse(b"  \r"), Ok(None));
    }

    #[test]
    fn going_on_is_judged_from_the_pattern_alone() {
        for (pattern, dir, expected) in [
            ("src/**/*.rs", "src", true),
            ("src/**/*.rs", "src/a/b", true),
            ("src/**/*.rs", "lib", false),
            ("/docs/", "docs", false),
            ("*.rs", "any/where", true),
            ("a/*/c", "a/b", true),
            ("a/*/c", "a/b/c", false),
        ] {
            let p = parse(pattern);
            let end = dir.split('/').fold(p.start(), |now, name| p.step(now, name.as_bytes()));
            assert_eq!(p.could_go_on(end), expected, "{pattern} below {dir}");
        }
    }
}
