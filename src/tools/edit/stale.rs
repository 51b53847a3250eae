//! A content that is not the expected one: what the expected one was, and how it differs from what is there.

use std::ops::RangeInclusive;

use control_api::{ErrorCode, ToolError, tools::OnEditConflict};
use serde_json::json;

use crate::{
    text,
    tools::errors,
    types::{Hash, HashPrefix, OpId, ViewPath},
    versions::Bound,
    view::{View, ViewError, ViewQuery},
};

/// Characters of the diff in an error.
const DIFF_MAX: usize = 8_000;
/// Bytes of a content that is compared.
const CONTENT_MAX: u64 = 16 << 20;
/// Operations looked through for the expected content.
const OPERATIONS_MAX: usize = 1_000;

/// The expected content, if history has it.
pub(super) fn base(view: &View, path: &ViewPath, expected: &HashPrefix) -> Result<Option<Vec<u8>>, ToolError> {
    let mut query = ViewQuery { path: Some(path.clone()), limit: 100, ..ViewQuery::default() };
    for _ in 0..OPERATIONS_MAX / 100 {
        let page = view.history(&query).map_err(errors::of)?;
        for operation in &page.operations {
            for change in &operation.changes {
                for after in [true, false] {
                    let state = if after { &change.after } else { &change.before };
                    let named = state.as_ref().and_then(crate::versions::State::hash);
                    if !named.is_some_and(|hash| expected.matches(&hash)) {
                        continue;
                    }
                    // It may be gone, or the live file may have moved on: then it is not known.
                    let bytes = view.bytes_of(operation.op, change, after, CONTENT_MAX).ok();
                    if let Some(bytes) = bytes.filter(|bytes| expected.matches(&Hash::of(bytes))) {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
        let Some(last) = page.operations.last().filter(|_| page.more) else { break };
        query.until = Some(Bound::Op(OpId(last.op.0.saturating_sub(1))));
    }
    Ok(None)
}

/// The refusal, with what changed since.
pub(super) fn error(
    view: &View,
    path: &ViewPath,
    current: Option<Hash>,
    base: Option<&[u8]>,
    on_conflict: OnEditConflict,
) -> ToolError {
    let error = errors::of(ViewError::HashConflict { path: path.clone(), current });
    let hash = current.map(|hash| hash.to_string());
    let now = view.open_path(path).and_then(|reading| view.read_all(&reading, CONTENT_MAX)).ok();
    let details = match (base, now) {
        (Some(base), Some(now)) => {
            let (a, b) = (format!("a/{path} (expected)"), format!("b/{path} (now)"));
            let diff = text::unified(base, &now, Some(&a), Some(&b), 3, DIFF_MAX);
            json!({"current_hash": hash, "diff": diff.text, "diff_truncated": diff.truncated})
        }
        (_, _) => json!({"current_hash": hash}),
    };
    let mut error = error.with(details);
    if on_conflict == OnEditConflict::Merge && base.is_none() {
        error.message += "; the expected content is not in history, so there is nothing to merge from";
    }
    error
}

/// The refusal of a merge.
pub(super) fn disputed(base: &[u8], current: &[u8], lines: &[RangeInclusive<usize>]) -> ToolError {
    let ranges: Vec<[usize; 2]> = lines.iter().map(|range| [*range.start(), *range.end()]).collect();
    let diff = text::unified(base, current, Some("a (expected)"), Some("b (now)"), 3, DIFF_MAX);
    let text =
        "the edits touch lines that somebody else changed since; nothing was changed; read it again and decide anew";
    ToolError::new(ErrorCode::HashConflict, text).with(json!({
        "current_hash": Hash::of(current).to_string(),
        "disputed_lines": ranges,
        "diff": diff.text,
        "diff_truncated": diff.truncated,
    }))
}
