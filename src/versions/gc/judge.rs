//! What the rules say of each version of a file. Nothing here looks at the disk.

use std::collections::{BTreeMap, HashMap};

use crate::{
    types::OpId,
    versions::{
        ChangeKind, Retention, Rule, Whose,
        codec::change_kind_code,
        index::{Ref, Reviewing, Turn},
    },
};

/// How well a content is kept; the last that is left goes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tier {
    /// A rule says that it goes.
    Dropped,
    /// Kept shortly, and the first to go when space is needed.
    Short,
    /// A copy of what the file itself has.
    Copy,
    /// A version.
    Plain,
    /// As it was at a checkpoint.
    Pinned,
    /// What nobody has accepted yet, or what it was before that.
    Unreviewed,
    /// Needed to finish something.
    Root,
}

/// What became of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Standing {
    pub tier: Tier,
    /// Of those of one tier the oldest goes first (nanoseconds).
    pub time: i64,
    /// Why it goes, if it does.
    pub rule: Rule,
}

/// What the rules need to know.
pub(super) struct Judge<'a> {
    pub retention: &'a Retention,
    /// In nanoseconds.
    pub now: i64,
    pub sessions: HashMap<u32, usize>,
    /// Rising.
    pub checkpoints: Vec<OpId>,
    pub reviewing: Reviewing,
    /// The first operation that is pending, of each view.
    pub unreviewed: BTreeMap<String, OpId>,
    pub sizes: HashMap<Ref, u64>,
    pub found: HashMap<Ref, Standing>,
    /// Versions that are gone now, by rule.
    pub versions: HashMap<Rule, u64>,
    /// Contents of neighbouring versions, the older first; of each file the newest first.
    pub neighbours: Vec<(u64, u64)>,
}

fn changes_content(kind: u8) -> bool {
    [ChangeKind::Create, ChangeKind::Write, ChangeKind::Remove].into_iter().any(|k| change_kind_code(k) == kind)
}

/// One version of a file: its state after the `at`-th operation, the state before the first being the 0th.
struct Version {
    refs: Vec<Ref>,
    standing: Standing,
    /// It stands there now.
    current: bool,
}

