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
    /// `None` after a break: the next request connects anew.
    connection: Option<BufReader<UnixStream>>,
    timeout: Option<Duration>,
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
    /// No answer came in the time that `set_timeout` gave. A change may or may not be made yet: ask again with the same
    /// `operation_id`.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The daemon did not understand the request, or refused it.
    #[error("{message}")]
    Refused {
        /// JSON-RPC's error code.
        code: i64,
        /// In words.
        message: String,
    },
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
        let mut client = Client { path: path.to_owned(), connection: None, timeout: None, next: 1 };
        client.connection = Some(client.connected()?);
        Ok(client)
    }

    fn connected(&self) -> Result<BufReader<UnixStream>, ClientError> {
        let failed = |source| ClientError::Connect { path: self.path.clone(), source };
        let stream = UnixStream::connect(&self.path).map_err(failed)?;
        stream.set_read_timeout(self.timeout).map_err(failed)?;
        stream.set_write_timeout(self.timeout).map_err(failed)?;
        Ok(BufReader::new(stream))
    }

    /// Requests that take longer than this are given up. Without it an answer is waited for as long as it takes.
    ///
    /// # Errors
    /// A time of zero; the host's.
    pub fn set_timeout(&mut self, time: Option<Duration>) -> io::Result<()> {
        if let Some(connection) = &self.connection {
            connection.get_ref().set_read_timeout(time)?;
            connection.get_ref().set_write_timeout(time)?;
        }
        self.timeout = time;
        Ok(())
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One request, one answer. If the daemon was started anew since the last one, this connects again.
    ///
    /// # Errors
    /// All of `ClientError`.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, ClientError> {
        let id = self.next;
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("{line}\n");
        let mut connection = match self.connection.take() {
            Some(mut idle) => match idle.get_mut().write_all(line.as_bytes()) {
                Ok(()) => idle,
                Err(error) if is_timeout(&error) => return Err(self.late(error)),
                // The daemon had left before: a line that did not reach it whole was not obeyed, so it can be sent again.
                Err(_) => self.sent_anew(&line)?,
            },
            None => self.sent_anew(&line)?,
        };
        let answer = loop {
            let mut answer = String::new();
            match connection.read_line(&mut answer) {
                Ok(0) => return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(self.late(error)),
            }
            let answer: Value =
                serde_json::from_str(&answer).map_err(|error| ClientError::Answer(error.to_string()))?;
            // A refusal of the whole connection has no id.
            match answer.get("id") {
                None | Some(Value::Null) => break answer,
                Some(answered) if *answered == id => break answer,
                Some(_) => {}
            }
        };
        self.connection = Some(connection);
        result(answer)
    }

    fn sent_anew(&self, line: &str) -> Result<BufReader<UnixStream>, ClientError> {
        let mut connection = self.connected()?;
        match connection.get_mut().write_all(line.as_bytes()) {
            Err(error) if is_timeout(&error) => Err(self.late(error)),
            // A daemon that refuses the connection says why before it ends it.
            Ok(()) | Err(_) => Ok(connection),
        }
    }

    /// An error of reading or writing: time is over, or the connection broke.
    fn late(&self, error: io::Error) -> ClientError {
        match self.timeout {
            Some(time) if is_timeout(&error) => ClientError::Timeout(time),
            Some(_) | None => ClientError::Broken(error),
        }
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
        let mut result = self.request("tools/call", &params)?;
        let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
        Ok(CallResult {
            text: result
                .get("content")
                .and_then(Value::as_array)
                .map(|blocks| blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
                .unwrap_or_default(),
            is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false),
            structured: result.get_mut("structuredContent").map(Value::take).unwrap_or_default(),
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

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn result(mut answer: Value) -> Result<Value, ClientError> {
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("refused").to_owned();
        return Err(ClientError::Refused { code: error.get("code").and_then(Value::as_i64).unwrap_or(0), message });
    }
    answer.get_mut("result").map(Value::take).ok_or_else(|| ClientError::Answer("it has no result".into()))
}

impl CallResult {
    /// The error object of a tool that failed.
    #[must_use]
    pub fn error(&self) -> Option<ToolError> {
        self.is_error.then(|| serde_json::from_value(self.structured.clone()).ok())?
    }
}
