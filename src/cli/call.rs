//! `call`: one tool call.

use clap::Args;
use serde_json::{Map, Value};

use super::{Failure, Outcome, find::Which, output};

#[derive(Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    which: Which,
    /// List the tools with their arguments
    #[arg(long)]
    list: bool,
    /// The session to record
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// A key that makes the call safe to repeat
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
    /// The tool
    tool: Option<String>,
    /// Its arguments: one JSON object, or KEY=VALUE…
    arguments: Vec<String>,
}

pub(super) fn call(args: &CallArgs) -> Outcome {
    let arguments = parse(&args.arguments)?;
    let mut found = args.which.find(None)?;
    let Some(tool) = args.tool.as_deref().filter(|_| !args.list) else {
        if !args.list {
            return Err(Failure::usage("name a tool: wardfs call TOOL [JSON | KEY=VALUE...]; --list tells them"));
        }
        let mut tools = found.client.list_tools()?;
        tools.retain(|tool| args.tool.as_ref().is_none_or(|name| tool["name"] == name.as_str()));
        if args.which.json {
            output::json(&Value::Array(tools));
        } else {
            tools.iter().for_each(|tool| output::line(&summary(tool)));
        }
        return Ok(());
    };
    let result = found.client.call_as(tool, &arguments, args.session.as_deref(), args.operation_id.as_deref())?;
    output::json(&result.structured);
    if result.is_error { Err(Failure::told()) } else { Ok(()) }
}

fn parse(arguments: &[String]) -> Result<Value, Failure> {
    if let [only] = arguments
        && only.trim_start().starts_with('{')
    {
        return serde_json::from_str(only)
            .map_err(|error| Failure::usage(format!("the arguments are not JSON: {error}")));
    }
    let mut map = Map::new();
    for argument in arguments {
        let (key, value) = argument
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("{argument:?} is neither a JSON object nor KEY=VALUE")))?;
        // What reads as JSON is JSON; all else is text.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        map.insert(key.to_owned(), value);
    }
    Ok(Value::Object(map))
}

/// A tool's name, what it does, and its arguments; those in brackets may be left out.
fn summary(tool: &Value) -> String {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let schema = &tool["inputSchema"];
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| if required.contains(&name.as_str()) { name.clone() } else { format!("[{name}]") });
    let first = text("description").split(". ").next().unwrap_or_default();
    format!("{}\n    {first}\n    {}", text("name"), names.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_or_pairs() {
        let check = |arguments: &[&str], expected: Option<&str>| {
            let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            assert_eq!(parse(&arguments).ok().map(|v| v.to_string()).as_deref(), expected, "{arguments:?}");
        };
        check(&[r#"{"path": "a"}"#], Some(r#"{"path":"a"}"#));
        check(
            &["path=a b", "depth=3", "hidden=true", r#"lines=[1,2]"#],
            Some(r#"{"path":"a b","depth":3,"hidden":true,"lines":[1,2]}"#),
        );
        check(&["content=a=b"], Some(r#"{"content":"a=b"}"#));
        check(&[], Some("{}"));
        check(&["path"], None);
        check(&["{path"], None);
    }
}
