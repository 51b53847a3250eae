//! A plain client of the control socket, as ten lines of any language would have it: one JSON message a line.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

/// One connection.
pub struct Client {
    lines: BufReader<UnixStream>,
    stream: UnixStream,
    next: u64,
    session: Option<String>,
}

/// A tool's error.
#[derive(Debug)]
pub struct ToolError {
    /// Its code.
    pub code: String,
    /// The whole error object.
    pub body: Value,
}

impl Client {
    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> Client {
        let stream = UnixStream::connect(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { lines: BufReader::new(stream.try_clone().unwrap()), stream, next: 0, session: None }
    }

    /// Every call names this session.
    pub fn session(mut self, name: &str) -> Client {
        self.session = Some(name.to_owned());
        self
    }

    /// Sends one request and gives the whole response.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        loop {
            let answer = self.receive();
            if answer["id"] == json!(id) {
                return answer;
            }
        }
    }

    /// Sends one line as it is.
    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line from the daemon.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        let count = self.lines.read_line(&mut line).unwrap();
        assert!(count > 0, "the daemon closed the connection");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"))
    }

    /// Calls a tool: its structured result, or its error.
    pub fn try_call(&mut self, tool: &str, arguments: &Value) -> Result<Value, ToolError> {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(session) = &self.session {
            params["session"] = json!(session);
        }
        let answer = self.request("tools/call", &params);
        let result = answer.get("result").unwrap_or_else(|| panic!("{tool} {arguments}: {answer}"));
        let body = result["structuredContent"].clone();
        if result["isError"] != json!(true) {
            return Ok(body);
        }
        let body = body.get("error").filter(|error| error.is_object()).cloned().unwrap_or(body);
        let code = body["code"].as_str().unwrap_or_else(|| panic!("an error without a code: {answer}")).to_owned();
        Err(ToolError { code, body })
    }

    /// Calls a tool that must succeed.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        match self.try_call(tool, arguments) {
            Ok(body) => body,
            Err(error) => panic!("{tool} {arguments}: {}", error.body),
        }
    }

    /// Takes back, however much that removes: with the token of a dry run, if it gives one.
    #[track_caller]
    pub fn revert(&mut self, arguments: &Value) -> Value {
        let mut asked = arguments.clone();
        asked["dry_run"] = json!(true);
        let token = self.call("revert", &asked)["confirm_token"].clone();
        asked["dry_run"] = json!(false);
        if !token.is_null() {
            asked["confirm_token"] = token;
        }
        self.call("revert", &asked)
    }

    /// Calls a tool that must fail; gives the code.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        match self.try_call(tool, arguments) {
            Ok(body) => panic!("{tool} {arguments}: should have failed, gave {body}"),
            Err(error) => error.code,
        }
    }

    /// The text of a file, by `read`.
    #[track_caller]
    pub fn read(&mut self, path: &str) -> String {
        let body = self.call("read", &json!({"path": path}));
        let file = body.get("files").and_then(|files| files.get(0)).unwrap_or(&body);
        file["content"].as_str().unwrap_or_else(|| panic!("read of {path}: no content in {body}")).to_owned()
    }

    /// The operations that touched `path` (or all), newest first.
    #[track_caller]
    pub fn history(&mut self, path: Option<&str>) -> Vec<Value> {
        let mut found = Vec::new();
        let mut arguments = json!({"limit": 1000});
        if let Some(path) = path {
            arguments["path"] = json!(path);
        }
        loop {
            let page = self.call("history", &arguments);
            found.extend(page["operations"].as_array().unwrap_or_else(|| panic!("no operations: {page}")).clone());
            match page.get("next").filter(|next| !next.is_null()) {
                Some(next) => arguments["cursor"] = next.clone(),
                None => return found,
            }
        }
    }
}
