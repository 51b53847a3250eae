//! `list`: the entries of a directory and of those below it, flat and sorted.

use std::{cmp::Reverse, fmt::Write};

use control_api::{
    ToolError,
    tools::{Bound, FileType, ListArgs, ListEntry, ListResult, SortBy},
};

use super::{
    Answer,
    bounds::{Patience, WALK_TIME},
    cursor, errors,
    given::{self, Pick, wide},
    native::Call,
    page::{Page, Place},
};
use crate::{
    host::GitBadge,
    types::{Attr, Hash, Kind, ViewPath},
    view::{Follow, ViewError, WalkControl, WalkEntry, WalkOptions},
};

/// Entries in one answer.
pub(super) const LIMIT_MAX: u64 = 5_000;
/// Levels.
const DEPTH_MAX: u64 = 64;
/// Entries held to be sorted by size or time.
const SORTED_MAX: usize = 200_000;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &ListArgs) -> Result<Answer, ToolError> {
    let limit = given::bounded("limit", args.limit, 1, LIMIT_MAX)?;
    let depth = given::bounded("depth", args.depth, 1, DEPTH_MAX)?;
    let traversal = args.traversal_limit.map(|n| given::bounded("traversal_limit", n, 1, u64::MAX)).transpose()?;
    let pick = args.pattern.as_deref().map(|pattern| Pick::new(pattern, given::dialect(args.dialect))).transpose()?;
    let start = call.view.find(&given::path(call.view, &args.path)?, Follow::Yes).map_err(errors::of)?;
    if start.attr.kind != Kind::Dir {
        return Err(errors::of(ViewError::NotADirectory(start.path)));
    }
    let listing = Listing {
        call,
        start: start.path,
        pick,
        limit,
        options: WalkOptions { depth, hidden: args.hidden, ignored: args.ignored, traversal, attrs: true, after: None },
        query: given::query_of("list", args),
    };
    let cursor = args.cursor.as_deref();
    let mut result = match args.sort {
        SortBy::Name => listing.by_name(cursor)?,
        SortBy::Size => listing.by(|attr| i128::from(attr.size), cursor)?,
        SortBy::Mtime => {
            listing.by(|attr| i128::from(attr.mtime.secs) * 1_000_000_000 + i128::from(attr.mtime.nanos), cursor)?
        }
    };
    if args.git {
        listing.badge(&mut result.entries);
    }
    Ok(Answer::new(rendered(&result), &result))
}

struct Listing<'a> {
    call: &'a Call<'a>,
    start: ViewPath,
    pick: Option<Pick>,
    limit: usize,
    options: WalkOptions,
    query: Hash,
}

