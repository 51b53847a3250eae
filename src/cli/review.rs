//! `review`: what was changed through a view and nobody has accepted yet.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control_api::CallResult;
use serde_json::{Value, json};

use super::{
    Failure, Outcome,
    find::{Found, Which, shown},
    output,
    pager::Pager,
    revert::{OnConflict, approved, done},
};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ReviewArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    command: Option<ReviewCommand>,
}

#[derive(Subcommand)]
enum ReviewCommand {
    /// List what is pending
    List(ListArgs),
    /// Show what is pending as differences
    Show(ShowArgs),
    /// Accept: it is pending no longer; no file is touched
    Accept(AcceptArgs),
    /// Reject: it is taken back, as one operation that can be taken back itself
    Reject(RejectArgs),
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    whose: WhoseArgs,
}

#[derive(Args)]
struct WhoseArgs {
    /// Only what this session changed
    #[arg(long, value_name = "S")]
    session: Option<String>,
    /// Only what those without a session changed
    #[arg(long, conflicts_with = "session")]
    shells: bool,
}

#[derive(Args)]
struct ShowArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    whose: WhoseArgs,
    /// Only these paths, and what is below them
    paths: Vec<PathBuf>,
    /// Show differences; they are shown unless --stat is given
    #[arg(short = 'p', long)]
    patch: bool,
    /// Show only how many lines were added and removed
    #[arg(long)]
    stat: bool,
}

#[derive(Args)]
struct Selection {
    #[command(flatten)]
    whose: WhoseArgs,
    /// These paths, and what is below them
    paths: Vec<PathBuf>,
    /// Everything that is pending
    #[arg(long, conflicts_with_all = ["paths", "session", "shells", "hunk"])]
    all: bool,
    /// Only this hunk of the one PATH, as `review show` numbers it; may be given several times
    #[arg(long, value_name = "N", requires = "mark")]
    hunk: Vec<usize>,
    /// The mark that `review show` printed with the hunks
    #[arg(long, requires = "hunk")]
    mark: Option<String>,
    /// Only if nothing was recorded after this operation
    #[arg(long, value_name = "N")]
    if_head: Option<u64>,
}

#[derive(Args)]
struct AcceptArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args)]
struct RejectArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    selection: Selection,
    /// Show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// What to do where somebody changed a path later
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OnConflict::Fail, conflicts_with = "hunk")]
    on_conflict: OnConflict,
    /// The same as --on-conflict force
    #[arg(long, conflicts_with = "hunk")]
    force: bool,
    /// Do not ask before much is removed
    #[arg(short = 'y', long)]
    yes: bool,
}

impl WhoseArgs {
    fn say(&self, asked: &mut Value) {
        asked["session"] = json!(self.session);
        asked["shells"] = self.shells.into();
    }
}

impl Selection {
    /// What is meant, as the daemon takes it: nothing is meant by saying nothing.
    fn asked(&self, action: &str, found: &Found) -> Result<Value, Failure> {
        let says = self.all || !self.paths.is_empty() || self.whose.session.is_some() || self.whose.shells;
        if !says {
            return Err(Failure::usage(format!("say what to {action}: PATH, --session S, --shells or --all")));
        }
        let mut asked = json!({"action": action, "paths": places(&self.paths, found), "hunks": self.hunk,
            "mark": self.mark, "if_head": self.if_head});
        self.whose.say(&mut asked);
        Ok(asked)
    }
}

fn places(paths: &[PathBuf], found: &Found) -> Vec<Value> {
    paths.iter().map(|path| found.path(path)).collect()
}

pub(super) fn review(args: &ReviewArgs) -> Outcome {
    match &args.command {
        None => list(&args.list),
        Some(ReviewCommand::List(args)) => list(args),
        Some(ReviewCommand::Show(args)) => show(args),
        Some(ReviewCommand::Accept(args)) => accept(args),
        Some(ReviewCommand::Reject(args)) => reject(args),
    }
}

/// Asks the daemon; what it refuses is as a tool's error.
fn ask(found: &mut Found, asked: &Value) -> Result<CallResult, Failure> {
    let answer = found.command("review", json!({"review": asked}))?;
    let error = &answer["error"];
    if error.is_null() {
        return Ok(CallResult { text: shown(&answer["text"]), structured: answer, is_error: false });
    }
    Ok(CallResult { text: String::new(), structured: error.clone(), is_error: true })
}

