//! `diff`: two contents, each of now or of an earlier moment.

use control_api::{
    ToolError,
    tools::{At, DiffArgs, DiffResult, DiffSide, DiffSideResult},
};

use super::{Answer, errors, given, given::wide, native::Call, render};
use crate::{
    text,
    types::{Hash, ViewPath},
    view::View,
};

/// Characters of a diff.
pub(super) const CHARS_MAX: usize = 16_000;
/// Bytes of each side.
const SIDE_MAX: u64 = 16 << 20;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &DiffArgs) -> Result<Answer, ToolError> {
    let context = given::bounded("context", args.context, 0, 100)?;
    let a = Side::read(call.view, &args.a, args.a_lines, "a_lines")?;
    let b = Side::read(call.view, &args.b, args.b_lines, "b_lines")?;
    let (from, to) = (a.part(), b.part());
    let names = (format!("a/{}", a.path), format!("b/{}", b.path));
    let diff = text::unified(from, to, Some(&names.0), Some(&names.1), context, CHARS_MAX);
    let result = DiffResult {
        identical: from == to,
        diff: diff.text,
        diff_truncated: diff.truncated,
        added: wide(diff.stats.added),
        removed: wide(diff.stats.removed),
        a: a.told(),
        b: b.told(),
    };
    Ok(Answer::new(rendered(&result), &result))
}

struct Side {
    path: ViewPath,
    bytes: Vec<u8>,
    lines: Option<(usize, usize)>,
}

impl Side {
    fn read(view: &View, given: &DiffSide, lines: Option<[u64; 2]>, name: &str) -> Result<Side, ToolError> {
        let (path, at) = match given {
            DiffSide::Moment { path, at } => (path, at.as_ref()),
            DiffSide::Path(path) => (path, None),
        };
        let path = given::path(view, path)?;
        let lines = match lines {
            None => None,
            Some([first, last]) if first == 0 || last < first => {
                return Err(errors::invalid(format!("{name} is [{first}, {last}]; give first and last line, from 1")));
            }
            Some([first, last]) => {
                let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                Some((number(first), number(last)))
            }
        };
        Ok(Side { bytes: content(view, &path, at)?, path, lines })
    }

    fn part(&self) -> &[u8] {
        match self.lines {
            None => &self.bytes,
            Some((first, last)) => &self.bytes[text::window(&self.bytes, first, last).range],
        }
    }

    fn told(&self) -> DiffSideResult {
        DiffSideResult {
            path: errors::wire(&self.path),
            hash: Hash::of(&self.bytes).to_string(),
            size: wide(self.bytes.len()),
        }
    }
}

/// A whole content, now or then.
pub(super) fn content(view: &View, path: &ViewPath, at: Option<&At>) -> Result<Vec<u8>, ToolError> {
    if let Some(at) = at {
        return Ok(view.past_bytes(path, &given::moment(at)?, SIDE_MAX).map_err(errors::of)?.0);
    }
    let reading = view.open_path(path).map_err(errors::of)?;
    view.read_all(&reading, SIDE_MAX).map_err(errors::of)
}

fn rendered(result: &DiffResult) -> String {
    if result.identical {
        return format!("identical: {} and {}", result.a.path, result.b.path);
    }
    let cut = if result.diff_truncated { "\n(the diff is cut)" } else { "" };
    let added = render::count(result.added, "line", "lines");
    format!("{added} added, {} removed\n{}{cut}", result.removed, result.diff)
}
