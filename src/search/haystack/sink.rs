//! From the searcher's lines to matches: each with its own lines before and after, and an excerpt that fits.

use std::{collections::VecDeque, io};

use grep_matcher::Matcher as _;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::{LineMatch, SearchSink, SinkControl};
use crate::search::Matcher;

/// Characters of an excerpt.
const EXCERPT: usize = 1_000;

/// Gathers what the searcher reports. The searcher reports each line once, as match or as context; here a line can be
/// both, so matches wait until the lines after them have come.
pub(super) struct Collect<'a> {
    matcher: &'a Matcher,
    context: usize,
    sink: &'a mut dyn SearchSink,
    /// The last `context` lines seen, the newest last.
    recent: VecDeque<(u64, String)>,
    /// Matches that still want lines after them, with the number of the last line that belongs to each.
    waiting: VecDeque<(u64, LineMatch)>,
    stopped: bool,
}

impl<'a> Collect<'a> {
    pub(super) fn new(matcher: &'a Matcher, context: usize, sink: &'a mut dyn SearchSink) -> Self {
        Collect { matcher, context, sink, recent: VecDeque::new(), waiting: VecDeque::new(), stopped: false }
    }

    /// One line, whatever it was reported as.
    fn line(&mut self, number: u64, bytes: &[u8]) {
        if self.context == 0 {
            return;
        }
        let text: String = String::from_utf8_lossy(bytes).chars().take(EXCERPT).collect();
        for (until, waiting) in &mut self.waiting {
            if number <= *until {
                waiting.after.push((number, text.clone()));
            }
        }
        if self.recent.len() == self.context {
            self.recent.pop_front();
        }
        self.recent.push_back((number, text));
    }

    /// Hands over what has its lines after it, now that `number` is the last line seen.
    fn deliver(&mut self, number: u64) {
        while self.waiting.front().is_some_and(|(until, _)| *until <= number) {
            let found = self.waiting.pop_front();
            if let Some((_, found)) = found.filter(|_| !self.stopped) {
                self.stopped = self.sink.matched(found) == SinkControl::Stop;
            }
        }
    }

    fn go_on(&self) -> io::Result<bool> {
        Ok(!self.stopped)
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let first = found.line_number().unwrap_or(1);
        let bytes = without_end(found.bytes());
        let place = self.matcher.regex().find(bytes).ok().flatten().map_or(0..0, |m| m.start()..m.end());
        let line_start = memchr::memrchr(b'\n', &bytes[..place.start]).map_or(0, |at| at + 1);
        let number = first + count(&bytes[..line_start], b'\n');
        let column = String::from_utf8_lossy(&bytes[line_start..place.start]).chars().count();
        let (excerpt, cut) = excerpt(bytes, place);
        let wide = u64::try_from(self.context).unwrap_or(u64::MAX);
        let before = self.recent.iter().filter(|(n, _)| *n >= number.saturating_sub(wide)).cloned();
        let matched = LineMatch {
            line: number,
            column: u64::try_from(column).unwrap_or(u64::MAX).saturating_add(1),
            excerpt,
            cut,
            before: before.collect(),
            after: Vec::new(),
        };
        let mut last = first;
        for (at, line) in (first..).zip(bytes.split(|b| *b == b'\n')) {
            self.line(at, without_end(line));
            last = at;
        }
        self.waiting.push_back((last.saturating_add(wide), matched));
        self.deliver(last);
        self.go_on()
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if let Some(number) = context.line_number() {
            self.line(number, without_end(context.bytes()));
            self.deliver(number);
        }
        self.go_on()
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        self.deliver(u64::MAX);
        Ok(())
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn count(bytes: &[u8], byte: u8) -> u64 {
    memchr::memchr_iter(byte, bytes).fold(0, |n, _| n + 1)
}

/// At most 1,000 characters of the line with the match in the middle of them, and whether that is less than all.
fn excerpt(line: &[u8], place: std::ops::Range<usize>) -> (String, bool) {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        if text.contains('\r') { text.replace("\r\n", "\n") } else { text.into_owned() }
    };
    if line.len() <= EXCERPT {
        return (text(line), false);
    }
    let (before, inside, after) = (text(&line[..place.start]), text(&line[place.clone()]), text(&line[place.end..]));
    let (b, i, a) = (before.chars().count(), inside.chars().count(), after.chars().count());
    if b + i + a <= EXCERPT {
        return (before + &inside + &after, false);
    }
    let spare = EXCERPT.saturating_sub(i);
    // Half of what is left on each side; what one side does not need, the other gets.
    let take_before = b.min((spare / 2).max(spare.saturating_sub(a)));
    let mut out: String = before.chars().skip(b - take_before).collect();
    out.extend(inside.chars().chain(after.chars()).take(EXCERPT - take_before));
    (out, true)
}
