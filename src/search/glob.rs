//! Globs over relative paths: the native dialect and those that profiles' documents fix.

use crate::types::ViewPath;

/// How a pattern is read. See the design of the native dialect in `ARCHITECTURE.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// `*` and `?` do not cross `/`, `**` does, `{a,b}`, `[a-z]`, `[!a]`, `\` escapes; a leading `!` negates nothing.
    #[default]
    Native,
    /// `*`, `?`, `**` alone; braces and brackets are literal (Burrow).
    Plain,
    /// Gitignore semantics (a pattern without `/` matches at any depth).
    Gitignore,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Glob {
    // implementation: globset with literal_separator(true)
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

impl Glob {
    /// Compiles one pattern; `ignore_case` folds ASCII and Unicode simply.
    ///
    /// # Errors
    /// A malformed pattern, or one over 1,000 bytes.
    pub fn new(pattern: &str, dialect: Dialect, ignore_case: bool) -> Result<Glob, GlobError> {
        todo!()
    }

    /// Does it match this whole relative path?
    pub fn is_match(&self, path: &ViewPath) -> bool {
        todo!()
    }

    /// Does it match these bytes (a bare name)?
    pub fn is_match_name(&self, name: &[u8]) -> bool {
        todo!()
    }

    /// Could something below directory `dir` match? (False lets a walk skip the whole directory.)
    pub fn could_match_below(&self, dir: &ViewPath) -> bool {
        todo!()
    }
}