impl Listing<'_> {
    fn picks(&self, entry: &WalkEntry) -> bool {
        let Some(pick) = &self.pick else { return true };
        entry.path.strip_prefix(&self.start).is_some_and(|below| pick.picks(&below, entry.kind == Kind::Dir))
    }

    /// Adds what git says, where it says something in time.
    fn badge(&self, entries: &mut [ListEntry]) {
        let kind = |entry: &ListEntry| if entry.kind == FileType::Directory { Kind::Dir } else { Kind::File };
        let path = |entry: &ListEntry| ViewPath::parse(&entry.path.to_bytes().unwrap_or_default()).unwrap_or_default();
        let met: Vec<_> = entries.iter().map(|entry| (path(entry), kind(entry))).collect();
        for (entry, badge) in entries.iter_mut().zip(self.call.view.git_badges(&self.start, &met)) {
            entry.git = badge.map(|badge| letter(badge).to_owned());
        }
    }

    fn by_name(&self, cursor: Option<&str>) -> Result<ListResult, ToolError> {
        let from = Place::from_cursor(&self.query, cursor)?;
        let cancelled = || self.call.context.cancelled.is_set();
        let mut page = Page::new(self.limit, &from, Patience::new(&cancelled, WALK_TIME));
        let options = WalkOptions { after: from.after, ..self.options.clone() };
        let walk = self.call.view.walk(&self.start, &options, &mut |entry| {
            if self.picks(entry) {
                page.offer(&entry.path, usize::from(entry.kind == Kind::Dir), || shown(entry));
            }
            page.control()
        });
        let walked = walk.map_err(errors::of)?;
        let bounds = page.bounds(&self.query, &walked)?;
        let [files, directories] = page.counted();
        Ok(ListResult {
            path: errors::wire(&self.start),
            entries: page.items,
            files,
            directories,
            ignored: wide(walked.ignored),
            bounds,
        })
    }

    /// All entries are met before the first is told; a page goes on behind a key and a path.
    fn by(&self, key: impl Fn(&Attr) -> i128, cursor: Option<&str>) -> Result<ListResult, ToolError> {
        let cancelled = || self.call.context.cancelled.is_set();
        // Its page takes all: only the clock and the caller end it.
        let mut clock: Page<'_, ()> = Page::new(usize::MAX, &Place::default(), Patience::new(&cancelled, WALK_TIME));
        let mut met: Vec<(Reverse<i128>, ViewPath, ListEntry)> = Vec::new();
        let mut overfull = false;
        let walk = self.call.view.walk(&self.start, &self.options, &mut |entry| {
            if let Some(attr) = entry.attr.filter(|_| self.picks(entry)) {
                if met.len() == SORTED_MAX {
                    overfull = true;
                    return WalkControl::Stop;
                }
                clock.offer(&entry.path, usize::from(entry.kind == Kind::Dir), || ());
                met.push((Reverse(key(&attr)), entry.path.clone(), shown(entry)));
            }
            clock.control()
        });
        let walked = walk.map_err(errors::of)?;
        let mut bounds = clock.bounds(&self.query, &walked)?;
        if overfull {
            bounds.truncated_by.push(Bound::Traversal);
            (bounds.incomplete, bounds.total_at_least) = (true, bounds.total.take().or(bounds.total_at_least));
        }
        met.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        if let Some(place) = given::position(&self.query, cursor)? {
            let (key, path) = place.split_first_chunk().ok_or_else(|| errors::invalid("that cursor is damaged"))?;
            let (key, path) = (Reverse(i128::from_be_bytes(*key)), path.to_vec());
            met.retain(|(k, p, _)| (*k, p.as_bytes()) > (key, path.as_slice()));
        }
        // What was cut is not sorted, so there is no place to go on from but in what was met.
        bounds.next = None;
        if met.len() > self.limit {
            met.truncate(self.limit);
            bounds.truncated_by.insert(0, Bound::Limit);
            bounds.next = met.last().map(|(Reverse(key), path, _)| {
                cursor::encode(&self.query, &[&key.to_be_bytes()[..], path.as_bytes()].concat())
            });
        }
        bounds.truncated = !bounds.truncated_by.is_empty();
        let [files, directories] = clock.counted();
        Ok(ListResult {
            path: errors::wire(&self.start),
            entries: met.into_iter().map(|(_, _, entry)| entry).collect(),
            files,
            directories,
            ignored: wide(walked.ignored),
            bounds,
        })
    }
}

fn shown(entry: &WalkEntry) -> ListEntry {
    let attr = entry.attr.as_ref();
    ListEntry {
        path: errors::wire(&entry.path),
        kind: given::file_type(entry.kind),
        depth: wide(entry.depth),
        size: attr.map_or(0, |attr| attr.size),
        mode: attr.map(|attr| given::octal(attr.mode)).unwrap_or_default(),
        mtime: attr.map(|attr| attr.mtime.rfc3339()).unwrap_or_default(),
        git: None,
    }
}

fn letter(badge: GitBadge) -> &'static str {
    match badge {
        GitBadge::Modified => "M",
        GitBadge::Added => "A",
        GitBadge::Deleted => "D",
        GitBadge::Renamed => "R",
        GitBadge::Untracked => "?",
    }
}

fn rendered(result: &ListResult) -> String {
    let mut text = String::new();
    for entry in &result.entries {
        let line = match entry.kind {
            FileType::Directory => write!(text, "{}/", entry.path),
            FileType::Symlink => write!(text, "{}@", entry.path),
            FileType::File => write!(text, "{} {}", entry.path, entry.size),
            FileType::Other => write!(text, "{} (special file)", entry.path),
        };
        let git = entry.git.as_ref().map(|badge| format!(" [{badge}]")).unwrap_or_default();
        let line = line.and_then(|()| writeln!(text, "{git}"));
        line.expect("writing to a String cannot fail");
    }
    if result.entries.is_empty() {
        text += match result.ignored {
            0 => "empty\n",
            _ => "nothing visible\n",
        };
    }
    text += &format!("{} files, {} directories", result.files, result.directories);
    if result.ignored > 0 {
        text += &format!(", {} hidden by ignore rules", result.ignored);
    }
    text + &super::render::bounds(&result.bounds)
}
