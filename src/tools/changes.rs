//! `changes`: what happened since an earlier answer, and a wait for the next thing that happens.

use std::{
    thread,
    time::{Duration, Instant},
};

use control_api::{
    ToolError,
    tools::{ChangesArgs, ChangesResult},
};

use super::{Answer, cursor, errors, given, history, native::Call};
use crate::{
    types::{Hash, OpId},
    versions::Bound,
    view::{ViewHistory, ViewQuery},
};

/// The longest wait, in milliseconds.
const WAIT_MAX: u64 = 60_000;
/// How often the log is looked at meanwhile.
const POLL: Duration = Duration::from_millis(20);
/// Operations in one answer.
const LIMIT: usize = 200;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &ChangesArgs) -> Result<Answer, ToolError> {
    given::bounded("wait_ms", args.wait_ms, 0, WAIT_MAX)?;
    let filter = given::actor(args.actor.as_ref())?;
    // Good for any filter: it only names a place in the log.
    let log = Hash::of(b"changes");
    let last = || call.view.core().store().last_op();
    let since = match given::position(&log, args.since.as_deref())? {
        None => last(),
        Some(place) => {
            let bytes = place.try_into().map_err(|_| errors::invalid("since is no cursor of this tool"))?;
            OpId(u64::from_be_bytes(bytes))
        }
    };
    let deadline = Instant::now() + Duration::from_millis(args.wait_ms);
    let query = ViewQuery {
        actor: filter,
        since: Some(Bound::Op(since)),
        oldest_first: true,
        limit: LIMIT,
        ..ViewQuery::default()
    };
    call.view.core().catch_up();
    let mut seen = since;
    let page = loop {
        // Looked at before the query, so that nothing between the two is passed over.
        let newest = last();
        let page = if newest > since { call.view.history(&query).map_err(errors::of)? } else { ViewHistory::default() };
        if !page.operations.is_empty() || Instant::now() >= deadline {
            seen = seen.max(newest);
            break page;
        }
        while last() == newest && Instant::now() < deadline {
            if call.context.cancelled.is_set() {
                return Err(errors::cancelled());
            }
            thread::sleep(POLL);
        }
    };
    let newest_told = page.operations.last().map(|operation| operation.op);
    let next = match newest_told {
        Some(op) if page.more => op,
        Some(op) => op.max(seen),
        None => seen,
    };
    let result = ChangesResult {
        operations: page.operations.iter().map(history::briefly).collect(),
        more: page.more,
        next: cursor::encode(&log, &next.0.to_be_bytes()),
    };
    let text = match result.operations.as_slice() {
        [] => "nothing changed".to_owned(),
        operations => history::operations(operations).trim_end().to_owned(),
    };
    let more = if result.more { "\n(there is more)" } else { "" };
    Ok(Answer::new(format!("{text}{more}\n(next: {:?})", result.next), &result))
}
