//! What was dropped from the history: by which rule, when, and the record that says so.

use std::fmt;

use minicbor::{Decode, Encode, bytes::ByteVec};

use super::{Loss, StoreError};
use crate::types::{Lsn, OpId, Timestamp};

/// Bytes of one content in a record: its position, and the start of its hash.
const PAIR: usize = 16;

/// Why something was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// It was older than all that is kept.
    Age,
    /// One of many of its session: the first and the last of them are kept longer.
    Thinned,
    /// Its path is of the class that is kept for a short time.
    Short,
    /// The file's own history was too large.
    PerFile,
    /// The store was nearly full, or the disk.
    Quota,
    /// Nothing in the history refers to it.
    Unused,
}

/// When and why something was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Trim {
    /// When.
    pub time: Timestamp,
    /// By which rule.
    pub rule: Rule,
}

/// The rules, by number in the log.
pub(super) const RULES: [Rule; 6] = [Rule::Age, Rule::Thinned, Rule::Short, Rule::PerFile, Rule::Quota, Rule::Unused];

impl Rule {
    /// The word that rows and answers use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Rule::Age => "age",
            Rule::Thinned => "thinned",
            Rule::Short => "short",
            Rule::PerFile => "per_file",
            Rule::Quota => "quota",
            Rule::Unused => "unused",
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Rule::Age => 0,
            Rule::Thinned => 1,
            Rule::Short => 2,
            Rule::PerFile => 3,
            Rule::Quota => 4,
            Rule::Unused => 5,
        }
    }

    pub(super) fn of(code: u8) -> Result<Rule, StoreError> {
        let unknown = || StoreError::Damaged(format!("a record has an unknown rule: {code}"));
        RULES.get(usize::from(code)).copied().ok_or_else(unknown)
    }
}

impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trimmed {} by rule `{}`", self.time.rfc3339(), self.rule.word())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Loss::Trimmed(trim) = self { trim.fmt(f) } else { f.write_str(self.word()) }
    }
}

/// TRIM: from here on these are gone, and their space may be given back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TrimRecord {
    pub trim: Trim,
    /// Operations up to here are forgotten with their rows (0 for none).
    pub horizon: OpId,
    /// The last operation when this was written: none after it means what this names.
    pub upto: OpId,
    /// The highest numbers given so far.
    pub numbers: (u64, u64),
    /// Contents in the log: where they are, and the starts of their hashes.
    pub blobs: Vec<(Lsn, u64)>,
    /// Files aside.
    pub asides: Vec<String>,
    /// Answers before this position are forgotten.
    pub answers: Lsn,
    /// Actors below this number are forgotten, if no operation names them.
    pub actors: u32,
    /// Contents that will be kept as their difference to another: where, the start of that one's hash, and their new size.
    pub deltas: Vec<(Lsn, u64, u32)>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Wire {
    #[n(0)]
    time: (i64, u32),
    #[n(1)]
    rule: u8,
    #[n(2)]
    horizon: u64,
    #[n(3)]
    upto: u64,
    #[n(4)]
    numbers: (u64, u64),
    #[n(5)]
    blobs: ByteVec,
    #[n(6)]
    asides: Vec<String>,
    #[n(7)]
    answers: u64,
    #[n(8)]
    actors: u32,
    #[n(9)]
    deltas: Option<Vec<(u64, u64, u32)>>,
}

impl TrimRecord {
    /// One that says nothing yet.
    pub fn new(rule: Rule, upto: OpId, numbers: (u64, u64)) -> TrimRecord {
        TrimRecord {
            trim: Trim { time: Timestamp::now(), rule },
            horizon: OpId(0),
            upto,
            numbers,
            blobs: Vec::new(),
            asides: Vec::new(),
            answers: Lsn(0),
            actors: 0,
            deltas: Vec::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut blobs = Vec::with_capacity(self.blobs.len() * PAIR);
        for (lsn, start) in &self.blobs {
            blobs.extend_from_slice(&lsn.0.to_le_bytes());
            blobs.extend_from_slice(&start.to_le_bytes());
        }
        let wire = Wire {
            time: (self.trim.time.secs, self.trim.time.nanos),
            rule: self.trim.rule.code(),
            horizon: self.horizon.0,
            upto: self.upto.0,
            numbers: self.numbers,
            blobs: blobs.into(),
            asides: self.asides.clone(),
            answers: self.answers.0,
            actors: self.actors,
            deltas: Some(self.deltas.iter().map(|(lsn, base, size)| (lsn.0, *base, *size)).collect()),
        };
        minicbor::to_vec(wire).expect("encoding into memory cannot fail")
    }

    pub fn decode(payload: &[u8]) -> Result<TrimRecord, StoreError> {
        let wire: Wire = minicbor::decode(payload)
            .map_err(|error| StoreError::Damaged(format!("a record cannot be read: {error}")))?;
        let pair = |pair: &[u8]| Some((Lsn(super::frame::long(pair, 0)?), super::frame::long(pair, 8)?));
        let blobs = wire.blobs.chunks(PAIR).map(pair).collect::<Option<_>>();
        Ok(TrimRecord {
            trim: Trim { time: Timestamp { secs: wire.time.0, nanos: wire.time.1 }, rule: Rule::of(wire.rule)? },
            horizon: OpId(wire.horizon),
            upto: OpId(wire.upto),
            numbers: wire.numbers,
            blobs: blobs.ok_or_else(|| StoreError::Damaged("a record has half a content".into()))?,
            asides: wire.asides,
            answers: Lsn(wire.answers),
            actors: wire.actors,
            deltas: wire.deltas.unwrap_or_default().into_iter().map(|(at, base, size)| (Lsn(at), base, size)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back() {
        for rule in RULES {
            let record = TrimRecord {
                horizon: OpId(5),
                blobs: vec![(Lsn(8), u64::MAX), (Lsn(1 << 40), 3)],
                asides: vec!["1-2-3".into()],
                answers: Lsn(77),
                actors: 9,
                deltas: vec![(Lsn(16), 5, 6)],
                ..TrimRecord::new(rule, OpId(6), (7, 8))
            };
            assert_eq!(TrimRecord::decode(&record.encode()).expect("whole"), record);
        }
        assert!(Rule::of(6).is_err());
    }
}
