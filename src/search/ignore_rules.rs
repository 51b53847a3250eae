//! Ignore rules of a walk: `.gitignore`, `.ignore` and `.git/info/exclude`, stacked as the walk goes down.

use crate::types::ViewPath;

/// The rules in force in one directory. Cheap to clone: each level shares those above it.
#[derive(Clone, Debug, Default)]
pub struct IgnoreRules {
    // implementation: Option<Arc<Level{parent, Gitignore…}>>
}

impl IgnoreRules {
    /// These rules, and those of the files found in directory `dir` (contents given by the caller; a malformed line is
    /// skipped as git skips it). `exclude` is `.git/info/exclude` of a repository whose root `dir` is.
    #[must_use]
    pub fn descend(
        &self,
        dir: &ViewPath,
        gitignore: Option<&[u8]>,
        ignore: Option<&[u8]>,
        exclude: Option<&[u8]>,
    ) -> Self {
        todo!()
    }

    /// Is this path hidden by a rule?
    pub fn is_ignored(&self, path: &ViewPath, is_dir: bool) -> bool {
        todo!()
    }
}
