//! Ignore rules of a walk: `.gitignore`, `.ignore` and `.git/info/exclude`, stacked as the walk goes down.

use std::sync::Arc;

use crate::types::{PathPattern, Progress, ViewPath};

/// The rules in force in one directory. Cheap to clone: each level shares those above it.
///
/// Git's semantics: the last matching line of the nearest file decides, `info/exclude` is asked last, and nothing below
/// an ignored directory comes back. `.ignore` files are asked before all of git's, as ripgrep does.
#[derive(Clone, Debug, Default)]
pub struct IgnoreRules(Option<Arc<Here>>);

/// What holds for entries of one directory.
#[derive(Debug)]
struct Here {
    dir: ViewPath,
    /// The directory is ignored, and so is all below it.
    hidden: bool,
    /// Strongest first: by source, then by depth.
    files: Vec<Active>,
}

/// One file's patterns, and how far each has come on the way from that file's directory to this one.
#[derive(Clone, Debug)]
struct Active {
    source: Source,
    patterns: Arc<[PathPattern]>,
    progress: Vec<Progress>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Ignore,
    Gitignore,
    Exclude,
}

impl IgnoreRules {
    /// These rules, and those of the files found in directory `dir` (contents given by the caller; a malformed line is
    /// skipped as git skips it). `dir` is at or below the directory of these rules. `exclude` is `.git/info/exclude` of a
    /// repository whose root `dir` is; given, though empty, it ends the rules of a repository around it.
    #[must_use]
    pub fn descend(
        &self,
        dir: &ViewPath,
        gitignore: Option<&[u8]>,
        ignore: Option<&[u8]>,
        exclude: Option<&[u8]>,
    ) -> Self {
        let mut files = Vec::new();
        let mut hidden = false;
        if let Some((here, below)) = self.0.as_ref().and_then(|here| Some((here, dir.strip_prefix(&here.dir)?))) {
            (hidden, files) = here.walk(&below, true);
        }
        if exclude.is_some() {
            files.retain(|file| file.source == Source::Ignore);
        }
        let found = [(Source::Ignore, ignore), (Source::Gitignore, gitignore), (Source::Exclude, exclude)];
        for (source, content) in found {
            if let Some(active) = content.and_then(|content| Active::parse(source, content)) {
                let at = files.partition_point(|file: &Active| file.source < source);
                files.insert(at, active);
            }
        }
        IgnoreRules(Some(Arc::new(Here { dir: dir.clone(), hidden, files })))
    }

    /// Is this path hidden by a rule? False for a path that is not below the directory of these rules.
    pub fn is_ignored(&self, path: &ViewPath, is_dir: bool) -> bool {
        let Some(here) = &self.0 else { return false };
        let Some(below) = path.strip_prefix(&here.dir) else { return false };
        here.hidden
            || if below.as_bytes().contains(&b'/') {
                here.walk(&below, is_dir).0
            } else {
                here.hides(below.as_bytes(), is_dir)
            }
    }
}

impl Here {
    /// The verdict on one entry of this directory.
    fn hides(&self, name: &[u8], is_dir: bool) -> bool {
        let mut verdicts = self.files.iter().filter_map(|file| {
            let steps = file.patterns.iter().zip(&file.progress).rev();
            steps.into_iter().find(|(pattern, now)| pattern.accepts(pattern.step(**now, name), is_dir))
        });
        !name.is_empty() && verdicts.next().is_some_and(|(pattern, _)| !pattern.is_negated())
    }

    /// Goes down `below`; tells if something on the way is ignored, and how far the patterns have come.
    fn walk(&self, below: &ViewPath, is_dir: bool) -> (bool, Vec<Active>) {
        let mut now = Here { dir: ViewPath::root(), hidden: self.hidden, files: self.files.clone() };
        let mut names = below.as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            now.hidden |= now.hides(name, is_dir || names.peek().is_some());
            for file in &mut now.files {
                for (pattern, progress) in file.patterns.iter().zip(&mut file.progress) {
                    *progress = pattern.step(*progress, name);
                }
            }
        }
        (now.hidden, now.files)
    }
}

impl Active {
    /// `None` for a file without any pattern.
    fn parse(source: Source, content: &[u8]) -> Option<Active> {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let lines = content.split(|b| *b == b'\n');
        let patterns: Arc<[PathPattern]> = lines.filter_map(|line| PathPattern::parse(line).ok().flatten()).collect();
        let progress = patterns.iter().map(PathPattern::start).collect();
        (!patterns.is_empty()).then_some(Active { source, patterns, progress })
    }
}

#[cfg(test)]
mod tests;
