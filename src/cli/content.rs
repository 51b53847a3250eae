//! Contents of files by the `read` tool, as bytes.

use base64::Engine;
use serde_json::{Value, json};

use super::{Failure, find::Found};

/// Bytes asked for at once: the most that the tool gives without being told otherwise is a quarter of this.
const WINDOW: u64 = 1 << 20;

/// Gives a file's content to `take`, window by window.
pub(super) fn each(
    found: &mut Found,
    path: &Value,
    at: Option<&Value>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    let mut offset = 0u64;
    loop {
        let mut asked = json!({
            "path": path, "encoding": "base64", "bytes": [offset, WINDOW], "max_bytes": WINDOW, "hash": false,
        });
        if let Some(at) = at {
            asked["at"] = at.clone();
        }
        let answer = found.call("read", &asked)?.structured;
        let file = &answer["files"][0];
        let text = file["content"].as_str().unwrap_or_default();
        let content = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| Failure::new(format!("the daemon's answer is not understood: {error}")))?;
        take(&content);
        offset += u64::try_from(content.len()).unwrap_or(u64::MAX);
        if content.is_empty() || file["size"].as_u64().is_none_or(|size| offset >= size) {
            return Ok(());
        }
    }
}

/// A file's content.
pub(super) fn whole(found: &mut Found, path: &Value, at: &Value) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    each(found, path, Some(at), |part| all.extend_from_slice(part))?;
    Ok(all)
}
