//! Search by words: files ranked by BM25, each shown by the line that holds most of them.

use std::ops::Range;

use control_api::{
    ToolError,
    tools::{Bound, SearchArgs, SearchFile, SearchMatch, SearchOutput, SearchResult},
};

use regex::bytes::{Regex, RegexBuilder};

use super::{
    BYTES_MAX,
    file::{Opened, hash_of},
    gather::Place,
    scope::{Scope, Target},
    words,
};
use crate::{
    text::{Encoding, detect},
    tools::{
        bounds::{Patience, WALK_TIME},
        cursor, errors, given,
        given::wide,
        native::Call,
        search::crowd,
    },
    types::ViewPath,
    view::{self, ViewError},
};

/// Words of a query that count.
const WORDS_MAX: usize = 32;
/// Larger files are passed over.
const FILE_MAX: u64 = 4 << 20;
/// Characters of a line that is shown.
const LINE_MAX: usize = 1_000;
/// BM25's two constants, as commonly chosen.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// How much more a word counts in the path.
const IN_PATH: u32 = 4;
/// Bytes looked at before and behind a place for the whole of a word.
const RUN_MAX: usize = 256;
/// Bytes of a word and what is between, on average: how long a file is, in words.
const BYTES_PER_WORD: f64 = 7.0;

/// A file in which a word of the query stands.
struct Found {
    path: ViewPath,
    /// How often each word stands in it.
    times: Vec<u32>,
    size: u64,
    line: u64,
    column: u64,
    text: String,
    cut: bool,
    lines: u64,
}

enum Outcome {
    Found(Found),
    Nothing(u64),
    Binary,
    TooLarge,
    Unreadable(String),
    Gone,
}

/// Answers the call.
pub(super) fn run(
    call: &Call<'_>,
    args: &SearchArgs,
    scope: &Scope<'_>,
    limit: usize,
) -> Result<SearchResult, ToolError> {
    let words = Words::of(&args.query)?;
    let query = given::query_of("search", args);
    let from = rank_from(given::position(&query, args.cursor.as_deref())?)?;
    let cancelled = || call.context.cancelled.is_set();
    let patience = Patience::new(&cancelled, WALK_TIME);
    let work = |target: &Target| look(target, target.open(call.view), &words);
    let mut ranking = Ranking::default();
    let walked = crowd::in_order(
        &work,
        |target: Target, outcome| {
            ranking.take(target.path(), outcome);
            patience.ended().is_none()
        },
        |each| scope.walk(&Place::default(), &patience, each),
    )?;
    if cancelled() {
        return Err(errors::cancelled());
    }
    let mut bounds = given::of_walk(&walked, walked.stopped);
    bounds.incomplete |= !ranking.result.bounds.warnings.is_empty();
    bounds.warnings.extend(ranking.result.bounds.warnings.iter().take(100).cloned());
    let (mut result, ranked) = ranking.ranked(words.all.len());
    let total = wide(ranked.len());
    if bounds.truncated {
        bounds.total_at_least = Some(total);
    } else {
        bounds.total = Some(total);
    }
    let behind = |score: f64, path: &ViewPath| match &from {
        None => true,
        Some((last, after)) => score < *last || (score == *last && path.as_bytes() > after.as_slice()),
    };
    let mut left = ranked.into_iter().filter(|(score, found)| behind(*score, &found.path)).peekable();
    let mut bytes = 0;
    while let Some((score, found)) = left.next_if(|(_, found)| {
        result.files.len() < limit && (result.files.is_empty() || bytes + size_of(found, args.output) <= BYTES_MAX)
    }) {
        bytes += size_of(&found, args.output);
        bounds.next = Some(cursor::encode(&query, &[&score.to_be_bytes()[..], found.path.as_bytes()].concat()));
        tell(call, args, scope, &mut result, score, found);
    }
    if left.peek().is_some() {
        let full = result.files.len() == limit;
        bounds.truncated_by.insert(0, if full { Bound::Limit } else { Bound::Bytes });
        bounds.truncated = true;
    } else {
        bounds.next = None;
    }
    result.bounds = bounds;
    Ok(result)
}

