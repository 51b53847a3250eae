//! What commands print, and how they fail.

use std::io::{IsTerminal, Write};

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

    /// Failed on something named.
    pub fn on(what: &std::path::Path, error: impl std::fmt::Display) -> Self {
        Failure::new(format!("{}: {error}", what.display()))
    }

    /// A tool failed, and what it said was printed.
    pub fn told() -> Self {
        Failure { message: String::new(), status: 3 }
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
    // Where even this cannot be said, the exit status says it.
    let _ = writeln!(std::io::stderr(), "wardfs: {}", message.trim_end().replace('\n', "; "));
}

/// One line on standard error that is no complaint.
pub(crate) fn note(text: &str) {
    // As above.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Shows something and asks about it, where there is somebody to ask: did he say yes?
pub(crate) fn confirmed(shown: &str, question: &str) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    // What cannot be shown cannot be agreed to.
    let mut answer = String::new();
    write!(std::io::stderr(), "{shown}\n{question} [y/N] ").is_ok()
        && std::io::stdin().read_line(&mut answer).is_ok()
        && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// A number with its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{} KiB", bytes >> 10),
        1_048_576..=1_073_741_823 => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, ((bytes & 0x3fff_ffff) * 10) >> 30),
    }
}

/// One line on standard output. A reader that went away ends the command quietly.
pub(crate) fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Raw bytes on standard output.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
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
