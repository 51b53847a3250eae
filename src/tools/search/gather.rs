//! The answer of a search, put together from files in order, and the place from which the next page goes on.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use control_api::{
    ToolError,
    tools::{Bound, SearchFile, SearchOutput, SearchResult},
};

use super::{
    BYTES_MAX,
    file::{Hits, Outcome, size_of},
    shown,
};
use crate::{
    tools::{
        bounds::{COUNT_TIME, Ended},
        cursor, errors, given,
    },
    types::{Hash, ViewPath},
    view::Walked,
};

/// Where a page goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    /// Results before.
    pub counted: u64,
    /// All files up to and with this one were looked at.
    pub after: Option<ViewPath>,
    /// But of this file only the lines up to and with this one.
    pub within: Option<(ViewPath, u64)>,
}

/// In a cursor: the file was told to its end.
const WHOLE: u64 = u64::MAX;

impl Place {
    /// From a cursor of this query.
    pub fn from_cursor(query: &Hash, text: Option<&str>) -> Result<Place, ToolError> {
        let Some(bytes) = given::position(query, text)? else { return Ok(Place::default()) };
        let broken = || errors::invalid("that cursor is damaged");
        let (counted, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
        let (line, path) = rest.split_first_chunk().ok_or_else(broken)?;
        let (path, line) = (ViewPath::parse(path).map_err(|_| broken())?, u64::from_be_bytes(*line));
        Ok(Place {
            counted: u64::from_be_bytes(*counted),
            within: (line != WHOLE).then(|| (path.clone(), line)),
            after: Some(path),
        })
    }

    fn cursor(query: &Hash, counted: u64, path: &ViewPath, line: u64) -> String {
        cursor::encode(query, &[&counted.to_be_bytes()[..], &line.to_be_bytes(), path.as_bytes()].concat())
    }
}

/// Gathers what files hold.
pub(super) struct Gather<'a> {
    output: SearchOutput,
    limit: usize,
    per_file: u64,
    result: SearchResult,
    counted: u64,
    bytes: usize,
    /// Told to the threads that search: no more hashes are needed.
    is_full: &'a AtomicBool,
    full: Option<(Instant, Bound)>,
    /// Where the page ends: counted there, the file, and the line in it.
    end: Option<(u64, ViewPath, u64)>,
    /// The last file looked at.
    last: Option<ViewPath>,
    ended: Option<Ended>,
    counting_ended: bool,
    /// Lines of some file were left out because of `per_file`.
    is_thinned: bool,
}

