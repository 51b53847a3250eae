//! Where things stood in the past, and where they stand now: a tree of names as it was, in which what has moved since knows
//! its present path.

use std::collections::BTreeMap;

use crate::types::{EntryName, ViewPath};

/// The tree of names at a moment that goes back in time, move by move. What it does not hold has not moved by itself.
#[derive(Default)]
pub(crate) struct Places {
    root: Spot,
}

/// One name of the past.
#[derive(Clone, Default)]
struct Spot {
    /// Where it stands now, if that does not follow from the name above it.
    now: Option<ViewPath>,
    below: BTreeMap<EntryName, Spot>,
}

impl Places {
    /// Where something that stood at `path` at this moment stands now. Takes as many steps as the path has names.
    pub fn now(&self, path: &ViewPath) -> ViewPath {
        let mut spot = Some(&self.root);
        let mut now = ViewPath::root();
        for name in path.components() {
            spot = spot.and_then(|spot| spot.below.get(&name));
            match spot.and_then(|spot| spot.now.as_ref()) {
                Some(other) => now.clone_from(other),
                None => now.push(&name),
            }
        }
        now
    }

    /// A step back: what stands at `later` stood at `earlier` before.
    pub fn was_at(&mut self, later: &ViewPath, earlier: &ViewPath) {
        let spot = self.marked(later);
        *self.spot(later) = spot.clone();
        *self.spot(earlier) = spot;
    }

    /// A step back: what stands at two paths stood at each other's before.
    pub fn swap(&mut self, a: &ViewPath, b: &ViewPath) {
        let (at_a, at_b) = (self.marked(a), self.marked(b));
        *self.spot(a) = at_b;
        *self.spot(b) = at_a;
    }

    fn marked(&mut self, path: &ViewPath) -> Spot {
        let now = self.now(path);
        let mut spot = std::mem::take(self.spot(path));
        spot.now = Some(now);
        spot
    }

    fn spot(&mut self, path: &ViewPath) -> &mut Spot {
        path.components().fold(&mut self.root, |spot, name| spot.below.entry(name).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::parse(text.as_bytes()).expect("a valid path")
    }

    /// Steps back (later, earlier), then where a path of that past stands now.
    fn check(steps: &[(&str, &str)], past: &str, now: &str) {
        let mut places = Places::default();
        for (later, earlier) in steps {
            places.was_at(&path(later), &path(earlier));
        }
        assert_eq!(places.now(&path(past)), path(now), "{steps:?}: {past}");
    }

    #[test]
    fn a_past_name_leads_to_where_the_thing_stands_now() {
        check(&[], "a/b", "a/b");
        check(&[("b", "a")], "a", "b");
        check(&[("b", "a")], "a/x/y", "b/x/y");
        check(&[("c", "b"), ("b", "a")], "a/x", "c/x");
        check(&[("d/f", "d/e"), ("d", "c")], "c/e", "d/f");
        check(&[("d", "c"), ("c/f", "c/e")], "c/e", "d/f");
        check(&[("d", "c"), ("c/f", "e")], "e/x", "d/f/x");
        check(&[("t", "a"), ("a", "b"), ("b", "t")], "t", "t");
    }

    #[test]
    fn what_changed_places_did_so_with_all_below_it() {
        let mut places = Places::default();
        places.was_at(&path("a/new"), &path("a/old"));
        places.swap(&path("a"), &path("b"));
        for (past, now) in [("b/old", "a/new"), ("a/x", "b/x"), ("b", "a")] {
            assert_eq!(places.now(&path(past)), path(now), "{past}");
        }
    }
}