/// Bytes that a file brings into an answer.
fn size_of(found: &Found, output: SearchOutput) -> usize {
    let text = if output == SearchOutput::Matches { found.text.len() } else { 0 };
    text + found.path.as_bytes().len()
}

fn rank_from(place: Option<Vec<u8>>) -> Result<Option<(f64, Vec<u8>)>, ToolError> {
    let Some(place) = place else { return Ok(None) };
    let (score, path) = place.split_first_chunk().ok_or_else(|| errors::invalid("that cursor is damaged"))?;
    Ok(Some((f64::from_be_bytes(*score), path.to_vec())))
}

fn tell(call: &Call<'_>, args: &SearchArgs, scope: &Scope<'_>, result: &mut SearchResult, score: f64, found: Found) {
    let path = errors::wire(&found.path);
    let count = (args.output != SearchOutput::Files).then_some(found.lines);
    result.files.push(SearchFile { path: path.clone(), count });
    if args.output != SearchOutput::Matches {
        return;
    }
    let hash = match scope.target(&found.path).open(call.view) {
        Ok(Opened::Path(reading)) => call.view.hash(&reading).ok(),
        Ok(opened) => hash_of(&opened).ok(),
        Err(_) => None,
    };
    result.matches.push(SearchMatch {
        path,
        line: found.line,
        column: found.column,
        excerpt: found.text,
        cut: found.cut,
        hash: hash.map(|hash| hash.to_string()),
        score: Some(score),
        ..SearchMatch::default()
    });
}

/// The words of a query, in the form in which they are compared, and where they may stand in a content.
struct Words {
    all: Vec<String>,
    places: Regex,
}

impl Words {
    fn of(query: &str) -> Result<Words, ToolError> {
        let mut all: Vec<String> = Vec::new();
        words::each(query, |_, word| {
            if !all.iter().any(|known| known == word) {
                all.push(word.to_owned());
            }
        });
        if all.is_empty() {
            return Err(errors::invalid("the query holds no words; give some, or use mode literal"));
        }
        all.truncate(WORDS_MAX);
        let any: Vec<String> = all.iter().map(|word| regex::escape(word)).collect();
        let places = RegexBuilder::new(&any.join("|"))
            .case_insensitive(true)
            .build()
            .map_err(|error| errors::invalid(format!("the query cannot be compiled: {error}")))?;
        Ok(Words { all, places })
    }

    fn number(&self, word: &str) -> Option<usize> {
        self.all.iter().position(|known| known == word)
    }
}

