//! JSON-RPC messages as lines.

use serde_json::Value;

/// Not JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// JSON, and no request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// Malformed parameters, or no such tool.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// A fault of ours.
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// Too many connections. Outside the range that JSON-RPC and MCP keep for themselves, as is the next.
pub(super) const BUSY: i64 = 1;
/// A human's command was not carried out.
pub(super) const COMMAND_FAILED: i64 = 2;

/// A protocol error.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Vec<u8> {
    let message = Value::String(message.to_owned());
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}\n").into_bytes()
}

/// An answer; `result` is JSON.
pub(super) fn answer(id: &Value, result: &(impl std::fmt::Display + ?Sized)) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

/// May it be a request's id? MCP takes strings and whole numbers; null stands for "no id could be read".
pub(super) fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64()
}

/// True if brackets nest deeper than `limit`, outside strings.
pub(super) fn too_deep(text: &[u8], limit: usize) -> bool {
    let mut rest = text;
    let mut depth = 0usize;
    while let Some(&byte) = rest.first() {
        rest = &rest[1..];
        match byte {
            b'"' => rest = after_string(rest),
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            0..=255 => {}
        }
    }
    false
}

/// What comes after a string's closing quote.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let step = if text[at] == b'"' { 1 } else { 2 };
        let rest = text.get(at + step..).unwrap_or_default();
        if step == 1 {
            return rest;
        }
        text = rest;
    }
    &[]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let check =
            |text: &str, limit: usize, expected: bool| assert_eq!(too_deep(text.as_bytes(), limit), expected, "{text}");
        check("[[1]]", 2, false);
        check("[[[1]]]", 2, true);
        check("[][][]", 1, false);
        check(r#"{"a": "[[[[{{{\"[[", "b": "\\"}"#, 1, false);
        check(r#"{"a": "\\", "b": [1]}"#, 1, true);
        check(r#"["open [[[[["#, 1, false);
        check(r#"["open \"#, 1, false);
    }

    #[test]
    fn lines_are_json() {
        let check = |line: Vec<u8>, expected: Value| {
            assert_eq!(line.last(), Some(&b'\n'));
            assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), expected);
        };
        check(answer(&json!("a\"b"), &json!({"x": 1})), json!({"jsonrpc": "2.0", "id": "a\"b", "result": {"x": 1}}));
        check(
            error(&Value::Null, PARSE_ERROR, "a \"b\"\n"),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "a \"b\"\n"}}),
        );
    }

    #[test]
    fn ids_are_text_and_whole_numbers() {
        for (id, expected) in
            [(json!("a"), true), (json!(-3), true), (json!(1.5), false), (json!(null), false), (json!([1]), false)]
        {
            assert_eq!(is_id(&id), expected, "{id}");
        }
    }
}
