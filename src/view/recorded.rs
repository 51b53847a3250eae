//! What was recorded since, in the order of the log: an operation that is recorded again, because a file that is still open
//! was written again, comes again.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{Core, Result, View, ViewError, ViewOperation};
use crate::{
    types::Lsn,
    versions::{ActorFilter, RecordedQuery, Store},
};

/// Pages asked of the store for one answer, at most: what policy hides is left out, and that may be much.
const PAGES_MAX: usize = 64;

/// A page of operations in the order in which they were recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The operations.
    pub operations: Vec<ViewOperation>,
    /// Where the next page begins.
    pub next: Lsn,
    /// There is more already.
    pub more: bool,
}

/// Mutations that are in the log and not applied yet: nobody is told of them, nor of what was recorded after them.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// How many there are whose records come at or after a position.
    from: Mutex<BTreeMap<Lsn, usize>>,
}

/// One of them, until it is dropped.
pub(crate) struct OneUnderWay<'a> {
    all: &'a UnderWay,
    from: Lsn,
}

impl UnderWay {
    /// Before the first record of a mutation is appended.
    pub fn begin(&self, store: &Store) -> OneUnderWay<'_> {
        let mut all = self.from.lock();
        let from = store.end_of_log();
        *all.entry(from).or_default() += 1;
        OneUnderWay { all: self, from }
    }

    /// Up to where all that is recorded is also done.
    fn done_up_to(&self, store: &Store) -> Lsn {
        let all = self.from.lock();
        let end = store.end_of_log();
        all.keys().next().map_or(end, |first| end.min(*first))
    }
}

impl Drop for OneUnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.all.from.lock();
        if let Some(count) = all.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.from);
            }
        }
    }
}

impl Core {
    /// The position in the log up to which all that is recorded is also done.
    pub fn recorded_up_to(&self) -> Lsn {
        self.under_way.done_up_to(&self.store)
    }
}

impl View {
    /// Operations that touch what this view shows and were recorded at or after a position, or recorded again.
    ///
    /// # Errors
    /// The store's.
    pub fn recorded(&self, actor: &ActorFilter, from: Lsn, limit: usize) -> Result<Recorded> {
        let mut query = RecordedQuery {
            sources: self.sources.iter().map(|source| source.id).collect(),
            actor: actor.clone(),
            from,
            below: self.core.recorded_up_to(),
            limit,
        };
        let mut recorded = Recorded { operations: Vec::new(), next: from, more: false };
        for _ in 0..PAGES_MAX {
            query.limit = limit - recorded.operations.len();
            let page = self.core.store.recorded(&query)?.ok_or_else(|| {
                ViewError::InvalidArgument("that place is of another history; begin anew, without it".into())
            })?;
            recorded.operations.extend(page.operations.into_iter().filter_map(|operation| self.shown(operation)));
            (recorded.next, recorded.more) = (page.next, page.more);
            query.from = page.next;
            if !page.more || recorded.operations.len() >= limit {
                break;
            }
        }
        Ok(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        types::{Actor, Channel},
        versions::StoreOptions,
    };

    #[test]
    fn nobody_is_told_of_what_is_not_done_yet_nor_of_what_came_after() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { durability: crate::versions::Durability::Relaxed };
        let store = Store::open(&dir.path().join("store"), &options).unwrap();
        let all = UnderWay::default();
        let mark = |name: &str| store.checkpoint(name, None, &Actor::of(Channel::Tool)).unwrap();
        let start = store.end_of_log();
        let first = all.begin(&store);
        mark("a");
        let second = all.begin(&store);
        let between = store.end_of_log();
        mark("b");
        assert_eq!(all.done_up_to(&store), start);
        drop(first);
        assert_eq!(all.done_up_to(&store), between);
        drop(second);
        assert_eq!(all.done_up_to(&store), store.end_of_log());
        assert!(store.end_of_log() > between);
    }
}
