//! Dropping history: by rule when it is old, by need when the store is full. What goes is said in the log first; only then
//! is its space given back, so that a crash leaves garbage and never a hole.

mod choose;
mod judge;
mod keeper;
mod pack;
mod relate;
mod space;

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::{
    Retention, Rule, Store, StoreError,
    error::failed,
    frame::RecordType,
    index::{Marker, Ref},
    trim::TrimRecord,
};
use crate::{
    crash_point,
    types::{Lsn, OpId, Timestamp},
};
use choose::Chosen;
pub use space::Share;

type Result<T> = std::result::Result<T, StoreError>;

/// What one record names at most: a step of the work.
const STEP: usize = 4096;
/// Operations that one step forgets.
const FORGET_STEP: usize = 2000;
/// Somebody who was told of a content refers to it within this time.
const GRACE: Duration = Duration::from_secs(600);
/// And when space is needed. Those who need longer hold a [`Hold`].
const GRACE_URGENT: Duration = Duration::from_secs(5);
/// So long one that begins to hold waits for a step, at most.
const GATE_WAIT: Duration = Duration::from_millis(3);
/// Answers of idempotent calls are kept so long.
const ANSWERS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What is known of what is kept.
///
/// Locks: `turn`, then `gate`, then those of the store.
pub(super) struct Keeping {
    pub(super) retention: RwLock<Retention>,
    /// Held for reading by those who refer to what is kept, from the look to the record.
    gate: RwLock<()>,
    /// One collection at a time. What it holds is remembered from one to the next.
    turn: Mutex<pack::Seen>,
    trimmed: AtomicBool,
    /// Bytes that the store takes, when they were last counted and appended since.
    used: AtomicU64,
    /// Bytes that it may take; 0 before that is known.
    quota: AtomicU64,
    refuses: AtomicBool,
    keeper: keeper::Keeper,
}

impl Keeping {
    pub fn new(trimmed: bool) -> Keeping {
        Keeping {
            retention: RwLock::default(),
            gate: RwLock::default(),
            turn: Mutex::default(),
            trimmed: AtomicBool::new(trimmed),
            used: AtomicU64::new(0),
            quota: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            keeper: keeper::Keeper::default(),
        }
    }

    /// Was anything ever dropped?
    pub fn has_trimmed(&self) -> bool {
        self.trimmed.load(Ordering::Acquire)
    }

    /// Keeps every collection out.
    pub fn turn(&self) -> impl Drop + use<'_> {
        self.turn.lock()
    }

    /// So many bytes were appended.
    pub fn appended(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Nothing is dropped while it lives: what was found in the store can be referred to.
pub struct Hold<'a> {
    _gate: RwLockReadGuard<'a, ()>,
}

/// What a collection did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GcReport {
    /// Versions that rules drop, by rule.
    pub versions: Vec<(Rule, u64)>,
    /// Contents dropped from the log.
    pub contents: u64,
    /// Files dropped from `aside/`.
    pub asides: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Operations forgotten with their rows.
    pub operations: u64,
    /// What is kept since nobody has accepted it yet.
    pub unreviewed: Unreviewed,
    /// Segments rewritten with what is left of them, or emptied.
    pub segments: u64,
    /// Contents that are kept as their difference to the next newer one now.
    pub deltas: u64,
    /// Bytes of the store before and after.
    pub used: (u64, u64),
    /// How long it took.
    pub took: Duration,
}

/// What reviews hold back from every rule, and from the quota.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unreviewed {
    /// Contents in the log and files aside.
    pub contents: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Views, and the first operation of each that is pending: none from there on is forgotten.
    pub since: Vec<(String, OpId)>,
}

/// What a collection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aim {
    /// The rules.
    Rules,
    /// To come down to so many bytes. What checkpoints hold goes only if `all`.
    Space { target: u64, all: bool },
}

