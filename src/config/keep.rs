//! How long history is kept: the keys of `[store]`, with spans of time and sizes as people write them.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// What is said of a store's history; what is not said is as the store has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KeepConfig {
    /// Changes that need something kept are refused when the store is full; else the oldest history is dropped.
    pub refuse: Option<bool>,
    /// Names of directories below which history is kept shortly.
    pub short: Option<Vec<String>>,
    /// Seconds for which every version is kept.
    pub full: Option<u64>,
    /// Seconds for which the first and the last version of each session are.
    pub sessions: Option<u64>,
    /// Seconds for which the last of each session is.
    pub age: Option<u64>,
    /// Bytes of the store.
    pub bytes: Option<u64>,
    /// Bytes of one file's history.
    pub per_file: Option<u64>,
    /// Seconds below short directories.
    pub short_age: Option<u64>,
    /// Bytes below short directories.
    pub short_bytes: Option<u64>,
}

/// The table `retain` as it is written.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RetainTable {
    full: Option<Spanned<String>>,
    sessions: Option<Spanned<String>>,
    age: Option<Spanned<String>>,
    bytes: Option<Spanned<String>>,
    per_file: Option<Spanned<String>>,
    short_age: Option<Spanned<String>>,
    short_bytes: Option<Spanned<String>>,
}

/// What is wrong, and with which word.
pub(super) type Wrong<'a> = (&'a Spanned<String>, String);

impl RetainTable {
    /// Reads the words; `keep` has the other keys already.
    pub fn read(&self, keep: &mut KeepConfig) -> Result<(), Wrong<'_>> {
        let read = |word: &'_ Option<Spanned<String>>, of: fn(&str) -> Result<u64, String>| match word {
            None => Ok(None),
            Some(text) => of(text.get_ref()).map(Some),
        };
        let all = [
            (&self.full, span as fn(&str) -> _, &mut keep.full),
            (&self.sessions, span, &mut keep.sessions),
            (&self.age, span, &mut keep.age),
            (&self.bytes, size, &mut keep.bytes),
            (&self.per_file, size, &mut keep.per_file),
            (&self.short_age, span, &mut keep.short_age),
            (&self.short_bytes, size, &mut keep.short_bytes),
        ];
        for (word, of, to) in all {
            match (read(word, of), word) {
                (Ok(value), _) => *to = value,
                (Err(why), Some(word)) => return Err((word, why)),
                (Err(_), None) => {}
            }
        }
        let in_order =
            [(keep.full, &self.sessions, keep.sessions, "sessions"), (keep.sessions, &self.age, keep.age, "age")];
        for (shorter, word, longer, name) in in_order {
            if let (Some(shorter), Some(word), Some(longer)) = (shorter, word, longer)
                && shorter > longer
            {
                return Err((
                    word,
                    format!("`{name}` is shorter than the span before it; expected full, then sessions, then age"),
                ));
            }
        }
        Ok(())
    }
}

/// A directory's name, as a pattern of directories writes it too.
pub(super) fn directory(word: &str) -> Result<String, String> {
    let name = word.strip_suffix('/').unwrap_or(word);
    if name.is_empty() || name.contains(['/', '*', '?', '[', '!']) {
        return Err(format!("expected the name of a directory, as \"target/\", and this is {word:?}"));
    }
    Ok(name.to_owned())
}

/// `drop_oldest` or `refuse`: true if changes are refused.
pub(super) fn on_full(word: &str) -> Result<bool, String> {
    match word {
        "drop_oldest" => Ok(false),
        "refuse" => Ok(true),
        other => Err(format!("on_full is \"drop_oldest\" or \"refuse\", not {other:?}")),
    }
}

fn number<'a>(word: &'a str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit): (&'a str, &'a str) = word.split_at_checked(digits)?;
    let (_, of) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*of)
}

/// A span of time in seconds.
fn span(word: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] =
        &[("s", 1), ("min", 60), ("h", 3600), ("d", 86_400), ("w", 604_800), ("y", 31_536_000)];
    number(word, UNITS).ok_or_else(|| {
        format!("expected a span of time, as \"24h\" or \"30d\" (s, min, h, d, w, y), and this is {word:?}")
    })
}

/// A size in bytes.
pub(super) fn size(word: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    let size = number(word, UNITS).filter(|size| *size > 0);
    size.ok_or_else(|| {
        format!("expected a size, as \"64MiB\" or \"10GiB\" (B, KiB, MiB, GiB, TiB), and this is {word:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_read_as_people_write_them() {
        let check =
            |found: Result<u64, String>, expected: Option<u64>| assert_eq!(found.clone().ok(), expected, "{found:?}");
        check(span("24h"), Some(86_400));
        check(span("30 d"), Some(30 * 86_400));
        check(span("0s"), Some(0));
        check(span("d"), None);
        check(span("3"), None);
        check(span("-3d"), None);
        check(span("3m"), None);
        check(span("999999999999999999y"), None);
        check(size("10GiB"), Some(10 << 30));
        check(size("64MiB"), Some(64 << 20));
        check(size("0B"), None);
        check(size("10GB"), None);
        check(size("GiB"), None);
        check(size("é"), None);
        assert_eq!(directory("target/"), Ok("target".to_owned()));
        assert!(["", "/", "a/b", "*.o", "!x"].iter().all(|word| directory(word).is_err()));
    }
}
