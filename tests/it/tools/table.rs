//! The table of tools: what is listed can be called, and nothing else; schemas and documents say the same.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use wardfs::tools::{AccessGroup, Hints, ToolCall, ToolSettings, ToolSpec};

use super::room::{Plan, Room};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn what_is_listed_can_be_called_and_nothing_else() {
    for features in
        [vec![], vec![AccessGroup::Read], vec![AccessGroup::Read, AccessGroup::Search], AccessGroup::ALL.to_vec()]
    {
        let settings = ToolSettings { features: features.clone(), ..ToolSettings::default() };
        let room = Room::of(Plan { settings, ..Plan::default() });
        let listed: Vec<&str> = room.tools.list().iter().map(|spec| spec.name).collect();
        for name in [
            "read",
            "stat",
            "list",
            "find",
            "search",
            "write",
            "edit",
            "move",
            "copy",
            "mkdir",
            "delete",
            "diff",
            "history",
            "changes",
            "revert",
            "checkpoint",
            "info",
            "transaction",
        ] {
            let call = ToolCall { name: name.into(), arguments: json!({}), operation_id: None };
            let called = room.tools.call(&call, &room.context);
            assert_eq!(called.is_ok(), listed.contains(&name), "{name} with {features:?}");
        }
        let groups: Vec<AccessGroup> = room.tools.list().iter().map(|spec| spec.access).collect();
        assert!(groups.iter().all(|group| features.contains(group)));
    }
}

#[test]
fn every_tool_has_a_whole_description() {
    let room = Room::new();
    for spec in room.tools.list() {
        assert!(spec.description.len() > 40 && !spec.description.contains("  "), "{}: {}", spec.name, spec.description);
        assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
        assert_eq!(spec.input_schema["additionalProperties"], false, "{}", spec.name);
        let text = spec.input_schema.to_string() + &spec.output_schema.to_string();
        assert!(!text.contains("$ref"), "{}: schemas stand alone", spec.name);
        let read_only = spec.hints == Hints::ReadOnly;
        assert_eq!(read_only, spec.access != AccessGroup::Write, "{}", spec.name);
    }
}

/// Does a value fit a schema? As much of JSON Schema as ours use.
fn fits(value: &Value, schema: &Value) -> bool {
    let kind_fits = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    let type_fits = match (&schema["type"], schema["type"].as_array()) {
        (_, Some(kinds)) => kinds.iter().any(|kind| kind_fits(kind.as_str().expect("a type"))),
        (Value::Null, None) => true,
        (kind, None) => kind_fits(kind.as_str().expect("a type")),
    };
    let forms = |name: &str| schema[name].as_array().is_none_or(|forms| forms.iter().any(|form| fits(value, form)));
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    let listed = schema["enum"].as_array().is_none_or(|list| list.contains(value));
    let items = value.as_array().is_none_or(|list| schema.get("items").is_none_or(|s| list.iter().all(|v| fits(v, s))));
    let properties = value.as_object().is_none_or(|object| {
        let known = |name: &String| schema["properties"].get(name);
        let required = schema["required"]
            .as_array()
            .is_none_or(|all| all.iter().all(|n| object.contains_key(n.as_str().expect("a name"))));
        let closed = schema["additionalProperties"] == json!(false);
        required && object.iter().all(|(name, value)| known(name).map_or(!closed, |s| fits(value, s)))
    });
    type_fits && forms("anyOf") && forms("oneOf") && constant && listed && items && properties
}

#[test]
fn results_fit_their_schemas() {
    let room = Room::new();
    room.put("a", "x\n");
    room.put("b", b"\0");
    let specs: BTreeMap<&str, &ToolSpec> = room.tools.list().iter().map(|spec| (spec.name, spec)).collect();
    for (tool, arguments) in [
        ("read", json!({"files": ["a", "b", "none"]})),
        ("stat", json!({"path": "a", "hash": true})),
        ("stat", json!({"path": "none"})),
        ("list", json!({"limit": 1})),
        ("find", json!({"pattern": "*.x"})),
        ("search", json!({"query": "x", "context": 1})),
        ("search", json!({"query": "x", "mode": "keyword"})),
        ("diff", json!({"a": "a", "b": "b"})),
        ("write", json!({"path": "c/d", "content": "x", "operation_id": "1", "expected_hash": null})),
        (
            "edit",
            json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y"}, {"old_text": "q", "new_text": ""}], "partial": true}),
        ),
        ("copy", json!({"from": "a", "to": "e"})),
        ("move", json!({"from": "e", "to": "f"})),
        ("mkdir", json!({"paths": ["g"]})),
        ("delete", json!({"path": "f"})),
        ("history", json!({"limit": 2})),
        ("changes", json!({})),
        ("revert", json!({"path": "a"})),
        ("checkpoint", json!({"name": "n"})),
        ("info", json!({})),
        ("transaction", json!({"ops": [{"tool": "write", "arguments": {"path": "t", "content": "x"}}]})),
    ] {
        let spec = specs[tool];
        assert!(fits(&arguments, &spec.input_schema), "{tool} {arguments}\n{}", spec.input_schema);
        let result = room.call(tool, arguments);
        assert!(fits(&result, &spec.output_schema), "{tool}: {result}\n{}", spec.output_schema);
    }
    assert!(!fits(&json!({"path": 1}), &specs["read"].input_schema), "the check can fail");
    assert!(!fits(&json!({"path": "a", "x": 1}), &specs["read"].input_schema));
}

