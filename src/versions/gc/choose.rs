//! Which contents and operations go: what the rules drop, and where space is needed the least needed of the rest.

use std::collections::{BTreeMap, HashMap};

use super::{
    ANSWERS, Aim, Dead, GcReport, Result, Sizes, Unreviewed,
    judge::{Judge, Standing, Tier},
    relate::{self, Pair},
};
use crate::{
    types::{Lsn, OpId, Timestamp},
    versions::{
        Retention, Rule,
        index::{Kept, Marker, Ref},
        trim::RULES,
    },
};

/// The newest operations stay, whatever space is needed.
const NEWEST: usize = if cfg!(test) { 10 } else { 200 };
/// Bytes of an operation's records and rows, about.
const OPERATION: u64 = 1000;

/// What goes.
pub(super) struct Chosen {
    /// References that were recorded later have higher numbers than this.
    pub last_ref: i64,
    /// The highest numbers given.
    pub numbers: (u64, u64),
    pub dead: Vec<(Rule, Vec<Dead>)>,
    /// Operations, oldest first, none left out.
    pub forgotten: Option<(Rule, Vec<OpId>)>,
    /// Contents that may be kept as a difference.
    pub pairs: Vec<Pair>,
    /// Answers before this position are old enough to go.
    pub answers: Lsn,
}

/// A content that could go.
struct Candidate {
    dead: Dead,
    standing: Standing,
}

pub(super) fn choose(
    marker: &Marker,
    retention: &Retention,
    asides: &HashMap<String, u64>,
    aim: Aim,
    used: u64,
    report: &mut GcReport,
) -> Result<Chosen> {
    let now = Timestamp::now().as_nanos();
    let blobs = marker.blobs()?;
    let mut sizes: Sizes = asides.iter().map(|(name, size)| (Ref::Aside(name.clone()), *size)).collect();
    sizes.extend(blobs.iter().map(|blob| (Ref::Blob(blob.start), blob.size)));
    let mut judge = Judge {
        retention,
        now,
        sessions: marker.sessions()?,
        checkpoints: marker.checkpoints()?,
        reviewing: marker.reviewing()?,
        unreviewed: BTreeMap::new(),
        sizes,
        found: HashMap::new(),
        versions: HashMap::new(),
        neighbours: Vec::new(),
    };
    marker.nodes(&mut |turns| judge.node(&turns))?;
    for root in marker.roots()? {
        judge.root(root);
    }
    raise_bases(&blobs, &mut judge.found);
    let mut all = candidates(&blobs, marker.asides()?, &judge);
    report.unreviewed = held(&all, &judge.unreviewed);
    bound_short(&mut all, retention.short_bytes);
    if let Aim::Space { target, all: pinned } = aim {
        let gone: u64 = all.iter().filter(|c| c.standing.tier == Tier::Dropped).map(|c| c.dead.size).sum();
        press(&mut all, (used - gone.min(used)).saturating_sub(target), pinned);
        spare_bases(&blobs, &mut all);
    }
    let mut dead: BTreeMap<Rule, Vec<Dead>> = BTreeMap::new();
    for candidate in all.into_iter().filter(|candidate| candidate.standing.tier == Tier::Dropped) {
        report.bytes += candidate.dead.size;
        dead.entry(candidate.standing.rule).or_default().push(candidate.dead);
    }
    report.versions = RULES.iter().filter_map(|rule| Some((*rule, *judge.versions.get(rule)?))).collect();
    let pairs = relate::pairs(&blobs, &judge.found, &judge.neighbours);
    let left = used.saturating_sub(report.bytes);
    Ok(Chosen {
        pairs,
        last_ref: marker.last_ref()?,
        numbers: marker.numbers()?,
        forgotten: forgotten(marker, retention, &judge, aim, left)?,
        answers: marker.position_at(before(now, ANSWERS))?,
        dead: dead.into_iter().collect(),
    })
}

