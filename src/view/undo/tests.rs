//! Which steps are one, on histories as programs make them.

use super::*;
use crate::types::{NodeId, Timestamp};

fn path(text: &str) -> ViewPath {
    ViewPath::parse(text.as_bytes()).unwrap()
}

fn operation(number: u64, kind: OpKind, undoes: &[u64]) -> ViewOperation {
    ViewOperation {
        op: OpId(number),
        time: Timestamp { secs: i64::try_from(number).unwrap() * 10, nanos: 0 },
        actor: Actor::of(Channel::Tool),
        kind,
        operation_id: None,
        note: None,
        undoes: undoes.iter().copied().map(OpId).collect(),
        changes: Vec::new(),
    }
}

/// Operations, oldest first: an empty list is a change, any other takes those operations back.
fn check(steps: &[&[u64]], undo: Option<u64>, redo: Option<u64>) {
    let list = || {
        let one = |(number, undoes): (u64, &&[u64])| {
            let kind = if undoes.is_empty() { OpKind::Write } else { OpKind::Revert };
            operation(number, kind, undoes)
        };
        let mut list: Vec<_> = (1..).zip(steps).map(one).collect();
        list.reverse();
        list
    };
    let steps_back =
        last_steps(list().into_iter().map(Ok), &ActorFilter::default(), &HashSet::new()).unwrap().unwrap_or_default();
    assert_eq!(steps_back.first().map(|step| step.op.0), undo, "undo after {steps:?}");
    let is_revert = |op: OpId| Ok(list().iter().any(|other| other.op == op && other.kind == OpKind::Revert));
    let undone = last_undo(list().into_iter().map(Ok), is_revert).unwrap();
    assert_eq!(undone.map(|operation| operation.op.0), redo, "redo after {steps:?}");
}

#[test]
fn undos_go_back_and_redos_forth() {
    check(&[], None, None);
    check(&[&[], &[]], Some(2), None);
    check(&[&[], &[], &[2]], Some(1), Some(3));
    check(&[&[], &[], &[2], &[1]], None, Some(4));
    // The last undo is put back first.
    check(&[&[], &[], &[2], &[1], &[4]], Some(1), Some(3));
    check(&[&[], &[], &[2], &[1], &[4], &[3]], Some(2), None);
    // A change after an undo ends what can be put back.
    check(&[&[], &[], &[2], &[]], Some(4), None);
    check(&[&[], &[], &[2], &[], &[4]], Some(1), Some(5));
    // Several steps at once.
    check(&[&[], &[], &[], &[3, 2]], Some(1), Some(4));
    check(&[&[], &[], &[], &[3, 2], &[4]], Some(3), None);
}

/// Steps, oldest first, in words: `create a`, `write a`, `meta a`, `remove a`, `rename a b`, `over a b` (b was there).
fn steps(words: &[&str]) -> Vec<ViewOperation> {
    let change = |kind, at: &str, from: Option<&str>| ViewChange {
        path: path(at),
        from: from.map(path),
        kind,
        node: NodeId(1),
        key: None,
        before: None,
        after: None,
        coalesced: false,
        unversioned: None,
    };
    let one = |(number, text): (u64, &&str)| {
        let words: Vec<&str> = text.split(' ').collect();
        let changes = match words.as_slice() {
            ["create", at] => vec![change(ChangeKind::Create, at, None)],
            ["write", at] => vec![change(ChangeKind::Write, at, None)],
            ["meta", at] => vec![change(ChangeKind::Meta, at, None)],
            ["remove", at] => vec![change(ChangeKind::Remove, at, None)],
            ["rename", from, at] => vec![change(ChangeKind::Rename, at, Some(from))],
            ["over", from, at] => {
                vec![change(ChangeKind::Remove, at, None), change(ChangeKind::Rename, at, Some(from))]
            }
            other => unreachable!("{other:?}"),
        };
        ViewOperation { changes, ..operation(number, OpKind::Write, &[]) }
    };
    let mut steps: Vec<_> = (1..).zip(words).map(one).collect();
    steps.reverse();
    steps
}

fn one(words: &[&str], expected: usize) {
    assert_eq!(one_save(&steps(words)), expected, "{words:?}");
}

#[test]
fn a_save_of_several_steps_is_one() {
    // A temporary file renamed over, with its mode set.
    one(&["write z", "create t", "meta t", "over t f"], 3);
    // Aside, new, mode, gone.
    one(&["write z", "rename f f~", "create f", "meta f", "remove f~"], 4);
    // The same, and the old one stays as a backup.
    one(&["write z", "rename f f~", "create f", "meta f"], 3);
    // A copy aside, written in place, gone.
    one(&["write z", "create f~", "write f", "remove f~"], 3);
    // Removed and made anew.
    one(&["write z", "remove f", "create f"], 2);
    // A mode after a write.
    one(&["write z", "write f", "meta f"], 2);
}

#[test]
fn what_was_done_for_its_own_sake_stands_alone() {
    one(&["write f", "write f"], 1);
    one(&["write g", "rename a b"], 1);
    one(&["create a", "create b"], 1);
    one(&["create a", "write b", "remove c"], 1);
    one(&["create t", "over t f", "create u", "over u g"], 2);
    one(&[], 0);
}
