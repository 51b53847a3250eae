//! How results read, where several tools say the same.

use control_api::tools::{Bound, Bounds};

/// What a reader must know of a result that is not whole; empty for a whole one.
pub(super) fn bounds(bounds: &Bounds) -> String {
    let mut text = String::new();
    if bounds.truncated {
        let words: Vec<&str> = bounds.truncated_by.iter().map(|bound| word(*bound)).collect();
        text += &format!("\n(cut by {}", words.join(", "));
        if let Some(total) = bounds.total {
            text += &format!("; {total} in all");
        } else if let Some(least) = bounds.total_at_least {
            text += &format!("; at least {least} in all");
        }
        if let Some(next) = &bounds.next {
            text += &format!("; go on with cursor {next:?}");
        }
        text += ")";
    }
    if bounds.incomplete {
        text += "\n(not everything could be looked at)";
    }
    for warning in bounds.warnings.iter().take(10) {
        text += &format!("\nwarning: {warning}");
    }
    text
}

fn word(bound: Bound) -> &'static str {
    match bound {
        Bound::Limit => "limit",
        Bound::Depth => "depth",
        Bound::Traversal => "traversal_limit",
        Bound::Bytes => "size of the answer",
        Bound::Time => "time",
    }
}

/// `1 file`, `2 files`.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
