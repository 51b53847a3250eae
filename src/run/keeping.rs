//! What a config says of a store's history, as the store takes it; and the human's commands on a store, whether a daemon
//! has it or not.

use std::{io::Write, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{Result, RunError};

use crate::{
    config::KeepConfig,
    versions::{GcReport, OnFull, Retention, Share, Store, StoreError, StoreOptions, Unreviewed, VerifyReport},
};

/// The config that a store was last served with, in its directory: for those who open it without a daemon.
const REMEMBERED: &str = "keep.json";

/// Writes down what a store's config says.
pub(super) fn remember(store: &Path, keep: &KeepConfig) {
    let text = serde_json::to_string(keep).unwrap_or_default();
    let (new, path) = (store.join("keep.json.new"), store.join(REMEMBERED));
    // Without it a command that finds no daemon keeps what it would by default, and says so.
    let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
}

/// Opens a store that no daemon has, with the rules it was last served with.
///
/// # Errors
/// There is none; a daemon has it; the store's.
pub fn open_store(path: &Path) -> Result<Arc<Store>> {
    if !path.join("FORMAT").is_file() {
        return Err(RunError::on(path.display(), "there is no store here; name one with --store DIR"));
    }
    let store = Store::open(path, &StoreOptions::default()).map_err(|e| RunError(e.to_string()))?;
    let keep = match std::fs::read_to_string(path.join(REMEMBERED)) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| RunError::on(path.join(REMEMBERED).display(), e))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => KeepConfig::default(),
        Err(error) => return Err(RunError::on(path.join(REMEMBERED).display(), error)),
    };
    store.retain(retention(&keep)).map_err(|e| RunError(e.to_string()))?;
    Ok(store)
}

/// One of the human's commands on a store: `store_stats`, `gc`, `verify`; none of these otherwise.
///
/// # Errors
/// The store's.
pub fn store_command(store: &Store, method: &str, params: &Value) -> Option<Result<Value>> {
    let told = |error: StoreError| RunError(error.to_string());
    Some(match method {
        "store_stats" => stats(store).map_err(told),
        "gc" => {
            let dry_run = params["dry_run"] == true;
            store.gc(dry_run).map(|report| collected(&report, dry_run)).map_err(told)
        }
        "verify" => store.verify().map(|report| verified(&report)).map_err(told),
        _ => return None,
    })
}

/// Writes the history of a store, for `git fast-import`.
///
/// # Errors
/// The store's, and those of `out`.
pub fn export_store(store: &Store, out: &mut dyn Write) -> Result<Value> {
    let report = store.export(out).map_err(|e| RunError(e.to_string()))?;
    Ok(json!({"operations": report.operations, "contents": report.contents, "missing": report.missing}))
}

fn stats(store: &Store) -> std::result::Result<Value, StoreError> {
    let stats = store.stats()?;
    let keep = store.retention();
    let would = store.gc(true)?;
    Ok(json!({
        "path": store.path(),
        "operations": stats.operations,
        "versions": stats.versions,
        "contents": stats.contents,
        "log_bytes": stats.log_bytes,
        "aside_bytes": stats.aside_bytes,
        "fullness": fullness(store)?,
        "sources": store.shares()?.iter().map(share).collect::<Vec<_>>(),
        "retain": {
            "full_seconds": keep.full.as_secs(),
            "sessions_seconds": keep.sessions.as_secs(),
            "age_seconds": keep.age.as_secs(),
            "per_file": keep.per_file,
            "short": keep.short,
            "short_seconds": keep.short_age.as_secs(),
            "short_bytes": keep.short_bytes,
        },
        "would_drop": collected(&would, true),
    }))
}

fn share(share: &Share) -> Value {
    let ages = ["hour", "day", "week", "month", "older"];
    let told = ages
        .iter()
        .zip(share.ages)
        .map(|(age, (contents, bytes))| ((*age).to_owned(), json!({"contents": contents, "bytes": bytes})));
    json!({
        "path": String::from_utf8_lossy(&share.source),
        "bytes": share.ages.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        "ages": told.collect::<serde_json::Map<_, _>>(),
    })
}

fn verified(report: &VerifyReport) -> Value {
    let file = |file: &crate::versions::DamagedVersion| {
        json!({"path": String::from_utf8_lossy(file.path.as_bytes()), "operation": file.op.0,
            "last_good": file.last_good.map(|op| op.0)})
    };
    json!({
        "records": report.records,
        "contents": report.contents,
        "files_aside": report.asides,
        "bytes": report.bytes,
        "damage": report.damage,
        "damaged_files": report.files.iter().map(file).collect::<Vec<_>>(),
        "whole": report.damage.is_empty(),
    })
}

/// What is not said is as the store has it.
pub(super) fn retention(keep: &KeepConfig) -> Retention {
    let default = Retention::default();
    let span = |seconds: Option<u64>, default: Duration| seconds.map_or(default, Duration::from_secs);
    let (full, sessions) = (span(keep.full, default.full), span(keep.sessions, default.sessions));
    Retention {
        full,
        sessions,
        age: span(keep.age, default.age),
        per_file: keep.per_file,
        short: keep.short.clone().unwrap_or(default.short),
        short_age: span(keep.short_age, default.short_age),
        short_bytes: keep.short_bytes.unwrap_or(default.short_bytes),
        bytes: keep.bytes,
        on_full: match keep.refuse {
            Some(true) => OnFull::Refuse,
            Some(false) | None => OnFull::DropOldest,
        },
    }
}

/// How full the store is, and what was dropped: for `status` and `store stats`.
pub(super) fn fullness(store: &Store) -> std::result::Result<Value, StoreError> {
    let dropped: Vec<Value> = store
        .dropped_so_far()?
        .into_iter()
        .map(|(rule, contents, last)| json!({"rule": rule.word(), "contents": contents, "last": last.rfc3339()}))
        .collect();
    Ok(json!({
        "used": store.used()?,
        "quota": store.quota()?,
        "on_full": match store.retention().on_full { OnFull::DropOldest => "drop_oldest", OnFull::Refuse => "refuse" },
        "dropped": dropped,
        "trimmed_through": store.horizon()?.map(|(op, trim)| json!({"operation": op.0, "time": trim.time.rfc3339(),
            "rule": trim.rule.word()})),
        "failure": store.gc_failure(),
    }))
}

/// What reviews hold back; null if nothing.
fn unreviewed(held: &Unreviewed) -> Value {
    if held.since.is_empty() && held.contents == 0 {
        return Value::Null;
    }
    let views: Vec<Value> = held.since.iter().map(|(view, op)| json!({"view": view, "since": op.0})).collect();
    json!({"contents": held.contents, "bytes": held.bytes, "views": views})
}

/// What a collection did, or would do.
fn collected(report: &GcReport, dry_run: bool) -> Value {
    let versions: Vec<Value> =
        report.versions.iter().map(|(rule, count)| json!({"rule": rule.word(), "versions": count})).collect();
    json!({
        "dry_run": dry_run,
        "rules": versions,
        "contents": report.contents,
        "files_aside": report.asides,
        "bytes": report.bytes,
        "operations": report.operations,
        "unreviewed": unreviewed(&report.unreviewed),
        "segments": report.segments,
        "deltas": report.deltas,
        "used_before": report.used.0,
        "used_after": report.used.1,
        "milliseconds": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
    })
}
