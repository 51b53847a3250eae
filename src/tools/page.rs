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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::parse(text.as_bytes()).unwrap()
    }

    fn page(limit: usize, from: &Place, time: Duration, offered: &[&str]) -> (Vec<String>, Bounds) {
        let query = Hash::of(b"query");
        let never = || false;
        let mut page = Page::new(limit, from, Patience::new(&never, time));
        let mut walked = Walked::default();
        for text in offered.iter().filter(|text| from.after.as_ref().is_none_or(|after| path(text) > *after)) {
            walked.last = Some(path(text));
            page.offer(&path(text), 0, || (*text).to_owned());
            if !page.goes_on() {
                walked.stopped = true;
                break;
            }
        }
        let bounds = page.bounds(&query, &walked).unwrap();
        (page.items, bounds)
    }

    #[test]
    fn a_page_that_ran_out_of_time_goes_on_behind_its_last_entry() {
        let names = ["a", "b", "c"];
        let (mut from, mut found) = (Place::default(), Vec::new());
        for _ in 0..names.len() {
            let (items, bounds) = page(9, &from, Duration::ZERO, &names);
            assert_eq!((bounds.truncated_by.as_slice(), bounds.incomplete), (&[Bound::Time][..], true));
            assert_eq!(bounds.total, None);
            found.extend(items);
            from = Place::from_cursor(&Hash::of(b"query"), bounds.next.as_deref()).unwrap();
        }
        assert_eq!(found, names);
        assert_eq!(from, Place { counted: [3, 0], after: Some(path("c")) });
    }

    #[test]
    fn once_a_page_is_full_time_only_ends_the_count() {
        let (items, bounds) = page(1, &Place::default(), Duration::from_secs(60), &["a", "b"]);
        assert_eq!((items.len(), bounds.total, bounds.incomplete), (1, Some(2), false));
        assert_eq!(bounds.truncated_by, [Bound::Limit]);
        let (items, bounds) = page(2, &Place::default(), Duration::from_secs(60), &["a", "b"]);
        assert_eq!((items.len(), bounds.truncated, bounds.next), (2, false, None), "an exact fit");
    }

    #[test]
    fn a_caller_that_gave_up_gets_an_error() {
        let gone = || true;
        let mut page: Page<'_, ()> = Page::new(1, &Place::default(), Patience::new(&gone, Duration::from_secs(60)));
        assert!(!page.goes_on());
        let error = page.bounds(&Hash::of(b""), &Walked::default()).unwrap_err();
        assert_eq!(error.code, control_api::ErrorCode::Cancelled);
    }
}