impl Judge<'_> {
    /// Judges all versions of one file.
    pub fn node(&mut self, turns: &[Turn]) {
        self.note_pending(turns);
        let mut versions: Vec<Version> = (0..=turns.len()).map(|at| self.version(turns, at)).collect();
        self.base(turns, &mut versions);
        self.per_file(&mut versions);
        let blob = |version: &Version| {
            version.refs.iter().find_map(|found| match found {
                Ref::Blob(start) => Some(*start),
                Ref::Aside(_) => None,
            })
        };
        let blobs: Vec<u64> = versions.iter().filter(|v| v.standing.tier > Tier::Dropped).filter_map(blob).collect();
        self.neighbours.extend(blobs.windows(2).rev().filter(|pair| pair[0] != pair[1]).map(|pair| (pair[0], pair[1])));
        for version in versions {
            let gone = version.standing.tier == Tier::Dropped && !version.current;
            if gone && version.refs.iter().any(|found| self.sizes.contains_key(found)) {
                *self.versions.entry(version.standing.rule).or_default() += 1;
            }
            for found in version.refs {
                let standing = self.found.entry(found).or_insert(version.standing);
                *standing = (*standing).max(version.standing);
            }
        }
    }

    /// A content that must stay.
    pub fn root(&mut self, found: Ref) {
        let standing = Standing { tier: Tier::Root, time: self.now, rule: Rule::Unused };
        self.found.insert(found, standing);
    }

    fn version(&self, turns: &[Turn], at: usize) -> Version {
        let mut refs = if at > 0 { turns[at - 1].after.clone() } else { Vec::new() };
        // Where nothing says where the content is, what comes next does, as long as the content stays the same.
        for turn in &turns[at..] {
            refs.extend_from_slice(&turn.before);
            if !refs.is_empty() || changes_content(turn.kind) {
                break;
            }
            refs.extend_from_slice(&turn.after);
        }
        let superseded = turns[at..].iter().find(|turn| changes_content(turn.kind)).map(|turn| turn.time);
        let made = if at > 0 { turns[at - 1].time } else { i64::MIN };
        let path = &turns[at.saturating_sub(1).min(turns.len() - 1)].path;
        let short = self.retention.is_short(path);
        let time = superseded.unwrap_or(made);
        let standing = |tier, rule| Standing { tier, time, rule };
        let standing = match superseded {
            _ if self.is_unreviewed(turns, at) => standing(Tier::Unreviewed, Rule::Age),
            None if short => standing(Tier::Short, Rule::Short),
            None if self.age_of(made) < self.retention.full.as_nanos() => standing(Tier::Plain, Rule::Age),
            None => standing(Tier::Copy, Rule::Age),
            Some(_) if self.is_pinned(turns, at) => standing(Tier::Pinned, Rule::Age),
            Some(time) => {
                let (tier, rule) = self.by_age(turns, at, short, self.age_of(time));
                standing(tier, rule)
            }
        };
        Version { refs, standing, current: superseded.is_none() }
    }

    fn age_of(&self, time: i64) -> u128 {
        u128::try_from(i128::from(self.now) - i128::from(time)).unwrap_or(0)
    }

    fn by_age(&self, turns: &[Turn], at: usize, short: bool, age: u128) -> (Tier, Rule) {
        let keep = self.retention;
        if short {
            let tier = if age < keep.short_age.as_nanos() { Tier::Short } else { Tier::Dropped };
            return (tier, Rule::Short);
        }
        if age < keep.full.as_nanos() {
            return (Tier::Plain, Rule::Age);
        }
        if age >= keep.age.as_nanos().max(keep.sessions.as_nanos()) {
            return (Tier::Dropped, Rule::Age);
        }
        // The state before the first operation is nobody's.
        let Some(own) = at.checked_sub(1).map(|turn| self.session(&turns[turn])) else {
            return (Tier::Plain, Rule::Age);
        };
        let last = turns[at..].iter().all(|turn| self.session(turn) != own);
        let first = turns[..at - 1].iter().all(|turn| self.session(turn) != own);
        let kept = if age < keep.sessions.as_nanos() { first || last } else { last };
        (if kept { Tier::Plain } else { Tier::Dropped }, Rule::Thinned)
    }

    fn session(&self, turn: &Turn) -> Option<usize> {
        self.sessions.get(&turn.actor).copied()
    }

    fn pending(&self, turn: &Turn) -> Option<&(String, Whose)> {
        self.reviewing.pending(turn.actor, turn.node, turn.op, turn.lsn)
    }

    fn note_pending(&mut self, turns: &[Turn]) {
        for turn in turns {
            let Some((view, _)) = self.pending(turn).cloned() else { continue };
            let first = self.unreviewed.entry(view).or_insert(turn.op);
            *first = (*first).min(turn.op);
        }
    }

    /// Does a run of pending changes, all of one session, begin or end with it? What lies within is not needed to take the
    /// whole run back.
    fn is_unreviewed(&self, turns: &[Turn], at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|turn| self.pending(&turns[turn]));
        let after = turns.get(at).and_then(|turn| self.pending(turn));
        before != after
    }

    /// Is it what stood there at a checkpoint?
    fn is_pinned(&self, turns: &[Turn], at: usize) -> bool {
        let from = at.checked_sub(1).map_or(OpId(0), |turn| turns[turn].op);
        let first = self.checkpoints.partition_point(|point| *point < from);
        self.checkpoints.get(first).is_some_and(|point| turns.get(at).is_none_or(|next| *point < next.op))
    }

    /// The state in which a file was first seen stays while any later version does.
    fn base(&self, turns: &[Turn], versions: &mut [Version]) {
        if self.retention.is_short(&turns[0].path) || versions[0].current || versions[0].standing.tier >= Tier::Pinned {
            return;
        }
        let age = self.retention.age.as_nanos();
        let later = versions[1..].iter().filter(|version| {
            version.standing.tier > Tier::Copy
                || (version.standing.tier == Tier::Copy && self.age_of(version.standing.time) < age)
        });
        if let Some(time) = later.map(|version| version.standing.time).max() {
            let standing = &mut versions[0].standing;
            (standing.tier, standing.time) = (Tier::Plain, standing.time.max(time));
        }
    }

    /// Of a file whose history is too large the oldest versions go.
    fn per_file(&self, versions: &mut [Version]) {
        let Some(most) = self.retention.per_file else { return };
        let mut seen = std::collections::HashSet::new();
        let mut sum = 0;
        for version in versions.iter_mut().rev() {
            let refs = version.refs.iter().filter(|found| seen.insert((*found).clone()));
            sum += refs.filter_map(|found| self.sizes.get(found)).sum::<u64>();
            let standing = &mut version.standing;
            if sum > most && matches!(standing.tier, Tier::Short | Tier::Plain) && !version.current {
                (standing.tier, standing.rule) = (Tier::Dropped, Rule::PerFile);
            }
        }
    }
}
