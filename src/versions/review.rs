//! Review: what of a view's changes a person has accepted. The records that say so, and what follows from all of them.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode, bytes::ByteVec};

use super::{Store, StoreError, frame::RecordType, index::Reader};
use crate::{
    crash_point,
    types::{Actor, Hash, Lsn, NodeId, OpId, Timestamp},
};

type Result<T> = std::result::Result<T, StoreError>;

/// Whose changes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whose {
    /// Everybody's.
    All,
    /// Of those without a session: shells.
    Shells,
    /// Of an agent's session.
    Session(String),
}

/// A moment up to which something holds: for the operations up to `op` whose last record lies before `position`. A file
/// that stayed open is recorded again under an old number, and what is recorded later was not seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark {
    /// The last operation.
    pub op: OpId,
    /// The log's end.
    pub position: Lsn,
}

/// What a record of a review says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReviewStep {
    /// Changes after the mark are pending.
    Begins,
    /// Changes after the mark are not.
    Ends,
    /// Changes up to the mark are accepted.
    Accepted,
    /// The operation of the mark took changes back: it counts as one of those whose changes it took back; as nobody's, and
    /// never pending, if they are everybody's.
    Rejected,
}

/// A step of a view's review.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Review {
    /// The view.
    pub view: String,
    /// What happened.
    pub step: ReviewStep,
    /// To whose changes.
    pub whose: Whose,
    /// To these files alone; none for all.
    pub nodes: Option<Vec<NodeId>>,
    /// Up to where.
    pub upto: Mark,
    /// Of one file accepted in part: this content is accepted, on top of what was up to the mark.
    pub content: Option<Hash>,
    /// When.
    pub time: Timestamp,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Wire {
    #[n(0)]
    view: String,
    #[n(1)]
    step: u8,
    #[n(2)]
    whose: u8,
    #[n(3)]
    session: Option<String>,
    #[n(4)]
    nodes: Option<Vec<u64>>,
    #[n(5)]
    op: u64,
    #[n(6)]
    position: u64,
    #[n(7)]
    content: Option<ByteVec>,
    #[n(8)]
    time: (i64, u32),
}

impl ReviewStep {
    pub(super) fn code(self) -> u8 {
        match self {
            ReviewStep::Begins => 0,
            ReviewStep::Ends => 1,
            ReviewStep::Accepted => 2,
            ReviewStep::Rejected => 3,
        }
    }

    pub(super) fn of(code: u8) -> Result<ReviewStep> {
        Ok(match code {
            0 => ReviewStep::Begins,
            1 => ReviewStep::Ends,
            2 => ReviewStep::Accepted,
            3 => ReviewStep::Rejected,
            other => return Err(StoreError::Damaged(format!("a record has an unknown step of a review: {other}"))),
        })
    }
}

impl Whose {
    /// Whose an actor's changes are.
    #[must_use]
    pub fn of(actor: &Actor) -> Whose {
        actor.session.clone().map_or(Whose::Shells, Whose::Session)
    }

    /// Are changes of `other` among them?
    #[must_use]
    pub fn includes(&self, other: &Whose) -> bool {
        *self == Whose::All || self == other
    }

    pub(super) fn parts(&self) -> (u8, Option<&str>) {
        match self {
            Whose::All => (0, None),
            Whose::Shells => (1, None),
            Whose::Session(session) => (2, Some(session)),
        }
    }

    pub(super) fn from_parts(code: u8, session: Option<String>) -> Result<Whose> {
        match (code, session) {
            (0, _) => Ok(Whose::All),
            (1, _) => Ok(Whose::Shells),
            (2, Some(session)) => Ok(Whose::Session(session)),
            (other, _) => Err(StoreError::Damaged(format!("a record has an unknown owner of changes: {other}"))),
        }
    }
}

impl Mark {
    /// Before everything.
    pub const BEGINNING: Mark = Mark { op: OpId(0), position: Lsn(0) };

    /// Does an operation whose last record is at `lsn` lie before it?
    #[must_use]
    pub fn covers(&self, op: OpId, lsn: Lsn) -> bool {
        op <= self.op && lsn < self.position
    }
}

impl Review {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (whose, session) = self.whose.parts();
        let wire = Wire {
            view: self.view.clone(),
            step: self.step.code(),
            whose,
            session: session.map(str::to_owned),
            nodes: self.nodes.as_ref().map(|nodes| nodes.iter().map(|node| node.0).collect()),
            op: self.upto.op.0,
            position: self.upto.position.0,
            content: self.content.map(|hash| hash.0.to_vec().into()),
            time: (self.time.secs, self.time.nanos),
        };
        minicbor::to_vec(wire).expect("encoding into memory cannot fail")
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Review> {
        let damaged = |what: &str| StoreError::Damaged(format!("a record cannot be read: {what}"));
        let wire: Wire = minicbor::decode(payload).map_err(|error| damaged(&error.to_string()))?;
        let hash = |bytes: ByteVec| bytes[..].try_into().map(Hash).map_err(|_| damaged("a hash has 32 bytes"));
        Ok(Review {
            view: wire.view,
            step: ReviewStep::of(wire.step)?,
            whose: Whose::from_parts(wire.whose, wire.session)?,
            nodes: wire.nodes.map(|nodes| nodes.into_iter().map(NodeId).collect()),
            upto: Mark { op: OpId(wire.op), position: Lsn(wire.position) },
            content: wire.content.map(hash).transpose()?,
            time: Timestamp { secs: wire.time.0, nanos: wire.time.1 },
        })
    }
}

