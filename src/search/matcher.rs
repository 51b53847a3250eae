//! What to look for: a literal or a regular expression, compiled within limits (linear time, 1,000 characters, 1 MiB program).

/// Upper and lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CaseRule {
    /// Insensitive unless the query holds an upper-case letter.
    #[default]
    Smart,
    /// As written.
    Sensitive,
    /// Folded.
    Insensitive,
}

/// A query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatcherSpec {
    /// The literal or the pattern.
    pub query: String,
    /// A regular expression of the `regex` crate.
    pub regex: bool,
    /// Case.
    pub case: CaseRule,
    /// At word boundaries only.
    pub word: bool,
    /// `.` and classes may match line ends.
    pub multiline: bool,
}

/// A compiled query.
#[derive(Debug, Clone)]
pub struct Matcher {
    // implementation: grep_regex::RegexMatcher
}

/// A query that cannot be compiled.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum MatcherError {
    /// Empty.
    #[error("the query is empty; give the text to look for")]
    Empty,
    /// Not a regular expression.
    #[error("not a valid regular expression: {0}")]
    Syntax(String),
    /// Over 1,000 characters, or its program is too large.
    #[error("the pattern is too complex: {0}; shorten it or lower its repetition counts")]
    TooComplex(String),
}

impl Matcher {
    /// Compiles.
    ///
    /// # Errors
    /// As `MatcherError` says.
    pub fn new(spec: &MatcherSpec) -> Result<Matcher, MatcherError> {
        todo!()
    }
}
