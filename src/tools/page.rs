//! One page of a walk's results: at most `limit` of them, with all there are counted as far as time allows, and the place from
//! which the next page goes on.

use std::time::Instant;

use control_api::{
    ToolError,
    tools::{Bound, Bounds},
};

use super::{
    bounds::{COUNT_TIME, Ended, Patience},
    cursor, errors, given,
};
use crate::{
    types::{Hash, ViewPath},
    view::{WalkControl, Walked},
};

/// Where a page goes on: what was counted before it, and the path behind which it begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    /// Results before, in two sorts.
    pub counted: [u64; 2],
    /// All up to and with this path was looked at.
    pub after: Option<ViewPath>,
}

impl Place {
    /// From a cursor of this query.
    pub fn from_cursor(query: &Hash, text: Option<&str>) -> Result<Place, ToolError> {
        let Some(bytes) = given::position(query, text)? else { return Ok(Place::default()) };
        let broken = || errors::invalid("that cursor is damaged");
        let (first, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
        let (second, path) = rest.split_first_chunk().ok_or_else(broken)?;
        let after = ViewPath::parse(path).map_err(|_| broken())?;
        Ok(Place { counted: [u64::from_be_bytes(*first), u64::from_be_bytes(*second)], after: Some(after) })
    }

    fn cursor(&self, query: &Hash) -> String {
        let path = self.after.as_ref().map(ViewPath::as_bytes).unwrap_or_default();
        let [first, second] = self.counted.map(u64::to_be_bytes);
        cursor::encode(query, &[&first[..], &second, path].concat())
    }
}

/// Gathers results in the order of a walk.
pub(super) struct Page<'a, T> {
    /// The page.
    pub items: Vec<T>,
    limit: usize,
    patience: Patience<'a>,
    counted: [u64; 2],
    /// Counted up to the page's end, and its last path.
    end: Place,
    /// When the page turned out to be full.
    full: Option<Instant>,
    ended: Option<Ended>,
    counting_ended: bool,
}

impl<'a, T> Page<'a, T> {
    /// A page of at most `limit` results.
    pub fn new(limit: usize, from: &Place, patience: Patience<'a>) -> Self {
        Page {
            items: Vec::new(),
            limit,
            patience,
            counted: from.counted,
            end: from.clone(),
            full: None,
            ended: None,
            counting_ended: false,
        }
    }

    /// One more result; `sort` is 0 or 1.
    pub fn offer(&mut self, path: &ViewPath, sort: usize, item: impl FnOnce() -> T) {
        self.counted[sort] += 1;
        if self.items.len() < self.limit {
            self.items.push(item());
            self.end = Place { counted: self.counted, after: Some(path.clone()) };
        } else if self.full.is_none() {
            self.full = Some(Instant::now());
        }
    }

    /// Asked after each entry of the walk.
    pub fn goes_on(&mut self) -> bool {
        self.ended = self.patience.ended();
        self.counting_ended = self.full.is_some_and(|since| since.elapsed() >= COUNT_TIME);
        self.ended.is_none() && !self.counting_ended
    }

    /// As a walk wants it.
    pub fn control(&mut self) -> WalkControl {
        if self.goes_on() { WalkControl::Continue } else { WalkControl::Stop }
    }

    /// What was counted, in two sorts.
    pub fn counted(&self) -> [u64; 2] {
        self.counted
    }

    /// How complete the page is.
    ///
    /// # Errors
    /// `cancelled`.
    pub fn bounds(&self, query: &Hash, walked: &Walked) -> Result<Bounds, ToolError> {
        if self.ended == Some(Ended::Cancelled) {
            return Err(errors::cancelled());
        }
        let is_full = self.full.is_some();
        // Once the page is full, what the walk did later only counted.
        let out_of_time = self.ended == Some(Ended::Time) && !is_full;
        let mut bounds = given::of_walk(walked, out_of_time);
        if is_full {
            bounds.truncated = true;
            bounds.truncated_by.retain(|bound| *bound == Bound::Depth);
            bounds.truncated_by.insert(0, Bound::Limit);
        }
        let total = self.counted[0].saturating_add(self.counted[1]);
        if self.ended.is_some() || self.counting_ended || walked.traversal_cut || walked.depth_cut {
            bounds.total_at_least = Some(total);
        } else {
            bounds.total = Some(total);
        }
        if is_full {
            bounds.next = Some(self.end.cursor(query));
        } else if walked.traversal_cut || out_of_time {
            let place = Place { counted: self.counted, after: walked.last.clone().or_else(|| self.end.after.clone()) };
            bounds.next = Some(place.cursor(query));
        }
        Ok(bounds)
    }
}
