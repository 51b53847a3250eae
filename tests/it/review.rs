//! What was changed through a view and nobody has accepted yet: by the real mount, the real sockets and the real command.

mod hunks;
mod keeping;
mod lasting;
mod pending;
mod reject;
mod transcript;

use serde_json::{Value, json};

use crate::harness::{Client, Mounted, Setup, Shell};

/// A view under review.
pub fn reviewed() -> Setup {
    Setup::new().policy("review = true\n")
}

/// `wardfs review` with these words.
pub fn run(mount: &Mounted, words: &[&str]) -> Shell {
    Shell::of(mount.wardfs().arg("review").args(words).current_dir(mount.path()))
}

/// The same with `--json`: its answer.
#[track_caller]
pub fn review(mount: &Mounted, words: &[&str]) -> Value {
    let shell = run(mount, &[words, &["--json"]].concat());
    assert_eq!(shell.status, 0, "{words:?}: {shell:#?}");
    serde_json::from_str(&shell.out).unwrap_or_else(|error| panic!("{error}: {shell:#?}"))
}

/// What is pending: whose (`-` without a session), what happened, where.
#[track_caller]
pub fn pending(mount: &Mounted) -> Vec<String> {
    lines(&review(mount, &["list"]))
}

/// The same of an answer.
pub fn lines(answer: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for session in answer["sessions"].as_array().unwrap() {
        for path in session["paths"].as_array().unwrap() {
            let whose = session["session"].as_str().unwrap_or("-");
            let from = path["from"].as_str().map(|from| format!(" <- {from}")).unwrap_or_default();
            let (change, at) = (path["change"].as_str().unwrap(), path["path"].as_str().unwrap());
            all.push(format!("{whose} {change} {at}{from}"));
        }
    }
    all
}

/// The path's entry in an answer.
pub fn entry<'a>(answer: &'a Value, path: &str) -> &'a Value {
    let sessions = answer["sessions"].as_array().unwrap().iter();
    let mut paths = sessions.flat_map(|session| session["paths"].as_array().unwrap());
    paths.find(|entry| entry["path"] == path).unwrap_or_else(|| panic!("{path} is not pending: {answer:#}"))
}

/// Writes by the tool.
#[track_caller]
pub fn write(client: &mut Client, path: &str, content: &str) -> u64 {
    client.call("write", &json!({"path": path, "content": content}))["operation"].as_u64().unwrap()
}

/// Numbered lines, some of them changed.
pub fn numbered(changed: &[(usize, &str)]) -> String {
    (1..=40)
        .map(|n| match changed.iter().find(|(at, _)| *at == n) {
            Some((_, text)) => format!("{text}\n"),
            None => format!("line {n}\n"),
        })
        .collect()
}

/// `wardfs verify` finds nothing.
#[track_caller]
pub fn whole(mount: &Mounted) {
    Shell::of(mount.wardfs().args(["verify", "--store"]).arg(mount.answer()["store"].as_str().unwrap())).ok();
}
