//! Lines and JSON-RPC messages, bounded.

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What a read of one line gave.
pub(super) enum Line {
    /// One message's bytes, without the line end.
    Text(Vec<u8>),
    /// Longer than the limit: the rest of it was not read.
    TooLong,
    /// The other side is gone.
    End,
}

/// Reads one line of at most `limit` bytes.
pub(super) async fn read_line(input: &mut (impl AsyncBufRead + Unpin), limit: usize) -> std::io::Result<Line> {
    let mut line = Vec::new();
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            // Half a line and then the end: nobody waits for an answer to it.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', available);
        let take = end.unwrap_or(available.len());
        if line.len() + take > limit {
            return Ok(Line::TooLong);
        }
        line.extend_from_slice(&available[..take]);
        input.consume(end.map_or(take, |end| end + 1));
        if end.is_some() {
            return Ok(Line::Text(line));
        }
    }
}

/// True if brackets nest deeper than `limit`, outside strings.
pub(super) fn too_deep(text: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            (true | false, _) => {}
        }
    }
    false
}

/// A protocol error.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// An answer.
pub(super) fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Not JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// JSON, and no request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// Malformed parameters, or no such tool.
pub(super) const INVALID_PARAMS: i64 = -32602;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let check =
            |text: &str, limit: usize, expected: bool| assert_eq!(too_deep(text.as_bytes(), limit), expected, "{text}");
        check("[[1]]", 2, false);
        check("[[[1]]]", 2, true);
        check(r#"{"a": "[[[[{{{\"[["}"#, 1, false);
    }
}
