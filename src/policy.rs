//! Policy: pure judgement of paths. Patterns in gitignore syntax, three lists, and deny beats read_only beats allow.

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

/// A compiled policy. Pure: it never looks at a file system.
#[derive(Debug)]
pub struct Policy {
    // implementation
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
    /// The first pattern that is not valid.
    pub fn compile(spec: &PolicySpec) -> Result<Policy, PolicyError> {
        todo!()
    }

    /// How `path` may be used; `None` if it does not exist in the view. A directory is visible if it is allowed, or if
    /// a pattern of `allow` could match something below it, judged from the patterns alone; one that is only
    /// passed through on the way is read-only for entries that are not allowed themselves (they are hidden).
    pub fn class(&self, path: &ViewPath, is_dir: bool) -> Option<Class> {
        todo!()
    }

    /// The same, with the reasons.
    pub fn explain(&self, path: &ViewPath, is_dir: bool) -> Explanation {
        todo!()
    }

    /// True if every path has the class of the root's own defaults (no deny, read_only, unversioned; allow is `**`), so
    /// that renames of directories need no walk.
    pub fn is_uniform(&self) -> bool {
        todo!()
    }

    /// True if a thing of class `to` at a new path would be more visible or more writable than it was with `from`.
    pub fn widens(from: Option<Class>, to: Option<Class>) -> bool {
        todo!()
    }
}
