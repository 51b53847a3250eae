//! `info`: what this view shows, allows and bounds.

use std::time::{Duration, Instant};

use control_api::{
    ToolError,
    tools::{CountsInfo, InfoArgs, InfoResult, LimitsInfo, PolicyInfo, SourceInfo, StoreInfo, SystemInfo},
};

use super::{AccessGroup, Answer, bounds, diff, errors, find, given::wide, history, list, native::Call, read, search};
use crate::{
    types::{Kind, Timestamp, ViewPath},
    versions::{Durability, Mode, OnFull, StoreError},
    view::{Source, View, WalkControl, WalkOptions},
};

/// How long entries are counted.
const COUNT_TIME: Duration = Duration::from_millis(100);
/// Bytes of a file that tools can change.
const WRITE_MAX: u64 = 64 << 20;

/// Answers the call.
pub(super) fn run(call: &Call<'_>, _: &InfoArgs) -> Result<Answer, ToolError> {
    let view = call.view;
    let store = view.core().store();
    let of_store = |error: StoreError| errors::of(error.into());
    let (stats, retention) = (store.stats().map_err(of_store)?, store.retention());
    let until = Instant::now() + COUNT_TIME;
    let result = InfoResult {
        view: view.name().into(),
        roots: view.root_names().iter().map(|root| String::from_utf8_lossy(root).into_owned()).collect(),
        sources: view.sources().iter().map(|source| told(view, source, until)).collect(),
        policy: policy(call),
        limits: limits(),
        profile: call.native.settings.profile.clone(),
        store: StoreInfo {
            operations: stats.operations,
            versions: stats.versions,
            log_bytes: stats.log_bytes,
            aside_bytes: stats.aside_bytes,
            used_bytes: store.last_used(),
            quota_bytes: store.quota().map_err(of_store)?,
            on_full: match retention.on_full {
                OnFull::DropOldest => "drop_oldest".into(),
                OnFull::Refuse => "refuse".into(),
            },
            days: retention.age.as_secs() / (24 * 60 * 60),
            durability: match store.durability() {
                Durability::Strict => "strict".into(),
                Durability::Relaxed => "relaxed".into(),
            },
            stopped: store.poisoned(),
        },
        system: SystemInfo {
            os: std::env::consts::OS.into(),
            arch: std::env::consts::ARCH.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            time: Timestamp::now().rfc3339(),
        },
    };
    Ok(Answer::new(rendered(&result), &result))
}

/// What the view shows of a source, counted for as long as there is time.
fn counts(view: &View, source: &Source, until: Instant) -> CountsInfo {
    let mut counts = CountsInfo::default();
    let options =
        WalkOptions { depth: usize::MAX, hidden: true, ignored: true, traversal: None, attrs: false, after: None };
    let Some(root) = view.place(source.id, &ViewPath::root()) else { return counts };
    let walk = view.walk(&root, &options, &mut |entry| {
        match entry.kind {
            Kind::Dir => counts.directories += 1,
            Kind::File | Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                counts.files += 1;
            }
        }
        if Instant::now() < until { WalkControl::Continue } else { WalkControl::Stop }
    });
    counts.at_least = walk.map_or(true, |walked| walked.stopped || !walked.warnings.is_empty());
    counts
}

fn told(view: &View, source: &Source, until: Instant) -> SourceInfo {
    let versioning = match (source.mode, source.reflink) {
        (Mode::Linked, true) => "reflink",
        (Mode::Linked, false) => "linked",
        (Mode::Copying, _) => "copying",
    };
    SourceInfo {
        name: source.name.to_string(),
        state: match source.root.attr() {
            Ok(_) => "ok".into(),
            Err(error) => error.to_string(),
        },
        access: if source.read_only { "read".into() } else { "write".into() },
        file_system: source.fs.caps().fs_type.clone(),
        versioning: versioning.into(),
        counts: counts(view, source, until),
        freshness: source.freshness().into(),
    }
}

/// In words that name no pattern: one that hides a name would give it away.
fn policy(call: &Call<'_>) -> PolicyInfo {
    let (policy, settings) = (call.view.policy(), &call.native.settings);
    // The root of several sources is never changed itself, so the view's own class of it says nothing.
    let root = policy.class(&ViewPath::root(), true);
    let read_only = call.view.sources().iter().all(|source| source.read_only)
        || (policy.is_uniform() && root.is_some_and(|class| class.read_only));
    let mut words = Vec::new();
    words.push(if read_only {
        "nothing can be changed here".to_owned()
    } else if policy.is_uniform() {
        "everything that is shown can be read and changed".to_owned()
    } else {
        "some paths are hidden, read-only or kept without history; stat tells what is allowed at a path".to_owned()
    });
    if settings.require_hash {
        words.push("changes of existing files want expected_hash, which read gives".into());
    }
    if root.is_some_and(|class| class.unversioned) {
        words.push("no old contents are kept, so changes cannot be taken back".into());
    }
    let group = |group: &AccessGroup| group.word().to_owned();
    PolicyInfo {
        features: settings.features.iter().map(group).collect(),
        require_hash: settings.require_hash,
        read_only,
        words,
    }
}

fn limits() -> LimitsInfo {
    LimitsInfo {
        read_files: wide(read::FILES_MAX),
        read_bytes: read::BYTES_MAX,
        list_entries: list::LIMIT_MAX,
        find_paths: find::LIMIT_MAX,
        search_matches: search::LIMIT_MAX,
        history_operations: history::LIMIT_MAX,
        diff_chars: wide(diff::CHARS_MAX),
        walk_seconds: bounds::WALK_TIME.as_secs(),
        write_bytes: WRITE_MAX,
    }
}

fn rendered(result: &InfoResult) -> String {
    let mut text = format!("view {} ({})", result.view, result.roots.join(", "));
    for source in &result.sources {
        let counts = &source.counts;
        let least = if counts.at_least { "at least " } else { "" };
        text += &format!("\nsource {}: {}, {}, {}", source.name, source.access, source.file_system, source.state);
        text += &format!(", {least}{} files, {} directories", counts.files, counts.directories);
    }
    for word in &result.policy.words {
        text += &format!("\npolicy: {word}");
    }
    text += &format!("\ntools: {} ({})", result.policy.features.join(", "), result.profile);
    text += &format!(
        "\nhistory: {} operations, {} of {} bytes, {}",
        result.store.operations, result.store.used_bytes, result.store.quota_bytes, result.store.durability
    );
    text + &format!("\nwardfs {} on {} {}", result.system.version, result.system.os, result.system.arch)
}
