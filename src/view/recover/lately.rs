//! Files that were changed shortly before a power cut: new bytes may have reached the disk under old times.

use std::{collections::HashSet, os::fd::AsFd, sync::Arc};

use super::{Recovery, still_there};
use crate::{
    host,
    types::{Kind, OpId},
    versions::{Bound, Change, HistoryQuery},
    view::{Result, Source},
};

/// The kernel has written what it holds after half this time, unless it was told otherwise.
const WRITTEN_AFTER_NANOS: i64 = 60_000_000_000;
/// Operations asked for at once.
const PAGE: usize = 1000;

impl Recovery<'_> {
    /// Gives each another time of change, so that nobody takes it for what it was without reading it.
    pub(super) fn distrust_times(&mut self, sources: &[Arc<Source>]) -> Result<()> {
        let mut query = HistoryQuery { limit: PAGE, ..HistoryQuery::default() };
        query.sources.extend(sources.iter().map(|source| source.id));
        let (mut seen, mut newest, mut believed) = (HashSet::new(), None, 0_usize);
        'pages: loop {
            let page = self.core.store.history(&query)?;
            for operation in &page.operations {
                let newest = *newest.get_or_insert(operation.time);
                if newest.as_nanos() - operation.time.as_nanos() > WRITTEN_AFTER_NANOS {
                    break 'pages;
                }
                for change in operation.changes.iter().rev().filter(|change| seen.insert(change.node)) {
                    let distrusted = self.source(change.source).is_none_or(|source| distrust(&source, change).is_ok());
                    believed += usize::from(!distrusted);
                }
            }
            match page.operations.last() {
                Some(last) if page.more => query.until = Some(Bound::Op(OpId(last.op.0.saturating_sub(1)))),
                Some(_) | None => break,
            }
        }
        if believed > 0 {
            self.notes.push(format!(
                "the power went: of {believed} files that were changed shortly before, and are not ours to touch, size and times \
                 are believed"
            ));
        }
        Ok(())
    }
}

fn distrust(source: &Source, change: &Change) -> Result<()> {
    let is_file = change.after.as_ref().is_some_and(|after| after.kind == Kind::File);
    let Some(key) = change.key.as_ref().filter(|_| is_file && !source.read_only) else { return Ok(()) };
    let Some(host) = still_there(source, key, &change.path)? else { return Ok(()) };
    let fd = host.path_fd()?;
    let attr = host::stat(fd.as_fd())?;
    if attr.kind == Kind::File {
        host::chmod(fd.as_fd(), attr.mode & 0o7777)?;
    }
    Ok(())
}