impl Store {
    /// Keeps all that is in the store there, until it is dropped.
    pub fn hold(&self) -> Hold<'_> {
        Hold { _gate: self.keeping.gate.read_recursive() }
    }

    /// Drops what the rules drop, and gives its space back. `dry_run` only tells what would go.
    ///
    /// # Errors
    /// As `append`; `Index`.
    pub fn gc(&self, dry_run: bool) -> Result<GcReport> {
        let quota = self.quota()?;
        let used = self.used()?;
        let aim =
            if used > quota / 10 * 9 { Aim::Space { target: quota / 10 * 7, all: used > quota } } else { Aim::Rules };
        self.collect(aim, dry_run)
    }

    pub(super) fn collect(&self, aim: Aim, dry_run: bool) -> Result<GcReport> {
        let begun = Instant::now();
        let mut seen = self.keeping.turn.lock();
        let mut report = GcReport { used: (self.used()?, 0), ..GcReport::default() };
        self.index_caught_up()?;
        let chosen = self.choose(aim, report.used.0, &mut report)?;
        if !dry_run {
            report.bytes = 0;
            let since = match aim {
                Aim::Rules => begun.checked_sub(GRACE),
                Aim::Space { .. } => begun.checked_sub(GRACE_URGENT),
            };
            let since = since.unwrap_or(begun);
            self.keeping.blobs_told(self, since);
            self.drop_chosen(&chosen, since, &mut report)?;
            self.forget(&chosen, &mut report)?;
            let short = self.relate(&chosen.pairs, chosen.numbers, &mut report)?;
            self.pack(matches!(aim, Aim::Space { .. }), &short, &mut seen, &mut report)?;
        }
        report.used.1 = if dry_run { report.used.0.saturating_sub(report.bytes) } else { self.used()? };
        report.took = begun.elapsed();
        Ok(report)
    }

    fn choose(&self, aim: Aim, used: u64, report: &mut GcReport) -> Result<Chosen> {
        let marker = Marker::open(&self.path.join("index.db"))?;
        let retention = self.keeping.retention.read().clone();
        choose::choose(&marker, &retention, &self.aside_sizes()?, aim, used, report)
    }

    /// Says in the log what goes, a step at a time, and lets go of it when that is on disk.
    fn drop_chosen(&self, chosen: &Chosen, since: Instant, report: &mut GcReport) -> Result<()> {
        for (rule, dead) in &chosen.dead {
            for step in dead.chunks(STEP) {
                let Some(record) = self.say_trim(*rule, step, chosen, since)? else { continue };
                crash_point!("trim-appended");
                self.sync_all()?;
                crash_point!("trim-flushed");
                report.contents += record.blobs.len() as u64;
                report.bytes += freed(step, &record);
                for name in &record.asides {
                    self.unlink_aside(name)?;
                }
                crash_point!("trimmed-unlinked");
                report.asides += record.asides.len() as u64;
            }
        }
        Ok(())
    }

    fn unlink_aside(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.aside, name, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(&self.path.join("aside").join(name), error.into())),
        }
    }

    /// Appends one TRIM of what nobody refers to since it was chosen. None if nothing is left of it.
    fn say_trim(&self, rule: Rule, step: &[Dead], chosen: &Chosen, since: Instant) -> Result<Option<TrimRecord>> {
        // Most of the waiting is done before anybody is kept out.
        self.index_caught_up()?;
        let _closed = loop {
            match self.keeping.gate.try_write_for(GATE_WAIT) {
                Some(closed) => break closed,
                None => std::thread::sleep(GATE_WAIT),
            }
        };
        self.index_caught_up()?;
        let again = self.indexer.ask_now(|index| index.refs_after(chosen.last_ref))?;
        let mut record = TrimRecord::new(rule, self.last_op(), chosen.numbers);
        let mut blobs = Vec::new();
        for dead in step.iter().filter(|dead| !again.contains(&dead.what)) {
            match &dead.what {
                Ref::Blob(start) => blobs.push((dead.lsn, *start)),
                Ref::Aside(name) => record.asides.push(name.clone()),
            }
        }
        self.keeping.trimmed.store(true, Ordering::Release);
        record.blobs = self.blobs.remove(&blobs, since);
        if record.blobs.is_empty() && record.asides.is_empty() {
            return Ok(None);
        }
        if let Err(error) = self.put_trim(&record) {
            self.blobs.restore(&record.blobs);
            return Err(error);
        }
        Ok(Some(record))
    }

    /// A TRIM frees space, so it may take what is kept in reserve.
    pub(super) fn put_trim(&self, record: &TrimRecord) -> Result<()> {
        self.put_last(RecordType::Trim, &record.encode(), |_| {}).map(drop)
    }

    /// Forgets old operations with their rows, a step at a time.
    fn forget(&self, chosen: &Chosen, report: &mut GcReport) -> Result<()> {
        let Some((rule, ops)) = &chosen.forgotten else { return Ok(()) };
        let actors = self.actors.retire();
        let retired = self.keeping.keeper.retired(actors);
        for step in ops.chunks(FORGET_STEP) {
            let Some(last) = step.last() else { continue };
            let mut record = TrimRecord::new(*rule, self.last_op(), chosen.numbers);
            record.horizon = *last;
            record.answers = chosen.answers;
            record.actors = retired;
            self.put_trim(&record)?;
            crash_point!("forgetting-appended");
            self.sync_all()?;
            report.operations += step.len() as u64;
            self.index_caught_up()?;
        }
        Ok(())
    }

    /// The last operation that was forgotten with its rows, when and by which rule; none if the history is whole.
    ///
    /// # Errors
    /// `Index`.
    pub fn horizon(&self) -> Result<Option<(OpId, super::Trim)>> {
        if !self.keeping.has_trimmed() {
            return Ok(None);
        }
        self.indexer.ask(super::index::Reader::horizon)
    }

    /// What was dropped so far, by rule: contents that rows still tell of, and the last time.
    ///
    /// # Errors
    /// `Index`.
    pub fn dropped_so_far(&self) -> Result<Vec<(Rule, u64, Timestamp)>> {
        self.indexer.ask(super::index::Reader::dropped)
    }
}

#[cfg(test)]
impl Keeping {
    /// As if all who were told of a content had been told long ago.
    pub fn told_long_ago(&self, store: &Store) {
        store.blobs.forget_told(Instant::now());
    }
}

impl Keeping {
    fn blobs_told(&self, store: &Store, since: Instant) {
        store.blobs.forget_told(since);
    }
}

/// Something that goes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Dead {
    what: Ref,
    size: u64,
    /// Of a content in the log.
    lsn: Lsn,
}

/// Bytes of what a record names.
fn freed(step: &[Dead], record: &TrimRecord) -> u64 {
    let blobs: HashSet<Lsn> = record.blobs.iter().map(|(lsn, _)| *lsn).collect();
    let asides: HashSet<&String> = record.asides.iter().collect();
    let gone = |dead: &&Dead| match &dead.what {
        Ref::Blob(_) => blobs.contains(&dead.lsn),
        Ref::Aside(name) => asides.contains(name),
    };
    step.iter().filter(gone).map(|dead| dead.size).sum()
}

/// Sizes by reference.
type Sizes = HashMap<Ref, u64>;
