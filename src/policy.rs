//! Policy: pure judgement of paths. Patterns in gitignore syntax, three lists, and deny beats read_only beats allow.

mod list;
#[cfg(test)]
mod reference;

use self::list::{Reading, RuleList};
use crate::types::ViewPath;

/// The lists and switches of one view's policy, as the config gives them, in the order written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySpec {
    /// Nothing else exists. Default `["**"]`.
    pub allow: Vec<Pattern>,
    /// Does not exist in the view, though it is allowed.
    pub deny: Vec<Pattern>,
    /// Seen, and never changed.
    pub read_only: Vec<Pattern>,
    /// Changed without a record of content; a row says so.
    pub unversioned: Vec<Pattern>,
    /// The whole view is read-only (`-o ro`, or a source with `access = "read"`).
    pub all_read_only: bool,
}

/// One pattern and where it was written, for `policy explain` and for errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Gitignore syntax.
    pub text: String,
    /// `file:line`, or `-o deny=…`, or `default`.
    pub origin: String,
}

/// How a visible path may be used. Part of a node's identity: one inode reached by paths of two classes is two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class {
    /// Changes are refused with EROFS.
    pub read_only: bool,
    /// Changes are recorded without content.
    pub unversioned: bool,
}

/// Which list decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// `allow`.
    Allow,
    /// `deny`.
    Deny,
    /// `read_only`.
    ReadOnly,
    /// `unversioned`.
    Unversioned,
}

/// Why a path is judged as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The judgement; `None` is hidden.
    pub class: Option<Class>,
    /// Per list the pattern that matched last (the one that decides in it), and whether it selects or (`!`) frees.
    pub matches: Vec<(List, Pattern, bool)>,
    /// True for a directory shown only because something below it could be allowed.
    pub leads_to_allowed: bool,
}

/// A pattern that gitignore syntax does not know.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("{origin}: `{text}` is not a valid pattern: {reason}")]
pub struct PolicyError {
    /// Where it stands.
    pub origin: String,
    /// The pattern.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A compiled policy. Pure: it never looks at a file system, and it keeps nothing between two questions.
///
/// Each list is read on its own, in gitignore syntax; a pattern that matches a directory covers all below it. Where `!`
/// meets that, the narrower reading holds: in `deny` and `read_only` nothing below a selected directory is freed again
/// (git's own rule), in `allow` and `unversioned` the last pattern that covers a path decides, so that `!` always takes away.
#[derive(Debug)]
pub struct Policy {
    allow: RuleList,
    deny: RuleList,
    read_only: RuleList,
    unversioned: RuleList,
    all_read_only: bool,
}

impl Default for PolicySpec {
    fn default() -> Self {
        PolicySpec {
            allow: vec![Pattern { text: "**".into(), origin: "default".into() }],
            deny: Vec::new(),
            read_only: Vec::new(),
            unversioned: Vec::new(),
            all_read_only: false,
        }
    }
}

impl Policy {
    /// Compiles all patterns.
    ///
    /// # Errors
    /// The first pattern that is not valid. A line that git would read as a comment, as blank or as a pattern that can
    /// never match is not valid here: it would look like protection and give none.
    pub fn compile(spec: &PolicySpec) -> Result<Policy, PolicyError> {
        Ok(Policy {
            allow: RuleList::compile(&spec.allow, Reading::LastCovers)?,
            deny: RuleList::compile(&spec.deny, Reading::SelectedStays)?,
            read_only: RuleList::compile(&spec.read_only, Reading::SelectedStays)?,
            unversioned: RuleList::compile(&spec.unversioned, Reading::LastCovers)?,
            all_read_only: spec.all_read_only,
        })
    }

    /// How `path` may be used; `None` if it does not exist in the view. A directory is visible if it is allowed, or if
    /// a pattern of `allow` could match something below it, judged from the patterns alone; one that is only
    /// passed through on the way is read-only itself (it can't be made, renamed or removed), while each entry in it is
    /// judged by its own path. The root is always visible.
    pub fn class(&self, path: &ViewPath, is_dir: bool) -> Option<Class> {
        if self.hides(path, is_dir) {
            return None;
        }
        let allowed = self.allow.selects(path, is_dir);
        if !allowed && !self.is_way(path, is_dir) {
            return None;
        }
        Some(Class {
            read_only: self.all_read_only || !allowed || self.read_only.selects(path, is_dir),
            unversioned: self.unversioned.selects(path, is_dir),
        })
    }

    /// True for a directory that is visible only because something below it could be allowed.
    pub fn leads_only(&self, dir: &ViewPath) -> bool {
        !self.hides(dir, true) && !self.allow.selects(dir, true) && self.is_way(dir, true)
    }

    /// True for a directory that can't be changed itself, while allowed entries can be made, changed and removed in it. So
    /// its mode bits keep their `w`: without them the kernel would refuse ordinary users what policy allows.
    pub fn takes_entries(&self, dir: &ViewPath) -> bool {
        !self.all_read_only && self.leads_only(dir) && !self.read_only.selects(dir, true)
    }

    /// The same as [`Policy::class`], with the reasons.
    pub fn explain(&self, path: &ViewPath, is_dir: bool) -> Explanation {
        let lists = [
            (List::Allow, &self.allow),
            (List::Deny, &self.deny),
            (List::ReadOnly, &self.read_only),
            (List::Unversioned, &self.unversioned),
        ];
        Explanation {
            class: self.class(path, is_dir),
            matches: lists
                .into_iter()
                .filter_map(|(name, list)| {
                    let (pattern, selects) = list.decides(path, is_dir)?;
                    Some((name, pattern.clone(), selects))
                })
                .collect(),
            leads_to_allowed: is_dir && self.leads_only(path),
        }
    }

    /// True if every path has the class of the root's own defaults (no deny, read_only, unversioned; allow is `**`), so
    /// that renames of directories need no walk.
    pub fn is_uniform(&self) -> bool {
        self.allow.selects_all()
            && self.deny.selects_none()
            && (self.all_read_only || self.read_only.selects_none() || self.read_only.selects_all())
            && (self.unversioned.selects_none() || self.unversioned.selects_all())
    }

    /// True if a thing of class `to` at a new path would be more visible or more writable than it was with `from`.
    pub fn widens(from: Option<Class>, to: Option<Class>) -> bool {
        match (from, to) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(from), Some(to)) => from.read_only && !to.read_only,
        }
    }

    fn hides(&self, path: &ViewPath, is_dir: bool) -> bool {
        !path.is_root() && self.deny.selects(path, is_dir)
    }

    fn is_way(&self, path: &ViewPath, is_dir: bool) -> bool {
        is_dir && (path.is_root() || self.allow.could_select_below(path))
    }
}

#[cfg(test)]
mod tests;