fn list(args: &ListArgs) -> Outcome {
    let mut found = args.which.human(None)?;
    let mut asked = json!({"action": "list"});
    args.whose.say(&mut asked);
    let mut result = ask(&mut found, &asked)?;
    result.text = listed(&result.structured);
    done(&result, args.which.json)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn listed(answer: &Value) -> String {
    let mut lines = Vec::new();
    for session in items(&answer["sessions"]) {
        lines.push(format!("{}:", owner(session)));
        lines.extend(items(&session["paths"]).map(line));
    }
    lines.push(match answer["pending"].as_u64() {
        None | Some(0) => "nothing is pending".into(),
        Some(paths) => {
            let paths = output::count(paths, "path is", "paths are");
            format!("{paths} pending up to operation {}; see `wardfs review show`", answer["head"])
        }
    });
    lines.join("\n")
}

fn owner(session: &Value) -> String {
    session["session"].as_str().map_or_else(|| "without a session".into(), |name| format!("session {name}"))
}

fn line(path: &Value) -> String {
    let mut text = format!("    {:8} {}", shown(&path["change"]), shown(&path["path"]));
    if !path["from"].is_null() {
        text += &format!(" <- {}", shown(&path["from"]));
    }
    let numbers: Vec<String> = items(&path["operations"]).map(Value::to_string).collect();
    text += &format!("  (operation {})", numbers.join(", "));
    for other in items(&path["interleaved"]) {
        let by = [&other["session"], &other["command"], &other["channel"]].into_iter().find(|who| !who.is_null());
        text += &format!(
            "\n        interleaved: operation {} by {}",
            other["operation"],
            by.map(shown).unwrap_or_default()
        );
    }
    text
}

fn show(args: &ShowArgs) -> Outcome {
    let mut found = args.which.human(args.paths.first().map(PathBuf::as_path))?;
    let mut asked = json!({"action": "show", "paths": places(&args.paths, &found)});
    args.whose.say(&mut asked);
    let result = ask(&mut found, &asked)?;
    if args.which.json || result.is_error {
        return done(&result, args.which.json);
    }
    let answer = result.structured;
    let mut pager = Pager::start();
    let with_patch = args.patch || !args.stat;
    for session in items(&answer["sessions"]) {
        for path in items(&session["paths"]) {
            if !pager.text(&shown_path(&owner(session), path, args.stat, with_patch)) {
                return Ok(());
            }
        }
    }
    if answer["pending"] == 0 {
        pager.text("nothing is pending\n");
    }
    Ok(())
}

fn shown_path(owner: &str, path: &Value, stat: bool, patch: bool) -> String {
    let mut text = format!("{}  by {owner}", line(path).trim_start());
    if stat && !path["added"].is_null() {
        text += &format!("  +{} -{}", path["added"], path["removed"]);
    }
    text.push('\n');
    if let [Value::String(before), Value::String(after)] = &items(&path["modes"]).cloned().collect::<Vec<_>>()[..]
        && before != after
    {
        text += &format!("mode {before} -> {after}\n");
    }
    if !patch {
        return text;
    }
    if let Some(hunks) = path["hunks"].as_u64() {
        text += &format!("mark {}, {}\n", shown(&path["mark"]), output::count(hunks, "hunk", "hunks"));
    }
    text += path["diff"].as_str().unwrap_or_default();
    if path["diff_truncated"] == true {
        text += "(the difference is cut)\n";
    }
    text + "\n"
}

fn accept(args: &AcceptArgs) -> Outcome {
    let mut found = args.which.human(args.selection.paths.first().map(PathBuf::as_path))?;
    let asked = args.selection.asked("accept", &found)?;
    let mut result = ask(&mut found, &asked)?;
    let what = if args.selection.hunk.is_empty() {
        output::count(result.structured["accepted"].as_u64().unwrap_or(0), "path", "paths")
    } else {
        hunks(&args.selection)
    };
    result.text = format!("accepted {what}");
    done(&result, args.which.json)
}

fn hunks(selection: &Selection) -> String {
    let numbers: Vec<String> = selection.hunk.iter().map(usize::to_string).collect();
    format!("hunk {}", numbers.join(", "))
}

fn reject(args: &RejectArgs) -> Outcome {
    let mut found = args.which.human(args.selection.paths.first().map(PathBuf::as_path))?;
    let mut asked = args.selection.asked("reject", &found)?;
    let how = if args.force { OnConflict::Force } else { args.on_conflict };
    asked["on_conflict"] = how.word().into();
    asked["dry_run"] = args.dry_run.into();
    done(&approved(asked, args.yes, |asked| ask(&mut found, asked))?, args.which.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_is_listed_by_session() {
        let path = json!({"path": "b", "from": "a", "change": "renamed", "operations": [3, 5],
            "interleaved": [{"operation": 4, "channel": "fuse", "session": null, "command": "sed -i"}]});
        let answer = json!({"head": 7, "pending": 2, "sessions": [
            {"session": "s", "paths": [path]},
            {"session": null, "paths": [{"path": "n", "change": "created", "operations": [6], "interleaved": []}]}]});
        assert_eq!(
            listed(&answer),
            "session s:\n    renamed  b <- a  (operation 3, 5)\n        interleaved: operation 4 by sed -i\n\
             without a session:\n    created  n  (operation 6)\n2 paths are pending up to operation 7; see `wardfs review show`"
        );
        assert_eq!(listed(&json!({"pending": 0, "sessions": []})), "nothing is pending");
    }
}
