//! What commands print, and how they fail.

use std::{
    io::{IsTerminal, Write},
    process::{Command, Stdio},
};

use serde_json::Value;

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub message: String,
    pub status: u8,
}

/// What a command came to.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// Failed: exit status 1.
    pub fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 1 }
    }

    /// Used wrongly: exit status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 2 }
    }
}

impl From<control_api::ClientError> for Failure {
    fn from(error: control_api::ClientError) -> Self {
        Failure::new(error.to_string())
    }
}

impl From<crate::run::RunError> for Failure {
    fn from(error: crate::run::RunError) -> Self {
        Failure::new(error.to_string())
    }
}

/// One line on standard error.
pub(crate) fn complain(message: &str) {
    eprintln!("wardfs: {message}");
}

/// One line on standard output. A reader that went away ends the command quietly.
pub(crate) fn line(text: &str) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Raw bytes on standard output.
pub(crate) fn bytes(bytes: &[u8]) {
    if std::io::stdout().write_all(bytes).is_err() {
        std::process::exit(0);
    }
}

/// JSON: on several lines for a terminal, on one for a program.
pub(crate) fn json(value: &Value) {
    if std::io::stdout().is_terminal() {
        line(&format!("{value:#}"));
    } else {
        line(&value.to_string());
    }
}

/// Text that may be long: through a pager on a terminal, in colour there.
pub(crate) fn page(text: &str) {
    if !std::io::stdout().is_terminal() {
        return bytes(text.as_bytes());
    }
    let coloured: String = text.split_inclusive('\n').map(colour).collect();
    let pager =
        std::env::var("WARDFS_PAGER").or_else(|_| std::env::var("PAGER")).unwrap_or_else(|_| "less -FRX".into());
    let child = Command::new("sh").args(["-c", &pager]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return bytes(coloured.as_bytes()) };
    if let Some(mut input) = child.stdin.take() {
        // A pager that is left early closes its input.
        let _ = input.write_all(coloured.as_bytes());
    }
    if let Err(error) = child.wait() {
        complain(&format!("the pager: {error}"));
    }
}

fn colour(line: &str) -> String {
    let code = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "1",
        [b'+', ..] => "32",
        [b'-', ..] => "31",
        [b'@', b'@', ..] => "36",
        _ if line.starts_with("operation ") => "33",
        [..] => return line.to_owned(),
    };
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    format!("\x1b[{code}m{text}\x1b[0m{end}")
}
