//! Nearest candidates for a text that was not found, bounded in time.

use std::time::{Duration, Instant};

use similar::{Algorithm, TextDiff};

use super::{
    edit::Nearest,
    lines::{Lines, without_end},
};

/// Work stops here, whatever the text: lines looked at, and of each line the bytes.
const MAX_LINES: usize = 200_000;
const MAX_LINE: usize = 400;
/// Candidates compared letter by letter.
const FINALISTS: usize = 5;
/// Below this a candidate is no help.
const LEAST_SIMILARITY: u8 = 40;
const SHOWN: usize = 1_000;

/// The place in `text` that comes nearest to `old`; `None` if nothing resembles it.
pub(super) fn nearest(text: &[u8], old: &[u8]) -> Option<Nearest> {
    let lines = Lines::of(text);
    let wanted: Vec<&[u8]> = Lines::of(old).iter().collect();
    let height = wanted.len().min(lines.count());
    if height == 0 {
        return None;
    }
    let mut best: Vec<(usize, usize)> = Vec::new();
    let wanted_marks: Vec<Marks> = wanted.iter().take(height).map(|line| Marks::of(line)).collect();
    let total = lines.count().min(MAX_LINES);
    let marks: Vec<Marks> = lines.iter().take(total).map(Marks::of).collect();
    // Of a long text the first, the last and some lines between are enough to find the place.
    let step = wanted_marks.len().div_ceil(8);
    for start in 0..=(total.saturating_sub(height)) {
        let score = (0..height)
            .filter(|at| at % step == 0 || *at == height - 1)
            .filter_map(|at| marks.get(start + at).map(|have| wanted_marks[at].shared(have)))
            .sum();
        let place = best.partition_point(|(_, other)| *other >= score);
        if place < FINALISTS {
            best.insert(place, (start + 1, score));
            best.truncate(FINALISTS);
        }
    }
    let found = best.into_iter().filter_map(|(line, _)| {
        let range = lines.range(line).start..lines.range(line + height - 1).end;
        candidate(&text[range], old, line)
    });
    found.min_by_key(|near| (std::cmp::Reverse((near.differs != "other", near.similarity)), near.line))
}

/// One sentence on the nearest candidate.
pub(super) fn hint(nearest: Option<&Nearest>) -> String {
    let Some(near) = nearest else {
        return "Nothing in the file resembles it; read the file again".into();
    };
    let how = match near.differs {
        "whitespace" => "it differs in white space alone",
        "case" => "it differs in upper and lower case alone",
        "escapes" => {
            "it differs in escapes: one has `\\n`, `\\t`, `\\\"` or the like where the other has the character itself"
        }
        "line_ends" => "it differs in line ends alone",
        _ => "read it, and give the text as it stands",
    };
    format!("Nearest is line {} ({} % equal): {how}", near.line, near.similarity)
}

fn candidate(stands: &[u8], old: &[u8], line: usize) -> Option<Nearest> {
    let old_is_open = !old.ends_with(b"\n") && !old.ends_with(b"\r");
    let stands = if old_is_open { without_end(stands) } else { stands };
    let (have, want) = (String::from_utf8_lossy(stands), String::from_utf8_lossy(old));
    let differs = how(&have, &want);
    let similarity = if differs == "other" { similarity(&have, &want) } else { similarity(&have, &want).clamp(1, 99) };
    (differs != "other" || similarity >= LEAST_SIMILARITY).then(|| Nearest {
        line,
        text: have.chars().take(SHOWN).collect(),
        differs,
        similarity,
    })
}

/// The least that must be set aside for `want` to stand in `have`.
fn how(have: &str, want: &str) -> &'static str {
    let ends = |s: &str| s.replace("\r\n", "\n").replace('\r', "\n");
    let squeezed = |s: &str| s.split_whitespace().collect::<Vec<_>>().concat();
    let (have, want) = (ends(have), ends(want));
    let within = |have: &str, want: &str| !want.is_empty() && have.contains(want);
    if within(&have, &want) {
        "line_ends"
    } else if within(&squeezed(&have), &squeezed(&want)) {
        "whitespace"
    } else if within(&have.to_lowercase(), &want.to_lowercase()) {
        "case"
    } else if within(&squeezed(&unescaped(&have)), &squeezed(&unescaped(&want))) {
        "escapes"
    } else {
        "other"
    }
}

/// Escapes as most languages write them, undone once.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match if c == '\\' { chars.next() } else { None } {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(other) => out.push(other),
            None => out.push(c),
        }
    }
    out
}

/// Percent of equal characters, of the first thousand of each.
fn similarity(a: &str, b: &str) -> u8 {
    let cut = |s: &str| s.chars().take(SHOWN).collect::<String>();
    let (a, b) = (cut(a), cut(b));
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .deadline(Instant::now() + Duration::from_millis(50))
        .diff_chars(a.as_str(), b.as_str());
    let percent = (f64::from(diff.ratio()) * 100.0).round();
    (0..=100).rev().find(|n| f64::from(*n) <= percent).unwrap_or(0)
}

/// Which pairs of neighbouring letters a line holds, case and white space aside: a small set, quick to compare.
#[derive(Default)]
struct Marks([u64; 4]);

impl Marks {
    fn of(line: &[u8]) -> Marks {
        let mut marks = Marks::default();
        let mut previous = 0_u8;
        for byte in line.iter().take(MAX_LINE).filter(|b| !b.is_ascii_whitespace()) {
            let byte = byte.to_ascii_lowercase();
            let bit = (usize::from(previous) * 31 + usize::from(byte)) % 256;
            marks.0[bit / 64] |= 1 << (bit % 64);
            previous = byte;
        }
        marks
    }

    /// Twice the pairs both have, less those that one has alone.
    fn shared(&self, other: &Marks) -> usize {
        let both: u32 = self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum();
        let apart: u32 = self.0.iter().zip(&other.0).map(|(a, b)| (a ^ b).count_ones()).sum();
        usize::try_from((2 * both + 256).saturating_sub(apart)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, expected: Option<(usize, &'static str)>) {
        let got = nearest(text.as_bytes(), old.as_bytes());
        assert_eq!(got.as_ref().map(|n| (n.line, n.differs)), expected, "{old:?} in {text:?}: {got:?}");
    }

    #[test]
    fn the_difference_is_named() {
        let text = "fn main() {\n    let total = sum(1, 2);\n    print(\"a\\tb\");\n}\n";
        check(text, "let  total = sum(1,2);", Some((2, "whitespace")));
        check(text, "fn main() {\n\tlet total = sum(1, 2);\n", Some((1, "whitespace")));
        check(text, "Let Total = Sum(1, 2);", Some((2, "case")));
        check(text, "print(\\\"a\\tb\\\");", Some((3, "escapes")));
        check(text, "let total = sums(1, 3);", Some((2, "other")));
        check(text, "zzzzzzzzzzzzqqqq", None);
        check("", "x", None);
        check("a\n", "x\ny\nz\n", None);
    }

    #[test]
    fn a_large_text_is_searched_in_bounded_time() {
        let text: String = (0..300_000).map(|n| format!("    let value_{n} = compute({n});\n")).collect();
        let old: String = (150_000..150_400).map(|n| format!("  let value_{n}  = compute({n});\n")).collect();
        let start = Instant::now();
        let got = nearest(text.as_bytes(), old.as_bytes());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(got.map(|n| (n.line, n.differs)), Some((150_001, "whitespace")));
    }
}
