//! `find`: paths by a glob, in byte order.

use control_api::{
    ToolError,
    tools::{Case, FileType, FindArgs, FindMatch, FindResult, MatchOn},
};

use super::{
    Answer,
    bounds::{COUNT_TIME, Patience, WALK_TIME},
    errors, given,
    native::Call,
    page::{Page, Place},
    render,
};
use crate::{
    search::Glob,
    types::{Kind, Timestamp, ViewPath},
    view::{Follow, ViewError, WalkControl, WalkEntry, WalkOptions},
};

/// Paths in one answer.
pub(super) const LIMIT_MAX: u64 = 10_000;
/// Levels.
pub(super) const DEPTH_MAX: u64 = 256;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &FindArgs) -> Result<Answer, ToolError> {
    let limit = given::bounded("limit", args.limit, 1, LIMIT_MAX)?;
    let depth = given::bounded("depth", args.depth, 1, DEPTH_MAX)?;
    let traversal = args.traversal_limit.map(|n| given::bounded("traversal_limit", n, 1, u64::MAX)).transpose()?;
    let folds = given::ignores_case(args.case.unwrap_or(Case::Yes), &args.pattern);
    let glob =
        Glob::new(&args.pattern, given::dialect(args.dialect), folds).map_err(|error| errors::of_glob(&error))?;
    let newer = args.newer_than.as_deref().map(|text| given::time("newer_than", text)).transpose()?;
    let query = given::query_of("find", args);
    let from = Place::from_cursor(&query, args.cursor.as_deref())?;
    let start = call.view.find(&given::path(call.view, &args.path)?, Follow::Yes).map_err(errors::of)?;
    if start.attr.kind != Kind::Dir {
        return Err(errors::of(ViewError::NotADirectory(start.path)));
    }
    let wanted = Wanted { glob, on: args.on, kind: args.kind, newer, larger: args.larger_than };
    let options = WalkOptions {
        depth,
        hidden: args.hidden,
        ignored: args.ignored,
        traversal,
        attrs: newer.is_some() || args.larger_than.is_some(),
        after: from.after.clone(),
    };
    let cancelled = || call.context.cancelled.is_set();
    let mut page = Page::new(limit, &from, Patience::new(&cancelled, WALK_TIME));
    let walk = call.view.walk(&start.path, &options, &mut |entry| {
        let Some(below) = entry.path.strip_prefix(&start.path) else { return WalkControl::Continue };
        if wanted.takes(entry, &below) {
            let kind = given::file_type(entry.kind);
            page.offer(&entry.path, 0, || FindMatch { path: errors::wire(&entry.path), kind });
        }
        if !page.goes_on() {
            WalkControl::Stop
        } else if entry.kind == Kind::Dir && !wanted.goes_below(&below) {
            WalkControl::Skip
        } else {
            WalkControl::Continue
        }
    });
    let bounds = page.bounds(&query, &walk.map_err(errors::of)?)?;
    let mut result = FindResult { matches: page.items, hint: None, bounds };
    if result.matches.is_empty() && from == Place::default() {
        result.hint = hint(call, args, &start.path, &options, wanted)?;
    }
    Ok(Answer::new(rendered(&result), &result))
}

struct Wanted {
    glob: Glob,
    on: MatchOn,
    kind: Option<FileType>,
    newer: Option<Timestamp>,
    larger: Option<u64>,
}

impl Wanted {
    fn takes(&self, entry: &WalkEntry, below: &ViewPath) -> bool {
        let matches = match self.on {
            MatchOn::Path => self.glob.is_match(below),
            MatchOn::Name => below.file_name().is_some_and(|name| self.glob.is_match_name(name.as_bytes())),
        };
        matches
            && (!self.glob.dirs_only() || entry.kind == Kind::Dir)
            && self.kind.is_none_or(|kind| kind == given::file_type(entry.kind))
            && self.newer.is_none_or(|time| entry.attr.is_some_and(|attr| attr.mtime > time))
            && self.larger.is_none_or(|size| entry.attr.is_some_and(|a| a.kind == Kind::File && a.size > size))
    }

    fn goes_below(&self, dir: &ViewPath) -> bool {
        self.on == MatchOn::Name || self.glob.could_match_below(dir)
    }
}

/// A pattern without a `/` means the top level alone; if there is something below it, say so.
fn hint(
    call: &Call<'_>,
    args: &FindArgs,
    start: &ViewPath,
    options: &WalkOptions,
    mut wanted: Wanted,
) -> Result<Option<String>, ToolError> {
    if args.on == MatchOn::Name || args.pattern.trim_end_matches('/').contains('/') {
        return Ok(None);
    }
    wanted.on = MatchOn::Name;
    let cancelled = || call.context.cancelled.is_set();
    let patience = Patience::new(&cancelled, COUNT_TIME);
    let mut below = 0_u64;
    let walk = call.view.walk(start, options, &mut |entry| {
        let name = entry.path.file_name().and_then(|name| ViewPath::parse(name.as_bytes()).ok());
        below += u64::from(name.is_some_and(|name| wanted.takes(entry, &name)));
        if patience.ended().is_some() { WalkControl::Stop } else { WalkControl::Continue }
    });
    walk.map_err(errors::of)?;
    Ok((below > 0).then(|| {
        format!(
            "{:?} means the top level of the directory alone, and nothing there matches; {} below it: use {:?}, or match: \
             \"name\"",
            args.pattern,
            render::count(below, "path matches", "paths match"),
            format!("**/{}", args.pattern)
        )
    }))
}

fn rendered(result: &FindResult) -> String {
    let mut text = String::new();
    for found in &result.matches {
        text += &found.path.to_string();
        text += match found.kind {
            FileType::Directory => "/\n",
            FileType::Symlink => "@\n",
            FileType::File | FileType::Other => "\n",
        };
    }
    if result.matches.is_empty() {
        text += "nothing found\n";
    }
    if let Some(hint) = &result.hint {
        text += &format!("hint: {hint}\n");
    }
    text.truncate(text.trim_end().len());
    text + &render::bounds(&result.bounds)
}