/// Writes the file if `WARDFS_WRITE_SCHEMAS` is set; else it has to be what is there.
fn keep(path: &Path, content: &str) {
    if std::env::var_os("WARDFS_WRITE_SCHEMAS").is_some() {
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, content).expect("a file");
    }
    let stands = fs::read_to_string(path).unwrap_or_default();
    assert!(
        stands == content,
        "{} is not what the code says; run this test with WARDFS_WRITE_SCHEMAS=1",
        path.display()
    );
}

fn hints(hints: Hints) -> Value {
    let (read_only, destructive, idempotent) = match hints {
        Hints::ReadOnly => (true, false, true),
        Hints::Additive { idempotent } => (false, false, idempotent),
        Hints::Destructive { idempotent } => (false, true, idempotent),
    };
    json!({"readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent, "openWorldHint": false})
}

#[test]
fn schemas_are_kept_as_files() {
    let room = Room::new();
    let dir = top().join("control-api/schema");
    for spec in room.tools.list() {
        let whole = json!({
            "name": spec.name,
            "title": spec.title,
            "description": spec.description,
            "inputSchema": *spec.input_schema,
            "outputSchema": *spec.output_schema,
            "annotations": hints(spec.hints),
        });
        keep(&dir.join(format!("{}.json", spec.name)), &format!("{whole:#}\n"));
    }
    let mut kept: Vec<String> = fs::read_dir(&dir)
        .expect("schemas")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    kept.sort();
    let mut names: Vec<String> = room.tools.list().iter().map(|spec| format!("{}.json", spec.name)).collect();
    names.sort();
    assert_eq!(kept, names, "a file for each tool, and no other");
}

const BEGIN: &str = "<!-- tools: begin -->\n";
const END: &str = "<!-- tools: end -->\n";

#[test]
fn the_readme_names_all_tools() {
    let room = Room::new();
    let mut table = String::from("| tool | group | arguments | does |\n|---|---|---|---|\n");
    for spec in room.tools.list() {
        let properties = spec.input_schema["properties"].as_object().cloned().unwrap_or_default();
        let required = spec.input_schema["required"].as_array().cloned().unwrap_or_default();
        let arguments: Vec<String> = properties
            .keys()
            .map(|name| if required.contains(&json!(name)) { format!("**`{name}`**") } else { format!("`{name}`") })
            .collect();
        let (name, group) = (spec.name, spec.access.word());
        table += &format!(
            "| [`{name}`](schema/{name}.json) | {group} | {} | {} |\n",
            arguments.join(", "),
            spec.description
        );
    }
    let path = top().join("control-api/README.md");
    let text = fs::read_to_string(&path).expect("the readme");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where the table ends");
    keep(&path, &format!("{before}{BEGIN}{table}{END}{after}"));
}

#[test]
fn arguments_as_models_write_them_are_understood() {
    let room = Room::new();
    room.put("a", "x\ny\n");
    room.call("edit", json!({"path": "a", "edits": "[{\"old_text\": \"x\", \"new_text\": \"z\"}]"}));
    room.call("edit", json!({"path": "a", "old_text": "y", "new_text": "w"}));
    assert_eq!(room.get("a"), b"z\nw\n");
    assert_eq!(
        room.call("read", json!({"path": "a", "lines": "[2, 2]", "max_bytes": "100"}))["files"][0]["content"],
        "w\n"
    );
    assert_eq!(room.call("read", json!("{\"path\": \"a\"}"))["files"][0]["content"], "z\nw\n");
    assert_eq!(room.call("list", json!(null))["total"], 1);
    assert_eq!(room.call("list", json!({"limit": 1.0, "pattern": null, "depth": "1"}))["total"], 1);
    room.refused("edit", json!({"path": "a", "edits": "[{\"old_text\": \"z\""}), "invalid_argument");
    room.refused("read", json!("{\"path\": \"a\""), "invalid_argument");
}

#[test]
fn info_tells_the_bounds() {
    let room = Room::new();
    room.call("write", json!({"path": "a", "content": "x"}));
    let info = room.call("info", json!({}));
    assert_eq!(
        (&info["view"], &info["roots"], &info["profile"]),
        (&json!("test"), &json!(["/workspace"]), &json!("native"))
    );
    assert_eq!((&info["limits"]["find_paths"], &info["limits"]["diff_chars"]), (&json!(10_000), &json!(16_000)));
    assert_eq!((&info["sources"][0]["access"], &info["sources"][0]["state"]), (&json!("write"), &json!("ok")));
    assert_eq!(info["policy"]["features"], json!(["read", "search", "write"]));
    assert!(info["store"]["operations"].as_u64() >= Some(1), "{info}");
    assert!(info["store"]["quota_bytes"].as_u64() > Some(0), "{info}");
    assert_eq!((&info["store"]["on_full"], &info["store"]["days"]), (&json!("drop_oldest"), &json!(30)));
    assert_eq!(info["sources"][0]["counts"], json!({"files": 1, "directories": 0, "at_least": false}));
    let room = Room::of(Plan { read_only: true, ..Plan::default() });
    let info = room.call("info", json!({}));
    assert_eq!((&info["policy"]["read_only"], &info["sources"][0]["access"]), (&json!(true), &json!("read")));
}