fn look(target: &Target, opened: view::Result<Opened>, words: &Words) -> Outcome {
    let file = match opened {
        Ok(file) => file,
        Err(ViewError::NotFound(_) | ViewError::NotAFile(_)) => return Outcome::Gone,
        Err(ViewError::TooLarge { .. }) => return Outcome::TooLarge,
        Err(error) => return Outcome::Unreadable(error.to_string()),
    };
    let size = file.look().size;
    if size > FILE_MAX {
        return Outcome::TooLarge;
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    match file.read_at(&mut bytes, 0) {
        Ok(got) => bytes.truncate(got),
        Err(error) => return Outcome::Unreadable(error.to_string()),
    }
    match detect(&bytes[..bytes.len().min(8 << 10)]) {
        Encoding::Binary | Encoding::Utf16 { .. } => return Outcome::Binary,
        Encoding::Utf8 { .. } | Encoding::OtherText => {}
    }
    match weigh(target.path(), &bytes, words) {
        Some(found) => Outcome::Found(found),
        None => Outcome::Nothing(size),
    }
}

/// A line on which words of the query stand.
#[derive(Clone, Copy, Default)]
struct Line {
    /// Which of them, by their bits.
    words: u64,
    number: u64,
    /// Where it begins, and the first of the words in it.
    start: usize,
    first: usize,
}

fn weigh(path: &ViewPath, content: &[u8], words: &Words) -> Option<Found> {
    let mut times = vec![0_u32; words.all.len()];
    words::each(&String::from_utf8_lossy(path.as_bytes()), |_, word| {
        if let Some(number) = words.number(word) {
            times[number] += IN_PATH;
        }
    });
    let mut best = Line { number: 1, ..Line::default() };
    let mut line = best;
    let (mut counted_to, mut done_to, mut lines) = (0, 0, 0);
    for place in words.places.find_iter(content) {
        if place.start() < done_to {
            continue;
        }
        // The whole run of letters and digits around it, in which words are told apart.
        let run = run_around(content, place.range());
        done_to = run.end;
        let mut here = 0_u64;
        words::each(&String::from_utf8_lossy(&content[run.clone()]), |_, word| {
            if let Some(number) = words.number(word) {
                times[number] += 1;
                here |= 1 << number;
            }
        });
        if here == 0 {
            continue;
        }
        let between = &content[counted_to..run.start];
        if let Some(end) = memchr::memrchr(b'\n', between) {
            let ends = wide(memchr::memchr_iter(b'\n', between).count());
            line = Line { words: 0, number: line.number + ends, start: counted_to + end + 1, first: run.start };
        }
        // Each byte is looked at once, however long the lines are.
        counted_to = run.start;
        if line.words == 0 {
            lines += 1;
            line.first = run.start;
        }
        line.words |= here;
        if line.words.count_ones() > best.words.count_ones() {
            best = line;
        }
    }
    if times.iter().all(|n| *n == 0) {
        return None;
    }
    let rest = &content[best.start..];
    let rest = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    let text = String::from_utf8_lossy(rest);
    let before = &rest[..best.first.saturating_sub(best.start).min(rest.len())];
    let column = String::from_utf8_lossy(before).chars().count();
    // A long line is shown from a little before the first of the words.
    let from = if text.chars().count() > LINE_MAX { column.saturating_sub(100) } else { 0 };
    let shown: String = text.chars().skip(from).take(LINE_MAX).collect();
    Some(Found {
        path: path.clone(),
        times,
        size: wide(content.len()),
        line: best.number,
        column: wide(column) + 1,
        cut: shown.len() < text.len(),
        text: shown,
        lines,
    })
}

fn run_around(content: &[u8], place: Range<usize>) -> Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    let before = content[..place.start].iter().rev().take(RUN_MAX).take_while(|byte| is_part(byte)).count();
    let after = content[place.end..].iter().take(RUN_MAX).take_while(|byte| is_part(byte)).count();
    place.start - before..place.end + after
}

#[derive(Default)]
struct Ranking {
    result: SearchResult,
    found: Vec<Found>,
    bytes: u64,
}

impl Ranking {
    fn take(&mut self, path: &ViewPath, outcome: Outcome) {
        match outcome {
            Outcome::Found(found) => {
                self.result.files_searched += 1;
                self.result.files_matched += 1;
                self.bytes += found.size;
                self.found.push(found);
            }
            Outcome::Nothing(size) => {
                self.result.files_searched += 1;
                self.bytes += size;
            }
            Outcome::Binary => self.result.skipped.binary += 1,
            Outcome::TooLarge => self.result.skipped.too_large += 1,
            Outcome::Unreadable(why) => {
                self.result.skipped.unreadable += 1;
                self.result.bounds.warnings.push(format!("{path}: {why}"));
            }
            Outcome::Gone => {}
        }
    }

    /// Best first; equals by path.
    fn ranked(self, words: usize) -> (SearchResult, Vec<(f64, Found)>) {
        let files = real(self.result.files_searched);
        let mean = (real(self.bytes) / files.max(1.0) / BYTES_PER_WORD).max(1.0);
        let rarity: Vec<f64> = (0..words)
            .map(|word| {
                let holding = real(wide(self.found.iter().filter(|found| found.times[word] > 0).count()));
                (1.0 + (files - holding + 0.5) / (holding + 0.5)).ln()
            })
            .collect();
        let score = |found: &Found| -> f64 {
            let length = real(found.size) / BYTES_PER_WORD / mean;
            let one = |(times, rarity): (&u32, &f64)| {
                let times = f64::from(*times);
                rarity * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length))
            };
            found.times.iter().zip(&rarity).map(one).sum()
        };
        let mut ranked: Vec<(f64, Found)> = self.found.into_iter().map(|found| (score(&found), found)).collect();
        ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.path.cmp(&y.path)));
        (self.result, ranked)
    }
}

/// Counts as they enter a formula; above 2^32 they are all the same.
fn real(n: u64) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}