/// Where a view's review stands: all its steps together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reviewed {
    /// Times under review, oldest first; the last may have no end.
    spans: Vec<(Mark, Option<Mark>)>,
    /// Accepted of everything, by whose it is.
    whole: BTreeMap<Whose, Mark>,
    /// Accepted of one file.
    files: BTreeMap<(Whose, NodeId), (Mark, Option<Hash>)>,
    rejected: BTreeMap<OpId, Whose>,
}

impl Reviewed {
    /// The next step, in the order of the log.
    pub(super) fn take(&mut self, review: Review) {
        let Review { step, whose, nodes, upto, content, .. } = review;
        match (step, nodes) {
            (ReviewStep::Begins, _) => self.spans.push((upto, None)),
            (ReviewStep::Ends, _) => {
                if let Some((_, end @ None)) = self.spans.last_mut() {
                    *end = Some(upto);
                }
            }
            (ReviewStep::Accepted, None) => {
                let mark = self.whole.entry(whose).or_insert(Mark::BEGINNING);
                *mark = (*mark).max(upto);
            }
            (ReviewStep::Accepted, Some(nodes)) => {
                for node in nodes {
                    let file = self.files.entry((whose.clone(), node)).or_insert((Mark::BEGINNING, None));
                    if file.0 <= upto {
                        *file = (upto, content);
                    }
                }
            }
            (ReviewStep::Rejected, _) => drop(self.rejected.insert(upto.op, whose)),
        }
    }

    /// Are changes made now pending until they are accepted?
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.spans.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Was the view ever under review, with something that may be pending?
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.spans.is_empty()
    }

    /// Nothing before it is pending; none if nothing at all is.
    #[must_use]
    pub fn floor(&self) -> Option<Mark> {
        let (first, _) = self.spans.first()?;
        Some(self.whole.get(&Whose::All).copied().unwrap_or(*first).max(*first))
    }

    fn accepted(&self, whose: &Whose, node: NodeId) -> impl Iterator<Item = Mark> {
        let whole = [self.whole.get(&Whose::All), self.whole.get(whose)];
        let file = [self.files.get(&(Whose::All, node)), self.files.get(&(whose.clone(), node))];
        whole.into_iter().flatten().copied().chain(file.into_iter().flatten().map(|(mark, _)| *mark))
    }

    /// Is a change of a file, recorded last at `lsn`, not accepted?
    #[must_use]
    pub fn is_pending(&self, whose: &Whose, node: NodeId, op: OpId, lsn: Lsn) -> bool {
        let within =
            |(first, end): &(Mark, Option<Mark>)| !first.covers(op, lsn) && end.is_none_or(|end| end.covers(op, lsn));
        self.spans.iter().any(within) && !self.accepted(whose, node).any(|mark| mark.covers(op, lsn))
    }

    /// Up to where the changes of a file are accepted.
    #[must_use]
    pub fn base(&self, whose: &Whose, node: NodeId) -> Mark {
        self.accepted(whose, node).max().or(self.floor()).unwrap_or(Mark::BEGINNING)
    }

    /// What is accepted of a file's content, where that is more than what was there at its base.
    #[must_use]
    pub fn content(&self, whose: &Whose, node: NodeId) -> Option<Hash> {
        let (mark, content) = self.files.get(&(whose.clone(), node))?;
        content.filter(|_| *mark >= self.base(whose, node))
    }

    /// Whose changes a rejection took back, if an operation was one.
    #[must_use]
    pub fn rejected(&self, op: OpId) -> Option<&Whose> {
        self.rejected.get(&op)
    }
}

impl Store {
    /// The moment that is now.
    pub fn now(&self) -> Mark {
        // Whatever is numbered and recorded between the two counts as later.
        let position = self.end_of_log();
        Mark { op: self.last_op(), position }
    }

    /// Records a step of a review. What it refers to has to be held.
    ///
    /// # Errors
    /// As `append`.
    pub fn review(&self, review: &Review) -> Result<()> {
        let lsn = self.put(RecordType::Review, &review.encode())?;
        self.settle(lsn)?;
        crash_point!("review-recorded");
        Ok(())
    }

    /// Where a view's review stands.
    ///
    /// # Errors
    /// `Index`.
    pub fn reviewed(&self, view: &str) -> Result<Reviewed> {
        self.index().ask(|index: &Reader| index.reviewed(view))
    }

