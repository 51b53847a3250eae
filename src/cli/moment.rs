//! Moments as people write them: an operation's number, a checkpoint's name, a date, a time of day, or how long ago.

use std::path::PathBuf;

use jiff::{Timestamp, ZonedDateTime, civil};
use serde_json::{Value, json};

use super::{Failure, find::Found};

/// A moment as a tool takes it.
pub(super) fn moment(text: &str) -> Value {
    moment_at(text, &ZonedDateTime::now())
}

fn moment_at(text: &str, now: &ZonedDateTime) -> Value {
    let text = text.trim();
    if let Ok(operation) = text.parse::<u64>() {
        return json!({"operation": operation});
    }
    match time(text, now) {
        Some(time) => json!({"time": time.to_string()}),
        None => json!({"checkpoint": text}),
    }
}

/// A time that is meant; none if it is no time.
fn time(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let zone = now.time_zone();
    let local = |at: civil::DateTime| at.to_zoned_datetime(zone.clone()).ok().map(|at| at.timestamp());
    if let Ok(at) = text.parse::<civil::Date>() {
        // A date is its beginning; a date with a time is itself.
        return local(text.parse::<civil::DateTime>().unwrap_or_else(|_| at.at(0, 0, 0, 0)));
    }
    if let Ok(at) = text.parse::<civil::Time>() {
        return local(now.date().to_datetime(at));
    }
    let ago = text.parse::<jiff::Span>().ok()?;
    now.checked_sub(ago.abs()).ok().map(|at| at.timestamp())
}

/// `PATH` or `PATH@VERSION`, as it was written.
pub(super) fn versioned(text: &str) -> (PathBuf, Option<&str>) {
    match text.rsplit_once('@') {
        Some((path, version)) if !path.is_empty() && !version.is_empty() && !version.contains('/') => {
            (path.into(), Some(version))
        }
        Some(_) | None => (text.into(), None),
    }
}

/// A side of a comparison: a path of the view, and the moment that is meant. A file may have an `@` in its name.
pub(super) fn side(found: &mut Found, text: &str) -> Result<(Value, Option<Value>), Failure> {
    let (path, version) = versioned(text);
    let Some(version) = version else { return Ok((found.path(&path), None)) };
    let at = moment(version);
    if at.get("checkpoint").is_some() {
        let whole = found.path(text.as_ref());
        if found.call("stat", &json!({"path": whole})).is_ok_and(|stat| stat.structured["exists"] == true) {
            return Ok((whole, None));
        }
    }
    Ok((found.path(&path), Some(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_apart() {
        let now: ZonedDateTime = "2026-03-05T12:00:00+01:00[Europe/Berlin]".parse().expect("a time");
        let check = |text: &str, expected: Value| assert_eq!(moment_at(text, &now), expected, "{text}");
        check("17", json!({"operation": 17}));
        check("before-lunch", json!({"checkpoint": "before-lunch"}));
        check("2026-01-31T12:00:00Z", json!({"time": "2026-01-31T12:00:00Z"}));
        check("2026-01-31 12:00", json!({"time": "2026-01-31T11:00:00Z"}));
        check("2026-01-31", json!({"time": "2026-01-30T23:00:00Z"}));
        check("11:30", json!({"time": "2026-03-05T10:30:00Z"}));
        check("2h", json!({"time": "2026-03-05T09:00:00Z"}));
        check("90 min", json!({"time": "2026-03-05T09:30:00Z"}));
        check("3 days ago", json!({"time": "2026-03-02T11:00:00Z"}));
        check("1st", json!({"checkpoint": "1st"}));
    }

    #[test]
    fn a_version_stands_behind_the_last_at_sign() {
        let check = |text: &str, path: &str, version: Option<&str>| {
            assert_eq!(versioned(text), (PathBuf::from(path), version), "{text}");
        };
        check("a/b@12", "a/b", Some("12"));
        check("a@b@good", "a@b", Some("good"));
        check("a@b/c", "a@b/c", None);
        check("@scope", "@scope", None);
        check("a@", "a@", None);
    }
}
