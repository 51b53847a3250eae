//! One list of a policy: patterns in the order written, and which of them decides for a path.

use super::{Pattern, PolicyError};
use crate::types::{PathPattern, Progress, ViewPath};

/// What a `!` pattern can free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// Nothing below a directory that is selected: git's rule for ignored directories.
    SelectedStays,
    /// All it covers: of the patterns that match the path or a directory above it, the last one decides.
    LastCovers,
}

#[derive(Debug)]
pub(super) struct RuleList {
    rules: Vec<Rule>,
    reading: Reading,
    /// Some pattern selects everything, and no `!` follows it.
    selects_all: bool,
}

#[derive(Debug)]
struct Rule {
    compiled: PathPattern,
    written: Pattern,
}

impl RuleList {
    pub(super) fn compile(patterns: &[Pattern], reading: Reading) -> Result<RuleList, PolicyError> {
        let rules = patterns.iter().map(Rule::compile).collect::<Result<Vec<_>, _>>()?;
        let after_last_free = rules.iter().rposition(|rule| rule.compiled.is_negated()).map_or(0, |at| at + 1);
        let selects_all = rules[after_last_free..].iter().any(|rule| rule.compiled.matches_all());
        Ok(RuleList { rules, reading, selects_all })
    }

    /// True if every path below the root is selected, by a pattern that needs no look at the path.
    pub(super) fn selects_all(&self) -> bool {
        self.selects_all
    }

    /// True if no pattern can select anything.
    pub(super) fn selects_none(&self) -> bool {
        self.rules.iter().all(|rule| rule.compiled.is_negated())
    }

    /// Is `path` selected? The root is by a list that selects everything, and by no other.
    pub(super) fn selects(&self, path: &ViewPath, is_dir: bool) -> bool {
        self.selects_all || self.decides(path, is_dir).is_some_and(|(_, selects)| selects)
    }

    /// The pattern that decides for `path`, and whether it selects or frees it; `None` if no pattern covers it.
    pub(super) fn decides(&self, path: &ViewPath, is_dir: bool) -> Option<(&Pattern, bool)> {
        if self.rules.is_empty() || path.is_root() {
            return None;
        }
        match self.reading {
            Reading::SelectedStays => self.first_selecting(path, is_dir),
            Reading::LastCovers => self.last_covering(path, is_dir),
        }
    }

    fn last_covering(&self, path: &ViewPath, is_dir: bool) -> Option<(&Pattern, bool)> {
        self.rules.iter().rev().find(|rule| rule.covers(path, is_dir)).map(Rule::verdict)
    }

    /// Goes down from the top; at each level the last pattern that matches there decides, and the first level that is
    /// selected decides for all below.
    fn first_selecting(&self, path: &ViewPath, is_dir: bool) -> Option<(&Pattern, bool)> {
        let mut progress: Vec<Progress> = self.rules.iter().map(|rule| rule.compiled.start()).collect();
        let mut freed = None;
        for (name, is_dir) in levels(path, is_dir) {
            let mut decides = None;
            for (rule, now) in self.rules.iter().zip(&mut progress) {
                *now = rule.compiled.step(*now, name);
                if rule.compiled.accepts(*now, is_dir) {
                    decides = Some(rule);
                }
            }
            match decides.map(Rule::verdict) {
                selected @ Some((_, true)) => return selected,
                other => freed = other,
            }
        }
        freed
    }

    /// Could something below `dir` be selected, judged from the patterns alone? Meant for `LastCovers`: a pattern
    /// counts only if no later `!` covers `dir`, and with it all below.
    pub(super) fn could_select_below(&self, dir: &ViewPath) -> bool {
        for rule in self.rules.iter().rev() {
            if !rule.compiled.is_negated() {
                let end = levels(dir, true).fold(rule.compiled.start(), |now, (name, _)| rule.compiled.step(now, name));
                if rule.compiled.could_go_on(end) {
                    return true;
                }
            } else if rule.covers(dir, true) {
                return false;
            }
        }
        false
    }
}

impl Rule {
    fn compile(written: &Pattern) -> Result<Rule, PolicyError> {
        let refuse =
            |reason: String| PolicyError { origin: written.origin.clone(), text: written.text.clone(), reason };
        if written.text.bytes().any(|b| matches!(b, b'\n' | 0)) {
            return Err(refuse("it holds a line end or a NUL; give each pattern its own entry".into()));
        }
        match PathPattern::parse(written.text.as_bytes()) {
            Ok(Some(compiled)) => Ok(Rule { compiled, written: written.clone() }),
            Ok(None) if written.text.starts_with('#') => {
                Err(refuse("it is a comment; write `\\#` for a name that begins with `#`".into()))
            }
            Ok(None) => Err(refuse("it is empty".into())),
            Err(error) => Err(refuse(error.to_string())),
        }
    }

    fn covers(&self, path: &ViewPath, is_dir: bool) -> bool {
        let mut now = self.compiled.start();
        levels(path, is_dir).any(|(name, is_dir)| {
            now = self.compiled.step(now, name);
            self.compiled.accepts(now, is_dir)
        })
    }

    fn verdict(&self) -> (&Pattern, bool) {
        (&self.written, !self.compiled.is_negated())
    }
}

/// Each name of `path` from the top, and whether it is a directory there.
fn levels(path: &ViewPath, is_dir: bool) -> impl Iterator<Item = (&[u8], bool)> {
    let mut rest = (!path.is_root()).then_some(path.as_bytes());
    std::iter::from_fn(move || {
        let bytes = rest?;
        let cut = memchr::memchr(b'/', bytes);
        rest = cut.map(|at| &bytes[at + 1..]);
        Some((&bytes[..cut.unwrap_or(bytes.len())], cut.is_some() || is_dir))
    })
}
