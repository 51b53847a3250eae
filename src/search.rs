//! Matching, pure: globs in the dialects, ignore rules, and lines found in a haystack by literal or regex.

mod glob;
mod haystack;
mod ignore_rules;
mod matcher;

pub use glob::{Dialect, Glob, GlobError};
pub use haystack::{Haystack, LineMatch, SearchSink, Searched, SinkControl, search_haystack};
pub use ignore_rules::IgnoreRules;
pub use matcher::{CaseRule, Matcher, MatcherError, MatcherSpec};
