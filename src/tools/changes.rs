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
    types::{Hash, Lsn},
    view::Recorded,
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
    let log = Hash::of(b"changes by place in the log");
    let core = call.view.core();
    let mut next = match given::position(&log, args.since.as_deref())? {
        None => core.recorded_up_to(),
        Some(place) => {
            let bytes = place.try_into().map_err(|_| errors::invalid("since is no cursor of this tool"))?;
            Lsn(u64::from_be_bytes(bytes))
        }
    };
    if next > core.store().end_of_log() {
        return Err(errors::invalid("since is of another history; leave it out to begin anew"));
    }
    let deadline = Instant::now() + Duration::from_millis(args.wait_ms);
    core.catch_up();
    let page = loop {
        // Looked at before the query, so that nothing between the two is passed over.
        let end = core.recorded_up_to();
        let page = if end > next {
            call.view.recorded(&filter, next, LIMIT).map_err(errors::of)?
        } else {
            Recorded { operations: Vec::new(), next, more: false }
        };
        next = page.next;
        if !page.operations.is_empty() || Instant::now() >= deadline {
            break page;
        }
        while !page.more && core.recorded_up_to() == end && Instant::now() < deadline {
            if call.context.cancelled.is_set() {
                return Err(errors::cancelled());
            }
            thread::sleep(POLL);
        }
    };
    let result = ChangesResult {
        operations: history::briefly(&page.operations),
        more: page.more,
        next: cursor::encode(&log, &page.next.0.to_be_bytes()),
    };
    let text = match result.operations.as_slice() {
        [] => "nothing changed".to_owned(),
        operations => history::operations(operations).trim_end().to_owned(),
    };
    let more = if result.more { "\n(there is more)" } else { "" };
    Ok(Answer::new(format!("{text}{more}\n(next: {:?})", result.next), &result))
}
