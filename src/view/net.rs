//! The net effect of changes that are to be taken back, worked out on names alone: what each path shall be, and what it
//! should be now if nobody else changed it.

use std::collections::{BTreeMap, BTreeSet};

use super::{ViewChange, places::Places};
use crate::{
    types::{Kind, NodeId, OpId, ViewPath},
    versions::{ChangeKind, Content, NodeKey, State},
};

/// What a path shall be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Where the object that shall stand here stands now; none if it was removed by what is taken back.
    pub now: Option<ViewPath>,
    /// The state it shall have; none keeps what the object has.
    pub state: Option<(NodeId, State)>,
    /// Nothing shall stand here.
    pub absent: bool,
    /// The inode as it was, to link to it if it lives on under another name.
    pub key: Option<NodeKey>,
    /// As the object was before the oldest change that is taken back so far.
    pub before: Option<State>,
}

/// A place in an object's past at which somebody else changed it, between two changes that are taken back.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    /// The older of the two.
    pub op: OpId,
    pub node: NodeId,
    /// As it left the object.
    pub left: State,
    /// As the newer one found it.
    pub found: State,
}

/// What a path should be now.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Absent { op: OpId },
    State { op: OpId, node: NodeId, state: Box<State> },
}

impl Expected {
    /// The last of the changes that are taken back there.
    pub fn op(&self) -> OpId {
        match self {
            Expected::Absent { op } | Expected::State { op, .. } => *op,
        }
    }
}

/// The net effect so far; changes are taken back newest first.
#[derive(Default)]
pub(crate) struct Net {
    /// By path as it will be afterwards.
    pub wanted: BTreeMap<ViewPath, Wanted>,
    /// What stands now, by its path now, and shall not stand anywhere.
    pub gone: BTreeSet<ViewPath>,
    /// By path as it is now.
    pub expected: BTreeMap<ViewPath, Expected>,
    /// By path as it is now, newest first.
    pub between: BTreeMap<ViewPath, Vec<Between>>,
    places: Places,
}

impl Net {
    /// Takes one change back.
    pub fn undo(&mut self, op: OpId, change: &ViewChange) {
        let now = self.present(&change.path);
        self.note_between(op, change, &now);
        match change.kind {
            ChangeKind::Create | ChangeKind::Link => {
                self.expect_after(op, change, now.clone());
                let wanted = self.wanted.remove(&change.path);
                if let Some((from, later)) = change.from.as_ref().zip(wanted.as_ref()) {
                    self.by_first_name(from, later);
                }
                // What was created and removed later is not there to be removed.
                self.gone.extend(wanted.map_or(Some(now), |wanted| wanted.now));
                self.wanted.insert(change.path.clone(), Wanted { absent: true, ..Wanted::default() });
            }
            ChangeKind::Write | ChangeKind::Meta => {
                self.expect_after(op, change, now);
                let stands = self.present(&change.path);
                let entry = self
                    .wanted
                    .entry(change.path.clone())
                    .or_insert_with(|| Wanted { now: Some(stands), ..Wanted::default() });
                entry.absent = false;
                if let Some(before) = &change.before {
                    let mut before = before.clone();
                    if let (Content::Live(_), Some((_, later))) = (&before.content, &entry.state) {
                        before.content = later.content.clone();
                        before.size = later.size;
                    }
                    entry.state = Some((change.node, before.clone()));
                    entry.before.clone_from(&change.before);
                    if before.nlink > 1 {
                        self.by_other_names(change, &before);
                    }
                }
            }
            ChangeKind::Remove => {
                self.expected.entry(now).or_insert(Expected::Absent { op });
                self.wanted.insert(
                    change.path.clone(),
                    Wanted {
                        state: change.before.clone().map(|state| (change.node, state)),
                        key: change.key.clone(),
                        before: change.before.clone(),
                        ..Wanted::default()
                    },
                );
            }
            ChangeKind::Rename => {
                let Some(from) = &change.from else { return };
                self.expect_after(op, change, now);
                let was = self.present(from);
                self.expected.entry(was).or_insert(Expected::Absent { op });
                self.take_back_move(&change.path, from);
                if let Some(wanted) = self.wanted.get_mut(from) {
                    wanted.before.clone_from(&change.before);
                }
            }
            ChangeKind::Exchange => {
                if let Some(from) = &change.from {
                    self.swap(&change.path, from);
                }
            }
        }
    }

    /// A file written or changed by one name is so by all: those that shall be again get the old state, too.
    fn by_other_names(&mut self, change: &ViewChange, before: &State) {
        for (path, wanted) in &mut self.wanted {
            if let Some((node, state)) = &mut wanted.state
                && *node == change.node
                && *path != change.path
            {
                *state = State { nlink: state.nlink, ..before.clone() };
                wanted.before = Some(before.clone());
            }
        }
    }

    /// What was written by a name that goes is taken back by the name from which it was linked.
    fn by_first_name(&mut self, from: &ViewPath, later: &Wanted) {
        let Some((node, state)) = &later.state else { return };
        let now = self.present(from);
        let first = self.wanted.entry(from.clone()).or_insert_with(|| Wanted { now: Some(now), ..Wanted::default() });
        if !first.absent && first.state.is_none() {
            first.state = Some((*node, state.clone()));
            first.before.clone_from(&later.before);
        }
    }