    /// Operations that were recorded at or after a position, in order, with the positions of their last records.
    ///
    /// # Errors
    /// `Index`.
    pub fn recorded_from(&self, position: Lsn) -> Result<Vec<(OpId, Lsn)>> {
        self.index().ask(|index: &Reader| index.recorded_from(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(op: u64) -> Mark {
        Mark { op: OpId(op), position: Lsn(op * 10 + 5) }
    }

    fn step(step: ReviewStep, whose: &Whose, nodes: Option<&[u64]>, upto: u64) -> Review {
        Review {
            view: "v".into(),
            step,
            whose: whose.clone(),
            nodes: nodes.map(|nodes| nodes.iter().copied().map(NodeId).collect()),
            upto: mark(upto),
            content: None,
            time: Timestamp { secs: 1, nanos: 2 },
        }
    }

    fn after(steps: &[Review]) -> Reviewed {
        let mut reviewed = Reviewed::default();
        steps.iter().cloned().for_each(|step| reviewed.take(step));
        reviewed
    }

    /// Operation `n` is recorded at `10 n`.
    fn pending(reviewed: &Reviewed, whose: &Whose, node: u64) -> Vec<u64> {
        let is = |op: &u64| reviewed.is_pending(whose, NodeId(node), OpId(*op), Lsn(op * 10));
        (1..10).filter(is).collect()
    }

    #[test]
    fn a_record_comes_back() {
        for whose in [Whose::All, Whose::Shells, Whose::Session("s".into())] {
            for kind in [ReviewStep::Begins, ReviewStep::Ends, ReviewStep::Accepted, ReviewStep::Rejected] {
                let review = Review { content: Some(Hash([3; 32])), ..step(kind, &whose, Some(&[1, 7]), 4) };
                assert_eq!(Review::decode(&review.encode()).expect("whole"), review);
            }
        }
        assert!(ReviewStep::of(4).is_err() && Whose::from_parts(2, None).is_err());
    }

    #[test]
    fn what_is_accepted_of_one_is_pending_of_the_others() {
        let (a, b) = (Whose::Session("a".into()), Whose::Session("b".into()));
        let begun = step(ReviewStep::Begins, &Whose::All, None, 2);
        let check = |steps: &[Review], whose: &Whose, node, expected: &[u64]| {
            let steps: Vec<Review> = [begun.clone()].iter().chain(steps).cloned().collect();
            assert_eq!(pending(&after(&steps), whose, node), expected, "{steps:?} {whose:?} {node}");
        };
        check(&[], &a, 1, &[3, 4, 5, 6, 7, 8, 9]);
        let of_a = step(ReviewStep::Accepted, &a, None, 6);
        check(std::slice::from_ref(&of_a), &a, 1, &[7, 8, 9]);
        check(std::slice::from_ref(&of_a), &b, 1, &[3, 4, 5, 6, 7, 8, 9]);
        let file = step(ReviewStep::Accepted, &Whose::All, Some(&[1]), 7);
        check(&[of_a.clone(), file.clone()], &a, 1, &[8, 9]);
        check(&[of_a.clone(), file.clone()], &b, 1, &[8, 9]);
        check(&[of_a, file], &b, 2, &[3, 4, 5, 6, 7, 8, 9]);
        let ended = step(ReviewStep::Ends, &Whose::All, None, 5);
        check(std::slice::from_ref(&ended), &a, 1, &[3, 4, 5]);
        let again = step(ReviewStep::Begins, &Whose::All, None, 7);
        check(&[ended, again], &Whose::Shells, 1, &[3, 4, 5, 8, 9]);
    }

    #[test]
    fn what_is_recorded_again_after_it_was_accepted_is_pending_again() {
        let reviewed =
            after(&[step(ReviewStep::Begins, &Whose::All, None, 2), step(ReviewStep::Accepted, &Whose::All, None, 6)]);
        let is = |op, lsn| reviewed.is_pending(&Whose::Shells, NodeId(1), OpId(op), Lsn(lsn));
        assert_eq!([is(4, 40), is(4, 64), is(4, 65), is(4, 90)], [false, false, true, true]);
        assert_eq!(reviewed.floor(), Some(mark(6)));
    }

    #[test]
    fn a_content_is_the_base_until_more_is_accepted() {
        let a = Whose::Session("a".into());
        let part = Review { content: Some(Hash([9; 32])), ..step(ReviewStep::Accepted, &a, Some(&[1]), 2) };
        let mut reviewed = after(&[step(ReviewStep::Begins, &Whose::All, None, 2), part]);
        assert_eq!(reviewed.content(&a, NodeId(1)), Some(Hash([9; 32])));
        assert_eq!(pending(&reviewed, &a, 1), [3, 4, 5, 6, 7, 8, 9]);
        reviewed.take(step(ReviewStep::Accepted, &Whose::All, None, 5));
        assert_eq!(reviewed.content(&a, NodeId(1)), None);
    }
}
