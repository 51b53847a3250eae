//! `undo` and `redo`: the last operations taken back, and put back.

use std::collections::HashSet;

use clap::Args;
use serde_json::{Value, json};

use super::{
    Failure, Outcome,
    find::{Found, Which},
    revert::finish,
};

/// Operations that are looked through at once.
const PAGE: u64 = 200;

#[derive(Args)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    which: Which,
    /// How many operations
    #[arg(default_value_t = 1)]
    count: usize,
}

pub(super) fn undo(args: &UndoArgs) -> Outcome {
    each(args, "there is nothing to undo", next_undo)
}

pub(super) fn redo(args: &UndoArgs) -> Outcome {
    each(args, "there is nothing to redo: the last change was no undo", next_redo)
}

fn each(args: &UndoArgs, nothing: &str, next: fn(&mut Walk) -> Option<Choice>) -> Outcome {
    let mut found = args.which.find(None)?;
    for _ in 0..args.count {
        let mut walk = Walk::default();
        let mut asked = json!({"limit": PAGE});
        let operation = loop {
            let answer = found.call("history", &asked)?.structured;
            walk.operations = answer["operations"].as_array().cloned().unwrap_or_default();
            match next(&mut walk) {
                Some(Choice::Operation(number)) => break Some(number),
                Some(Choice::Nothing) => break None,
                None if answer["next"].is_null() => break None,
                None => asked["cursor"] = answer["next"].clone(),
            }
        };
        let operation = operation.ok_or_else(|| Failure::new(nothing))?;
        take_back(&mut found, args.which.json, operation)?;
    }
    Ok(())
}

fn take_back(found: &mut Found, as_json: bool, operation: u64) -> Outcome {
    finish(found, as_json, json!({"operation": operation}), true)
}

/// A way through the history, newest first, page by page.
#[derive(Default)]
struct Walk {
    /// This page.
    operations: Vec<Value>,
    /// Operations that a later one took back and that were not put back since.
    undone: HashSet<u64>,
}

enum Choice {
    Operation(u64),
    Nothing,
}

impl Walk {
    /// The operations of this page that hold: those that were not taken back, and what each took back. A revert that
    /// holds takes its operation out.
    fn holding(&mut self) -> Vec<(u64, Option<u64>)> {
        let mut holding = Vec::new();
        for operation in &self.operations {
            let Some(number) = operation["operation"].as_u64() else { continue };
            if self.undone.contains(&number) {
                continue;
            }
            let undoes = operation["undoes"].as_u64();
            self.undone.extend(undoes);
            let reverts = operation["kind"] == "revert";
            // A revert of more than one operation has no number to undo by; it is an operation as any other.
            holding.push((number, undoes.filter(|_| reverts)));
        }
        holding
    }
}

fn next_undo(walk: &mut Walk) -> Option<Choice> {
    walk.holding().into_iter().find(|(_, undoes)| undoes.is_none()).map(|(number, _)| Choice::Operation(number))
}

fn next_redo(walk: &mut Walk) -> Option<Choice> {
    let mut known: HashSet<u64> = HashSet::new();
    for (number, undoes) in walk.holding() {
        match undoes {
            None => return Some(Choice::Nothing),
            // A redo is itself the undo of an undo: it is passed over.
            Some(_) if known.contains(&number) => {}
            Some(undone) if walk.operations.iter().any(|op| op["operation"] == undone && op["kind"] == "revert") => {
                known.insert(undone);
            }
            Some(_) => return Some(Choice::Operation(number)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations, oldest first: 0 is a change, any other number takes that operation back.
    fn history(steps: &[u64]) -> Walk {
        let operation = |(number, undoes): (usize, &u64)| match undoes {
            0 => json!({"operation": number + 1, "kind": "write"}),
            _ => json!({"operation": number + 1, "kind": "revert", "undoes": undoes}),
        };
        let operations: Vec<Value> = steps.iter().enumerate().map(operation).rev().collect();
        Walk { operations, ..Walk::default() }
    }

    fn check(steps: &[u64], undo: Option<u64>, redo: Option<u64>) {
        let number = |choice: Option<Choice>| match choice {
            Some(Choice::Operation(number)) => Some(number),
            Some(Choice::Nothing) | None => None,
        };
        assert_eq!(number(next_undo(&mut history(steps))), undo, "undo after {steps:?}");
        assert_eq!(number(next_redo(&mut history(steps))), redo, "redo after {steps:?}");
    }

    #[test]
    fn undos_go_back_and_redos_forth() {
        check(&[], None, None);
        check(&[0, 0], Some(2), None);
        check(&[0, 0, 2], Some(1), Some(3));
        check(&[0, 0, 2, 1], None, Some(4));
        // The last undo is put back first.
        check(&[0, 0, 2, 1, 4], Some(1), Some(3));
        check(&[0, 0, 2, 1, 4, 3], Some(2), None);
        // A change after an undo ends what can be put back.
        check(&[0, 0, 2, 0], Some(4), None);
        check(&[0, 0, 2, 0, 4], Some(1), Some(5));
    }
}