    /// Notes if a newer change that is taken back did not find the object as this one left it.
    fn note_between(&mut self, op: OpId, change: &ViewChange, now: &ViewPath) {
        let found = self.wanted.get(&change.path).and_then(|wanted| wanted.before.as_ref());
        if let (Some(left), Some(found)) = (&change.after, found)
            && (left.kind, found.kind) == (Kind::File, Kind::File)
            && !goes_on(left, found)
        {
            let between = Between { op, node: change.node, left: left.clone(), found: found.clone() };
            self.between.entry(now.clone()).or_default().push(between);
        }
    }

    fn expect_after(&mut self, op: OpId, change: &ViewChange, now: ViewPath) {
        let expected = match &change.after {
            Some(state) => Expected::State { op, node: change.node, state: Box::new(state.clone()) },
            None => Expected::Absent { op },
        };
        self.expected.entry(now).or_insert(expected);
    }

    /// Where something that stood at `path` at this point of the past stands now.
    pub fn present(&self, path: &ViewPath) -> ViewPath {
        self.places.now(path)
    }

    fn take(&mut self, path: &ViewPath) -> (Wanted, Vec<(ViewPath, Wanted)>) {
        let now = self.present(path);
        let top = self.wanted.remove(path).unwrap_or_else(|| Wanted { now: Some(now), ..Wanted::default() });
        let keys: Vec<ViewPath> = self
            .wanted
            .range(path.first_below()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(path))
            .cloned()
            .collect();
        let below = keys
            .into_iter()
            .filter_map(|key| {
                let rest = key.strip_prefix(path)?;
                self.wanted.remove(&key).map(|wanted| (rest, wanted))
            })
            .collect();
        (top, below)
    }

    fn put(&mut self, path: &ViewPath, (top, below): (Wanted, Vec<(ViewPath, Wanted)>)) {
        self.wanted.insert(path.clone(), top);
        for (rest, wanted) in below {
            self.wanted.insert(path.join_path(&rest), wanted);
        }
    }

    fn take_back_move(&mut self, new: &ViewPath, old: &ViewPath) {
        let object = self.take(new);
        self.wanted.insert(new.clone(), Wanted { absent: true, ..Wanted::default() });
        self.put(old, object);
        self.places.was_at(new, old);
    }

    fn swap(&mut self, a: &ViewPath, b: &ViewPath) {
        let (at_a, at_b) = (self.take(a), self.take(b));
        self.put(b, at_a);
        self.put(a, at_b);
        self.places.swap(a, b);
    }
}

/// Is the content in both the same, as far as they say?
fn goes_on(left: &State, found: &State) -> bool {
    match (left.hash(), found.hash()) {
        (Some(left), Some(found)) => left == found,
        (_, _) => (left.size, left.mtime) == (found.size, found.mtime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::parse(text.as_bytes()).expect("a valid path")
    }

    fn state(size: u64) -> State {
        let mut state = crate::view::plan::new_state(Kind::File, 0o644, (0, 0), size, Content::Live(None));
        state.mtime = crate::types::Timestamp::default();
        state
    }

    fn change(kind: ChangeKind, at: &str, from: Option<&str>, before: Option<u64>, after: Option<u64>) -> ViewChange {
        ViewChange {
            path: path(at),
            from: from.map(path),
            kind,
            node: NodeId(1),
            key: None,
            before: before.map(state),
            after: after.map(state),
            coalesced: false,
            unversioned: None,
        }
    }

    fn net(newest_first: &[ViewChange]) -> Net {
        let mut net = Net::default();
        for (at, change) in newest_first.iter().enumerate() {
            net.undo(OpId(100 - at as u64), change);
        }
        net
    }

    #[test]
    fn a_file_saved_by_replacement_gets_its_old_state_and_loses_its_temporary_name() {
        let net = net(&[
            change(ChangeKind::Rename, "f", Some("tmp"), Some(5), Some(5)),
            change(ChangeKind::Remove, "f", None, Some(3), None),
            change(ChangeKind::Create, "tmp", None, None, Some(5)),
        ]);
        let f = &net.wanted[&path("f")];
        assert_eq!((f.absent, f.state.as_ref().map(|(_, s)| s.size)), (false, Some(3)));
        let tmp = &net.wanted[&path("tmp")];
        assert!(tmp.absent && net.gone.contains(&path("f")));
        assert!(matches!(&net.expected[&path("f")], Expected::State { state, .. } if state.size == 5));
    }

    #[test]
    fn what_was_written_by_a_second_name_that_goes_is_taken_back_by_the_first() {
        let written = change(ChangeKind::Write, "second", None, Some(3), Some(5));
        let linked = change(ChangeKind::Link, "second", Some("first"), Some(3), Some(3));
        let net = net(&[written, linked]);
        assert!(net.wanted[&path("second")].absent);
        let first = &net.wanted[&path("first")];
        assert_eq!((first.absent, first.state.as_ref().map(|(_, s)| s.size)), (false, Some(3)));
    }

    #[test]
    fn what_happened_inside_a_directory_after_it_moved_is_found_where_it_is_now() {
        let net = net(&[
            change(ChangeKind::Write, "b/x", None, Some(1), Some(2)),
            change(ChangeKind::Rename, "b", Some("a"), Some(0), Some(0)),
            change(ChangeKind::Write, "a/y", None, Some(7), Some(8)),
        ]);
        assert_eq!(net.wanted[&path("a")].now, Some(path("b")));
        assert_eq!(net.wanted[&path("a/x")].state.as_ref().map(|(_, s)| s.size), Some(1));
        assert!(net.expected.contains_key(&path("b/x")) && net.expected.contains_key(&path("b/y")));
        assert_eq!(net.present(&path("a/y")), path("b/y"));
    }
}
