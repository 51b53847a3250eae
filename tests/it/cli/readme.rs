//! The transcript in the README is what happens.

use std::{path::Path, process::Command};

use crate::harness::{Setup, is_root, left_out, take_away};

/// A command and what it prints.
struct Step {
    command: String,
    output: Vec<String>,
}

fn transcript(readme: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let console = readme.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    for line in console.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
            None => steps.last_mut().unwrap().output.push(line.to_owned()),
        }
    }
    steps
}

/// True if a line is what the README says: `<name>` there stands for some text.
fn line_fits(wanted: &str, line: &str) -> bool {
    let Some((before, rest)) = wanted.split_once('<') else { return wanted == line };
    let (_, after) = rest.split_once('>').unwrap();
    let Some(line) = line.strip_prefix(before) else { return false };
    (1..=line.len()).any(|at| line.is_char_boundary(at) && line_fits(after, &line[at..]))
}

/// True if the lines are what the README says: `...` there stands for some lines.
fn fits(wanted: &[String], lines: &[String]) -> bool {
    match wanted.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => (1..=lines.len()).any(|at| fits(rest, &lines[at..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line_fits(first, line) && fits(rest, lines))
        }
    }
}

fn run(setup: &Setup, dir: &Path, steps: &[Step]) -> Vec<Vec<String>> {
    const MARK: &str = "@@ next step @@";
    let script: String = steps.iter().map(|step| format!("{}\necho; echo '{MARK}'\n", step.command)).collect();
    let bin = Path::new(env!("CARGO_BIN_EXE_wardfs")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let file = setup.dir().join("said");
    let said = std::fs::File::create(&file).unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .current_dir(dir)
        .env_clear()
        .envs(setup.wardfs().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", path).env("LC_ALL", "C.UTF-8").stdin(std::process::Stdio::null());
    command.stdout(said.try_clone().unwrap()).stderr(said).status().unwrap();
    let said = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let mut outputs: Vec<Vec<String>> =
        lines.split(|line| *line == MARK).map(|part| part.iter().map(|line| (*line).to_owned()).collect()).collect();
    outputs.pop();
    // The empty line before the mark ends a last line that had no newline of its own.
    outputs.iter_mut().for_each(|lines| drop(lines.pop()));
    outputs
}

#[test]
fn the_readmes_transcript_is_true() {
    if left_out() {
        return;
    }
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let steps = transcript(&readme);
    assert!(steps.len() > 10 && steps.iter().any(|step| step.command.contains("umount")));
    let setup = Setup::new();
    let dir = setup.dir().join("work");
    std::fs::create_dir(&dir).unwrap();
    let mut outputs = run(&setup, &dir, &steps);
    if !is_root() {
        // The transcript is root's, to whom the kernel tells of changes.
        outputs
            .iter_mut()
            .for_each(|lines| lines.retain(|line| !line.contains(" is seen within a second, not at once")));
    }
    let mountpoint = dir.join("agent");
    if std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!(" {} ", mountpoint.display())) {
        take_away(&mountpoint);
    }
    assert_eq!(outputs.len(), steps.len(), "a step ended the shell: {outputs:#?}");
    for (step, output) in steps.iter().zip(&outputs) {
        assert!(
            fits(&step.output, output),
            "$ {}\nREADME says\n{}\nbut it is\n{}",
            step.command,
            step.output.join("\n"),
            output.join("\n")
        );
    }
}

#[test]
fn a_false_transcript_is_seen() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a\n<x> b\n..."), &lines("a\n12 b\nc\nd")));
    assert!(!fits(&lines("a"), &lines("b")));
    assert!(!fits(&lines("a"), &lines("a\nb")));
    assert!(!fits(&lines("<x> b"), &lines(" b")));
    assert!(!fits(&lines("..."), &lines("")));
}
