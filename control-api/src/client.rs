//! A blocking client of a control socket: one connection, one call at a time, no handshake.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::ToolError;

/// A connection to a control socket, or to an admin socket.
pub struct Client {
    path: PathBuf,
    connection: BufReader<UnixStream>,
    next: u64,
}

/// What a call came to.
#[derive(Clone, PartialEq, Debug)]
pub struct CallResult {
    /// The structured result, or the error object.
    pub structured: Value,
    /// The text that a model would read.
    pub text: String,
    /// The tool failed.
    pub is_error: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket cannot be reached.
    #[error("{}: {source}; is the daemon running?", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke. A change may or may not have been made: ask again with the same `operation_id`.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The daemon did not understand the request.
    #[error("{0}")]
    Refused(String),
    /// The answer makes no sense.
    #[error("the daemon's answer is not understood: {0}")]
    Answer(String),
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// `Connect`.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream =
            UnixStream::connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Client { path: path.to_owned(), connection: BufReader::new(stream), next: 1 })
    }

    /// Answers that take longer than this are given up; none waits for ever.
    ///
    /// # Errors
    /// The host's.
    pub fn set_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.connection.get_ref().set_read_timeout(time)
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One request, one answer.
    ///
    /// # Errors
    /// `Broken`, `Refused`, `Answer`.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, ClientError> {
        let id = self.next;
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.connection.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        if self.connection.read_line(&mut answer)? == 0 {
            return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut answer: Value =
            serde_json::from_str(&answer).map_err(|error| ClientError::Answer(error.to_string()))?;
        if let Some(error) = answer.get("error") {
            let text = error.get("message").and_then(Value::as_str).unwrap_or("refused");
            return Err(ClientError::Refused(text.to_owned()));
        }
        answer.get_mut("result").map(Value::take).ok_or_else(|| ClientError::Answer("it has no result".into()))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// As `request`. A tool that failed is a result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<CallResult, ClientError> {
        self.call_as(tool, arguments, None, None)
    }

    /// Calls a tool in a session's name, with an idempotency key.
    ///
    /// # Errors
    /// As `call`.
    pub fn call_as(
        &mut self,
        tool: &str,
        arguments: &Value,
        session: Option<&str>,
        operation_id: Option<&str>,
    ) -> Result<CallResult, ClientError> {
        let mut params = json!({"name": tool, "arguments": arguments});
        for (key, value) in [("session", session), ("operation_id", operation_id)] {
            if let Some(value) = value {
                params[key] = value.into();
            }
        }
        let result = self.request("tools/call", &params)?;
        let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
        Ok(CallResult {
            text: result
                .get("content")
                .and_then(Value::as_array)
                .map(|blocks| blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
                .unwrap_or_default(),
            is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false),
            structured: result.get("structuredContent").cloned().unwrap_or(Value::Null),
        })
    }

    /// The tools there are, as MCP lists them.
    ///
    /// # Errors
    /// As `request`.
    pub fn list_tools(&mut self) -> Result<Vec<Value>, ClientError> {
        let mut result = self.request("tools/list", &json!({}))?;
        match result.get_mut("tools").map(Value::take) {
            Some(Value::Array(tools)) => Ok(tools),
            _ => Err(ClientError::Answer("tools/list without tools".into())),
        }
    }
}

impl CallResult {
    /// The error object of a tool that failed.
    #[must_use]
    pub fn error(&self) -> Option<ToolError> {
        self.is_error.then(|| serde_json::from_value(self.structured.clone()).ok())?
    }
}
