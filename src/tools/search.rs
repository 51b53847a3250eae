//! `search`: lines, files or counts by what stands in files. Every file is read during the call, by several threads, and told in
//! the byte order of paths.

mod crowd;
mod file;
mod gather;
mod keyword;
mod scope;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};

use control_api::{
    ToolError,
    tools::{SearchArgs, SearchFile, SearchMatch, SearchMode, SearchOutput, SearchResult},
};

use self::{
    file::{Opened, Outcome, Wanted, search_file},
    gather::{Gather, Place},
    scope::{Scope, Target},
};
use super::{
    Answer,
    bounds::{Patience, WALK_TIME},
    errors, given,
    native::Call,
    render,
};
use crate::{
    search::{CaseRule, Matcher, MatcherSpec},
    types::ViewPath,
    view::PastFile,
};

/// Matches in one answer.
pub(super) const LIMIT_MAX: u64 = 10_000;
/// Bytes of text in one answer.
const BYTES_MAX: usize = 512 << 10;
/// Bytes of a content of the past.
const PAST_MAX: u64 = 64 << 20;
/// Lines around a match.
const CONTEXT_MAX: u64 = 20;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &SearchArgs) -> Result<Answer, ToolError> {
    let limit = given::bounded("limit", args.limit, 1, LIMIT_MAX)?;
    let context = given::bounded("context", args.context, 0, CONTEXT_MAX)?;
    let per_file = args.limit_per_file.map(|n| given::bounded("limit_per_file", n, 1, LIMIT_MAX)).transpose()?;
    let scope = Scope::new(call, args)?;
    let result = match args.mode {
        SearchMode::Literal | SearchMode::Regex => Lines { call, args, scope, limit, context, per_file }.run()?,
        SearchMode::Keyword => keyword::run(call, args, &scope, limit)?,
        SearchMode::Semantic => {
            let mut result = keyword::run(call, args, &scope, limit)?;
            let text = "no embedding provider is set up here, so this is ranked by words (mode keyword)";
            result.bounds.warnings.push(text.into());
            result
        }
    };
    Ok(Answer::new(rendered(&result, args.output), &result))
}

/// A search for lines.
struct Lines<'a> {
    call: &'a Call<'a>,
    args: &'a SearchArgs,
    scope: Scope<'a>,
    limit: usize,
    context: usize,
    per_file: Option<usize>,
}

impl Lines<'_> {
    fn run(&self) -> Result<SearchResult, ToolError> {
        let matcher = Matcher::new(&MatcherSpec {
            query: self.args.query.clone(),
            regex: self.args.mode == SearchMode::Regex,
            case: match self.args.case {
                control_api::tools::Case::Smart => CaseRule::Smart,
                control_api::tools::Case::Yes => CaseRule::Sensitive,
                control_api::tools::Case::No => CaseRule::Insensitive,
            },
            word: self.args.word,
            multiline: self.args.multiline,
        })
        .map_err(|error| errors::of_matcher(&error))?;
        let query = given::query_of("search", self.args);
        let from = Place::from_cursor(&query, self.args.cursor.as_deref())?;
        let cancelled = || self.call.context.cancelled.is_set();
        let patience = Patience::new(&cancelled, WALK_TIME);
        let is_full = AtomicBool::new(false);
        let mut gather = Gather::new(self.args.output, self.limit, self.per_file, &from, &is_full);
        let wanted = Wanted {
            context: if self.args.output == SearchOutput::Matches { self.context } else { 0 },
            keep: match self.args.output {
                SearchOutput::Matches => self.per_file.unwrap_or(self.limit).min(self.limit) + 1,
                SearchOutput::Files | SearchOutput::Counts => 0,
            },
            keep_bytes: BYTES_MAX,
            first_only: self.args.output == SearchOutput::Files,
            after_line: 0,
        };
        let hashes = || self.args.output == SearchOutput::Matches && !is_full.load(Ordering::Relaxed);
        let work = |target: &Target| -> Outcome {
            let wanted = match &from.within {
                Some((path, line)) if path == target.path() => Wanted { after_line: *line, ..wanted },
                Some(_) | None => wanted,
            };
            search_file(target.open(self.call.view), &matcher, &wanted, &patience, &hashes)
        };
        let walked = crowd::in_order(
            &work,
            |target: Target, outcome| gather.take(target.path(), outcome),
            |each| self.scope.walk(&from, &patience, each),
        )?;
        if cancelled() {
            return Err(errors::cancelled());
        }
        gather.finish(&query, &walked)
    }
}

/// What is said of a path and one of its lines.
fn shown(path: &ViewPath, found: crate::search::LineMatch, hash: Option<&str>) -> SearchMatch {
    let lines = |lines: Vec<(u64, String)>| {
        lines.into_iter().map(|(line, text)| control_api::tools::ContextLine { line, text }).collect()
    };
    SearchMatch {
        path: errors::wire(path),
        line: found.line,
        column: found.column,
        excerpt: found.excerpt,
        cut: found.cut,
        before: lines(found.before),
        after: lines(found.after),
        hash: hash.map(str::to_owned),
        score: None,
    }
}

fn rendered(result: &SearchResult, output: SearchOutput) -> String {
    let mut text = String::new();
    let listed = |file: &SearchFile| match file.count {
        Some(count) if output == SearchOutput::Counts => format!("{}: {count}\n", file.path),
        Some(_) | None => format!("{}\n", file.path),
    };
    match output {
        SearchOutput::Matches => {
            for found in &result.matches {
                let path = &found.path;
                for line in &found.before {
                    text += &format!("{path}-{}- {}\n", line.line, line.text);
                }
                text += &format!("{path}:{}: {}\n", found.line, found.excerpt);
                for line in &found.after {
                    text += &format!("{path}-{}- {}\n", line.line, line.text);
                }
                if !found.before.is_empty() || !found.after.is_empty() {
                    text += "--\n";
                }
            }
        }
        SearchOutput::Files | SearchOutput::Counts => text.extend(result.files.iter().map(listed)),
    }
    if result.matches.is_empty() && result.files.is_empty() {
        text += &format!("nothing found in {}\n", render::count(result.files_searched, "file", "files"));
    }
    let skipped = &result.skipped;
    let reasons = [("binary", skipped.binary), ("too large", skipped.too_large), ("unreadable", skipped.unreadable)];
    let skipped: Vec<String> =
        reasons.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{n} {reason}")).collect();
    if !skipped.is_empty() {
        text += &format!("(skipped: {})\n", skipped.join(", "));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text + &render::bounds(&result.bounds)
}

/// Opens what a walk met or a path names.
impl Target {
    fn open(&self, view: &crate::view::View) -> crate::view::Result<Opened> {
        match self {
            Target::Met(entry) => view.open_met(entry).map(Opened::Met),
            Target::Path(path) => view.open_path(path).map(Opened::Path),
            Target::Then(path, op) => Ok(match view.open_then(path, *op, PAST_MAX)? {
                PastFile::Live(reading) => Opened::Path(reading),
                PastFile::Kept(bytes) => Opened::Past(bytes),
            }),
        }
    }
}