impl<'a> Gather<'a> {
    pub fn new(
        output: SearchOutput,
        limit: usize,
        per_file: Option<usize>,
        from: &Place,
        is_full: &'a AtomicBool,
    ) -> Gather<'a> {
        Gather {
            output,
            limit,
            per_file: per_file.map_or(u64::MAX, given::wide),
            result: SearchResult::default(),
            counted: from.counted,
            bytes: 0,
            is_full,
            full: None,
            end: None,
            last: None,
            ended: None,
            counting_ended: false,
            is_thinned: false,
        }
    }

    /// The next file's outcome; false if no more are wanted.
    pub fn take(&mut self, path: &ViewPath, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Searched(hits) => {
                self.result.files_searched += 1;
                self.result.files_matched += u64::from(hits.count > 0);
                if hits.count > 0 {
                    self.hits(path, hits);
                }
            }
            Outcome::Binary => self.result.skipped.binary += 1,
            Outcome::TooLarge => self.result.skipped.too_large += 1,
            Outcome::Unreadable(why) => {
                self.result.skipped.unreadable += 1;
                self.result.bounds.warnings.push(format!("{path}: {why}"));
            }
            Outcome::Gone => {}
            Outcome::Ended(ended) => {
                self.ended = Some(ended);
                return false;
            }
        }
        self.last = Some(path.clone());
        self.counting_ended = self.full.is_some_and(|(since, _)| since.elapsed() >= COUNT_TIME);
        !self.counting_ended
    }

    fn hits(&mut self, path: &ViewPath, hits: Hits) {
        match self.output {
            SearchOutput::Matches => self.lines(path, hits),
            SearchOutput::Files | SearchOutput::Counts => {
                self.counted += 1;
                if self.result.files.len() == self.limit {
                    self.fill(Bound::Limit);
                } else if self.full.is_none() {
                    let count = (self.output == SearchOutput::Counts).then_some(hits.count);
                    self.result.files.push(SearchFile { path: errors::wire(path), count });
                    self.end = Some((self.counted, path.clone(), WHOLE));
                }
            }
        }
    }

    fn lines(&mut self, path: &ViewPath, hits: Hits) {
        let hash = hits.hash.map(|hash| hash.to_string());
        let (before, mut told) = (self.counted, 0);
        for found in hits.kept {
            if self.full.is_some() || told == self.per_file {
                break;
            }
            let size = size_of(&found);
            if self.result.matches.len() == self.limit {
                self.fill(Bound::Limit);
            } else if !self.result.matches.is_empty() && self.bytes + size > BYTES_MAX {
                self.fill(Bound::Bytes);
            } else {
                told += 1;
                self.bytes += size;
                self.end = Some((before + told, path.clone(), found.line));
                self.result.matches.push(shown(path, found, hash.as_deref()));
            }
        }
        if told > 0 {
            self.result.files.push(SearchFile { path: errors::wire(path), count: Some(hits.count) });
        }
        self.counted += hits.count;
        self.is_thinned |= told == self.per_file && told < hits.count;
        if told == hits.count || told == self.per_file {
            if told > 0 {
                self.end = Some((self.counted, path.clone(), WHOLE));
            }
        } else if self.full.is_none() {
            // More lines than one file may keep, by their size.
            self.fill(Bound::Bytes);
        }
    }

    fn fill(&mut self, bound: Bound) {
        if self.full.is_none() {
            self.full = Some((Instant::now(), bound));
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// `cancelled`.
    pub fn finish(mut self, query: &Hash, walked: &Walked) -> Result<SearchResult, ToolError> {
        if self.ended == Some(Ended::Cancelled) {
            return Err(errors::cancelled());
        }
        // The walk may have met the clock, or the caller, before any file did.
        let out_of_time = self.full.is_none() && (self.ended.is_some() || (walked.stopped && !self.counting_ended));
        let mut bounds = given::of_walk(walked, out_of_time);
        bounds.incomplete |= !self.result.bounds.warnings.is_empty();
        bounds.warnings.extend(std::mem::take(&mut self.result.bounds.warnings).into_iter().take(100));
        if let Some((_, bound)) = self.full {
            bounds.truncated_by.retain(|bound| *bound == Bound::Depth);
            bounds.truncated_by.insert(0, bound);
        }
        if self.is_thinned && !bounds.truncated_by.contains(&Bound::Limit) {
            bounds.truncated_by.push(Bound::Limit);
        }
        bounds.truncated = !bounds.truncated_by.is_empty();
        let is_exact = !self.counting_ended
            && self.ended.is_none()
            && !walked.stopped
            && !walked.traversal_cut
            && !walked.depth_cut;
        if is_exact {
            bounds.total = Some(self.counted);
        } else {
            bounds.total_at_least = Some(self.counted);
        }
        bounds.next = if self.full.is_some() {
            self.end.as_ref().map(|(counted, path, line)| Place::cursor(query, *counted, path, *line))
        } else if walked.traversal_cut {
            walked.last.as_ref().map(|path| Place::cursor(query, self.counted, path, WHOLE))
        } else if out_of_time {
            self.last.as_ref().map(|path| Place::cursor(query, self.counted, path, WHOLE))
        } else {
            None
        };
        self.result.bounds = bounds;
        Ok(self.result)
    }
}