fn before(now: i64, span: std::time::Duration) -> i64 {
    now.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

/// What another content is the difference to is kept as well as that one.
fn raise_bases(blobs: &[Kept], found: &mut HashMap<Ref, Standing>) {
    let bases: HashMap<u64, u64> = blobs.iter().filter_map(|blob| Some((blob.start, blob.base?))).collect();
    for start in bases.keys() {
        let Some(standing) = found.get(&Ref::Blob(*start)).copied() else { continue };
        for base in chain(&bases, *start) {
            let other = found.entry(Ref::Blob(base)).or_insert(standing);
            *other = (*other).max(standing);
        }
    }
}

/// The bases of a content, one after the other.
fn chain(bases: &HashMap<u64, u64>, start: u64) -> impl Iterator<Item = u64> {
    let links = crate::versions::blob::CHAIN_MAX + 1;
    std::iter::successors(bases.get(&start), |base| bases.get(base)).take(links).copied()
}

fn candidates(blobs: &[Kept], asides: Vec<String>, judge: &Judge<'_>) -> Vec<Candidate> {
    let unused = Standing { tier: Tier::Dropped, time: 0, rule: Rule::Unused };
    let standing = |found: &Ref| judge.found.get(found).copied().unwrap_or(unused);
    let mut all = Vec::with_capacity(blobs.len() + asides.len());
    for blob in blobs {
        let what = Ref::Blob(blob.start);
        let standing = standing(&what);
        all.push(Candidate { standing, dead: Dead { what, size: blob.size, lsn: blob.lsn } });
    }
    for name in asides {
        let what = Ref::Aside(name);
        let size = judge.sizes.get(&what).copied().unwrap_or(0);
        all.push(Candidate { standing: standing(&what), dead: Dead { what, size, lsn: Lsn(0) } });
    }
    all
}

/// What reviews keep from being dropped.
fn held(all: &[Candidate], first: &BTreeMap<String, OpId>) -> Unreviewed {
    let held = all.iter().filter(|candidate| candidate.standing.tier == Tier::Unreviewed);
    let bytes = |(contents, bytes), candidate: &Candidate| (contents + 1, bytes + candidate.dead.size);
    let (contents, bytes) = held.fold((0, 0), bytes);
    Unreviewed { contents, bytes, since: first.iter().map(|(view, op)| (view.clone(), *op)).collect() }
}

/// Of what is kept shortly only so much is kept.
fn bound_short(all: &mut [Candidate], most: u64) {
    let mut short: Vec<&mut Candidate> = all.iter_mut().filter(|c| c.standing.tier == Tier::Short).collect();
    short.sort_by_key(|candidate| std::cmp::Reverse(candidate.standing.time));
    let mut sum = 0;
    for candidate in short {
        sum += candidate.dead.size;
        if sum > most {
            (candidate.standing.tier, candidate.standing.rule) = (Tier::Dropped, Rule::Short);
        }
    }
}

/// Drops what is needed least, until so much more is free.
fn press(all: &mut [Candidate], mut needed: u64, pinned: bool) {
    let last = if pinned { Tier::Pinned } else { Tier::Plain };
    let mut order: Vec<&mut Candidate> =
        all.iter_mut().filter(|c| c.standing.tier > Tier::Dropped && c.standing.tier <= last).collect();
    order.sort_by_key(|candidate| candidate.standing);
    for candidate in order {
        if needed == 0 {
            return;
        }
        needed = needed.saturating_sub(candidate.dead.size);
        (candidate.standing.tier, candidate.standing.rule) = (Tier::Dropped, Rule::Quota);
    }
}

/// What a content that stays is the difference to stays.
fn spare_bases(blobs: &[Kept], all: &mut [Candidate]) {
    let bases: HashMap<u64, u64> = blobs.iter().filter_map(|blob| Some((blob.start, blob.base?))).collect();
    let stays = |candidate: &&Candidate| candidate.standing.tier > Tier::Dropped;
    let needed: std::collections::HashSet<u64> = all
        .iter()
        .filter(stays)
        .filter_map(|candidate| match candidate.dead.what {
            Ref::Blob(start) => Some(start),
            Ref::Aside(_) => None,
        })
        .flat_map(|start| chain(&bases, start))
        .collect();
    for candidate in all {
        if matches!(candidate.dead.what, Ref::Blob(start) if needed.contains(&start)) {
            candidate.standing.tier = Tier::Plain;
        }
    }
}

/// The operations that go with their rows: a beginning of the history, without what checkpoints, open files and
/// unfinished operations need.
fn forgotten(
    marker: &Marker,
    retention: &Retention,
    judge: &Judge<'_>,
    aim: Aim,
    left: u64,
) -> Result<Option<(Rule, Vec<OpId>)>> {
    let first_needed = judge.checkpoints.first().copied();
    let oldest = before(judge.now, retention.age.max(retention.sessions).max(retention.full));
    let mut finished = marker.finished(OpId(0), u64::from(u32::MAX))?;
    // What is pending, and all after it, stays whatever space is needed.
    let pending = judge.unreviewed.values().min().copied();
    finished.truncate(finished.partition_point(|(op, _)| pending.is_none_or(|first| *op < first)));
    let old = finished.iter().take_while(|(op, time)| *time < oldest && first_needed.is_none_or(|c| *op <= c)).count();
    let mut count = old;
    let mut rule = Rule::Age;
    if let Aim::Space { target, all } = aim {
        let needed = usize::try_from(left.saturating_sub(target) / OPERATION).unwrap_or(usize::MAX);
        let may = finished.len().saturating_sub(NEWEST);
        let may = match first_needed {
            Some(point) if !all => may.min(finished.partition_point(|(op, _)| *op <= point)),
            Some(_) | None => may,
        };
        if needed.min(may) > old {
            (count, rule) = (needed.min(may), Rule::Quota);
        }
    }
    let ops: Vec<OpId> = finished.into_iter().take(count).map(|(op, _)| op).collect();
    Ok((!ops.is_empty()).then_some((rule, ops)))
}
