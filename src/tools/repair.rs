//! Arguments as models write them: a list inside a string, a number in quotes, null for "not given". Set right by the schema,
//! before anything else looks at them; text that is not JSON is never mended.

use serde_json::Value;

/// Makes `value` fit `schema` where what was meant is plain.
pub(super) fn fit(value: &mut Value, schema: &Value) {
    if let Value::String(text) = value
        && !takes(schema, "string")
    {
        if let Some(meant) = parsed(text, schema) {
            *value = meant;
        } else if takes(schema, "array") && items(schema).is_some_and(|items| takes(items, "string")) {
            *value = Value::Array(vec![std::mem::take(value)]);
        }
    }
    match value {
        Value::Number(number) => {
            if number.is_f64()
                && takes(schema, "integer")
                && let Some(whole) = number.as_f64().and_then(whole)
            {
                *value = whole;
            }
        }
        Value::Array(list) => {
            if let Some(items) = items(schema) {
                list.iter_mut().for_each(|item| fit(item, items));
            }
        }
        Value::Object(object) => {
            let Some(schema) = object_form(schema) else { return };
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
            let required = |name: &str| {
                schema.get("required").and_then(Value::as_array).is_some_and(|list| list.iter().any(|n| n == name))
            };
            object.retain(|name, value| {
                let Some(property) = properties.get(name) else { return true };
                fit(value, property);
                !value.is_null() || required(name) || takes(property, "null")
            });
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Does some form of the schema take values of this type?
fn takes(schema: &Value, kind: &str) -> bool {
    let own = match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        Some(_) | None => schema.get("enum").is_some() && kind == "string" || schema.get("const").is_some(),
    };
    own || forms(schema).any(|form| takes(form, kind))
}

fn forms(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|name| schema.get(name)?.as_array()).flatten()
}

fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").or_else(|| forms(schema).find_map(items))
}

/// The one form of the schema that is an object.
fn object_form(schema: &Value) -> Option<&Value> {
    if schema.get("properties").is_some() {
        return Some(schema);
    }
    let mut objects = forms(schema).filter_map(object_form);
    let first = objects.next()?;
    objects.next().is_none().then_some(first)
}

/// What a string holds, if it is JSON of a type that the schema takes.
fn parsed(text: &str, schema: &Value) -> Option<Value> {
    let value: Value = serde_json::from_str(text.trim()).ok()?;
    let fits = match &value {
        Value::Array(_) => takes(schema, "array"),
        Value::Object(_) => takes(schema, "object"),
        Value::Bool(_) => takes(schema, "boolean"),
        Value::Number(_) => takes(schema, "integer") || takes(schema, "number"),
        Value::Null | Value::String(_) => false,
    };
    fits.then_some(value)
}

fn whole(number: f64) -> Option<Value> {
    let text = format!("{number:.0}");
    let value: Value = serde_json::from_str(&text).ok()?;
    (number.fract() == 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Value) {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"bytes": {"type": "string"}}}]},
            "edits": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
            "lines": {"type": ["array", "null"], "items": {"type": "integer"}},
            "names": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": "integer"},
            "deep": {"type": "boolean"},
            "hash": {"type": ["string", "null"]},
        }});
        let mut fitted = value.clone();
        fit(&mut fitted, &schema);
        assert_eq!(fitted, expected, "{value}");
    }

    #[test]
    fn what_was_meant_is_taken() {
        check(json!({"edits": "[{\"n\": \"2\"}]"}), json!({"edits": [{"n": 2}]}));
        check(json!({"edits": ["{\"n\": 1}"]}), json!({"edits": [{"n": 1}]}));
        check(json!({"limit": "2", "deep": "true"}), json!({"limit": 2, "deep": true}));
        check(json!({"limit": 2.0, "lines": "[1, 2]"}), json!({"limit": 2, "lines": [1, 2]}));
        check(json!({"limit": null, "hash": null}), json!({"hash": null}));
        check(json!({"names": "a", "path": "[1]"}), json!({"names": ["a"], "path": "[1]"}));
    }

    #[test]
    fn what_is_not_plain_is_left() {
        check(json!({"edits": "[{\"n\": 1}"}), json!({"edits": "[{\"n\": 1}"}));
        check(json!({"limit": "two", "deep": "yes"}), json!({"limit": "two", "deep": "yes"}));
        check(json!({"limit": 2.5, "other": null}), json!({"limit": 2.5, "other": null}));
        check(json!({"path": null}), json!({"path": null}));
    }
}
