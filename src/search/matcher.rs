//! What to look for: a literal or a regular expression, compiled within limits (linear time, 1,000 characters, 6 MiB program).

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

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
    regex: RegexMatcher,
    multiline: bool,
}

/// Characters of a query.
const MAX_QUERY: usize = 1_000;
/// Bytes of a compiled program: enough for `\w{100}`, and refused within a tenth of a second above it.
const PROGRAM_SIZE: usize = 6 * 1024 * 1024;
const NESTING: u32 = 100;

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
    /// Compiles. A literal may hold line ends (then it is matched across lines, and `\n` in it also matches `\r\n`).
    ///
    /// # Errors
    /// As `MatcherError` says.
    pub fn new(spec: &MatcherSpec) -> Result<Matcher, MatcherError> {
        if spec.query.is_empty() {
            return Err(MatcherError::Empty);
        }
        let length = spec.query.chars().count();
        if length > MAX_QUERY {
            return Err(MatcherError::TooComplex(format!("it has {length} characters, and {MAX_QUERY} are allowed")));
        }
        let multiline = spec.multiline || !spec.regex && spec.query.contains('\n');
        let pattern = match spec.regex {
            true => spec.query.clone(),
            false => regex::escape(&spec.query).replace("\r\n", "\n").replace('\n', r"\r?\n"),
        };
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .word(spec.word)
            .size_limit(PROGRAM_SIZE)
            .dfa_size_limit(2 * PROGRAM_SIZE)
            .nest_limit(NESTING);
        match spec.case {
            CaseRule::Sensitive => {}
            CaseRule::Insensitive => {
                builder.case_insensitive(true);
            }
            CaseRule::Smart if spec.regex => {
                builder.case_smart(true);
            }
            CaseRule::Smart => {
                builder.case_insensitive(!spec.query.chars().any(char::is_uppercase));
            }
        }
        // The order counts: each of the two calls sets the line terminator anew.
        if multiline {
            builder.crlf(true).line_terminator(None).dot_matches_new_line(spec.multiline);
        } else {
            builder.line_terminator(Some(b'\n')).crlf(true);
        }
        let regex = builder.build(&pattern).map_err(|error| refusal(&error))?;
        Ok(Matcher { regex, multiline })
    }

    /// For the searcher.
    pub(super) fn regex(&self) -> &RegexMatcher {
        &self.regex
    }

    /// A match may span lines.
    pub(super) fn is_multiline(&self) -> bool {
        self.multiline
    }
}

fn refusal(error: &grep_regex::Error) -> MatcherError {
    let text = error.to_string();
    let too_complex = ["size limit", "nested", "nest limit"].iter().any(|sign| text.contains(sign));
    if too_complex {
        MatcherError::TooComplex(text.lines().last().unwrap_or("").trim().into())
    } else if matches!(error.kind(), ErrorKind::NotAllowed(_)) {
        MatcherError::Syntax(format!("{text}; a line end is matched with multiline, or by a literal query"))
    } else {
        MatcherError::Syntax(text)
    }
}

#[cfg(test)]
mod tests {
    use grep_matcher::Matcher as _;

    use super::*;

    fn spec(query: &str, regex: bool) -> MatcherSpec {
        MatcherSpec { query: query.into(), regex, case: CaseRule::Smart, word: false, multiline: false }
    }

    fn check(spec: MatcherSpec, text: &str, expected: Option<&str>) {
        let matcher = Matcher::new(&spec).expect("a valid query");
        let found = matcher.regex().find(text.as_bytes()).expect("it cannot fail");
        assert_eq!(found.map(|m| &text[m.start()..m.end()]), expected, "{spec:?} in {text:?}");
    }

    #[test]
    fn queries_match_as_they_say() {
        check(spec("a.c", false), "abc a.c", Some("a.c"));
        check(spec("a.c", true), "abc a.c", Some("abc"));
        check(spec("todo", false), "TODO", Some("TODO"));
        check(spec("Todo", false), "TODO", None);
        check(spec("Todo", true), "TODO", None);
        check(spec(r"\Wtodo", true), " TODO", Some(" TODO"));
        check(MatcherSpec { case: CaseRule::Sensitive, ..spec("todo", false) }, "TODO", None);
        check(MatcherSpec { case: CaseRule::Insensitive, ..spec("ÄÖ", false) }, "äö", Some("äö"));
        check(MatcherSpec { word: true, ..spec("at", false) }, "cat at", Some("at"));
        check(spec("end$", true), "the end\r\n", Some("end"));
        check(spec("a\nb", false), "a\r\nb", Some("a\r\nb"));
        check(MatcherSpec { multiline: true, ..spec("a.*c", true) }, "a\nb\nc", Some("a\nb\nc"));
        check(spec("a.*c", true), "a\nb\nc", None);
    }

    #[test]
    fn what_cannot_be_compiled_is_refused() {
        let kind = |query: &str| Matcher::new(&spec(query, true)).expect_err(query);
        assert_eq!(kind(""), MatcherError::Empty);
        assert!(matches!(kind("a("), MatcherError::Syntax(_)));
        assert!(matches!(kind("a\\nb"), MatcherError::Syntax(text) if text.contains("multiline")));
        assert!(matches!(kind(&"x".repeat(1_001)), MatcherError::TooComplex(_)));
        assert!(matches!(kind(r"(?:\w{500}){10}"), MatcherError::TooComplex(_)));
        assert!(matches!(kind(&format!("{}x{}", "(".repeat(200), ")".repeat(200))), MatcherError::TooComplex(_)));
        Matcher::new(&spec(r"\w{100}", true)).expect("a pattern people write");
    }
}
