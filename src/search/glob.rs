//! Globs over relative paths: the native dialect and those that profiles' documents fix.

mod braces;
mod name;

use name::CharGlob;
use regex::bytes::Regex;

use crate::types::{Part, Parts, Progress, ViewPath};

/// How a pattern is read. In all dialects patterns match the whole path, hidden names as any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// `*` and `?` do not cross `/`, `**` does, `{a,b}`, `[a-z]`, `[!a]`, `\` escapes; a leading `!` negates nothing.
    #[default]
    Native,
    /// `*`, `?`, `**` alone, and `**` crosses `/` inside a component too; braces, brackets and `\` are literal (Burrow).
    Plain,
    /// Gitignore's reading of one pattern: without a `/` before its end it matches at any depth; classes may be named
    /// (`[[:digit:]]`), braces mean themselves. It matches the path alone, not what lies below.
    Gitignore,
}

/// A compiled pattern. A leading `./` or `/` and a trailing `/` are no part of it; the latter is told by
/// [`Glob::dirs_only`].
#[derive(Debug)]
pub struct Glob {
    /// One for each way to read the braces.
    alternatives: Vec<Parts<CharGlob>>,
    /// Decides alone where a plain pattern has a `**` that is not a whole component; then `alternatives` is only wide
    /// enough for `could_match_below`.
    crossing: Option<Regex>,
    dirs_only: bool,
}

/// A pattern that the dialect does not know.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("`{pattern}` is not a valid glob: {reason}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// Why.
    pub reason: String,
}

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1_000;

impl Glob {
    /// Compiles one pattern; `ignore_case` folds ASCII and Unicode simply.
    ///
    /// # Errors
    /// A malformed pattern, or one over 1,000 bytes.
    pub fn new(pattern: &str, dialect: Dialect, ignore_case: bool) -> Result<Glob, GlobError> {
        Glob::compile(pattern, dialect, ignore_case).map_err(|reason| GlobError { pattern: shortened(pattern), reason })
    }

    fn compile(pattern: &str, dialect: Dialect, ignore_case: bool) -> Result<Glob, String> {
        if pattern.len() > MAX_PATTERN {
            return Err(format!("it is longer than {MAX_PATTERN} bytes"));
        }
        let (dirs_only, rest) = pattern.strip_suffix('/').map_or((false, pattern), |rest| (true, rest));
        let rest = rest.strip_prefix("./").unwrap_or(rest);
        let anchored = dialect != Dialect::Gitignore || rest.contains('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Err("it is empty".into());
        }
        if dialect == Dialect::Gitignore && rest.starts_with('!') {
            return Err("a pattern on its own can't begin with `!`; write `\\!` for the character itself".into());
        }
        let readings = match dialect {
            Dialect::Native => braces::expand(rest)?,
            Dialect::Plain | Dialect::Gitignore => vec![rest.to_owned()],
        };
        let mut crossing = None;
        let mut alternatives = Vec::with_capacity(readings.len());
        for reading in readings {
            let mut parts = if anchored { Vec::new() } else { vec![Part::AnyDirs] };
            for name in name::split(&reading, dialect) {
                if name == "**" {
                    parts.push(Part::AnyDirs);
                } else if dialect == Dialect::Plain && name.contains("**") {
                    parts.push(Part::AnyDirs);
                    crossing = Some(crossing_regex(rest, ignore_case)?);
                    break;
                } else {
                    parts.push(Part::Name(CharGlob::parse(name, dialect, ignore_case)?));
                }
            }
            alternatives.push(in_normal_form(parts)?);
        }
        Ok(Glob { alternatives, crossing, dirs_only })
    }

    /// Does it match this whole relative path? What the path is, [`Glob::dirs_only`] leaves to the caller.
    pub fn is_match(&self, path: &ViewPath) -> bool {
        if path.is_root() {
            return false;
        }
        if let Some(regex) = &self.crossing {
            return regex.is_match(path.as_bytes());
        }
        self.alternatives.iter().any(|parts| parts.accepts(walked(parts, path)))
    }

    /// Does it match these bytes (a bare name)?
    pub fn is_match_name(&self, name: &[u8]) -> bool {
        if let Some(regex) = &self.crossing {
            return regex.is_match(name);
        }
        self.alternatives.iter().any(|parts| parts.accepts(parts.step(parts.start(), name)))
    }

    /// Could something below directory `dir` match? (False lets a walk skip the whole directory.)
    pub fn could_match_below(&self, dir: &ViewPath) -> bool {
        self.alternatives.iter().any(|parts| parts.could_go_on(walked(parts, dir)))
    }

    /// It was written with a trailing `/`: only directories are meant.
    pub fn dirs_only(&self) -> bool {
        self.dirs_only
    }
}

fn walked(parts: &Parts<CharGlob>, path: &ViewPath) -> Progress {
    let names = path.as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty());
    names.fold(parts.start(), |now, name| parts.step(now, name))
}

/// One `**` where several stand in a row, and a name behind the last one: `a/**` means all below `a`, not `a`.
fn in_normal_form(mut parts: Vec<Part<CharGlob>>) -> Result<Parts<CharGlob>, String> {
    parts.dedup_by(|b, a| matches!((a, b), (Part::AnyDirs, Part::AnyDirs)));
    if matches!(parts.last(), Some(Part::AnyDirs)) {
        parts.push(Part::Name(CharGlob::Any));
    }
    Parts::new(parts).ok_or_else(|| "it has more than 60 components".into())
}

/// A plain pattern as one expression over the whole path.
fn crossing_regex(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    // A character, or a byte of a name that is not UTF-8.
    const ONE: &str = r"(?:[^/]|(?-u:[\x80-\xff]))";
    let mut regex = String::from(r"\A");
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let at_start = rest.len() == pattern.len() || pattern[..pattern.len() - rest.len()].ends_with('/');
        let take = if let Some(behind) = rest.strip_prefix("**") {
            let stars = rest.len() - behind.trim_start_matches('*').len();
            if at_start && rest[stars..].starts_with('/') {
                regex.push_str("(?s-u:.*/)?");
                stars + 1
            } else {
                regex.push_str("(?s-u:.*)");
                stars
            }
        } else {
            match c {
                '*' => regex.extend([ONE, "*"]),
                '?' => regex.push_str(ONE),
                literal => regex.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4]))),
            }
            c.len_utf8()
        };
        rest = &rest[take..];
    }
    regex.push_str(r"\z");
    regex::bytes::RegexBuilder::new(&regex).case_insensitive(ignore_case).build().map_err(|e| e.to_string())
}

fn shortened(pattern: &str) -> String {
    match pattern.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &pattern[..cut]),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests;
