//! The same contents and queries given to ripgrep, where it is installed; context against a naive reading of lines.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
};

use base64::Engine as _;

use super::tests::{matcher, search};

/// A small generator of its own, so that each run asks the same questions.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn text(&mut self) -> String {
        let pieces = [
            "foo", "Foo", "bar", "bär", " ", "  ", "x1", "42", "_", ".", "-", "\n", "\r\n", "\n\n", "日本", "\u{212a}",
            "\t",
        ];
        (0..self.below(60)).map(|_| pieces[self.below(pieces.len())]).collect()
    }

    /// A file's bytes: UTF-8 with or without a mark, UTF-16 with one, or with bytes that are neither.
    fn content(&mut self) -> Vec<u8> {
        let mut text = self.text();
        if self.below(10) == 0 {
            text = text.repeat(2_000);
        }
        let utf16 = |unit: fn(u16) -> [u8; 2]| format!("\u{feff}{text}").encode_utf16().flat_map(unit).collect();
        match self.below(8) {
            0 => format!("\u{feff}{text}").into_bytes(),
            1 => utf16(u16::to_le_bytes),
            2 => utf16(u16::to_be_bytes),
            3 => [text.as_bytes(), b"foo \xff\xe9 bar\n", text.as_bytes()].concat(),
            _ => text.into_bytes(),
        }
    }
}

type Hit = (String, u64, u64, Vec<u8>);

fn rg(dir: &Path, query: &str, regex: bool) -> Option<BTreeSet<Hit>> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--json", "--crlf", "--no-ignore", "--hidden", "--smart-case", "--no-mmap"]);
    if !regex {
        command.arg("-F");
    }
    let output = command.arg("-e").arg(query).arg(".").current_dir(dir).stdin(Stdio::null()).output().ok()?;
    let lines = output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let bytes = |value: &serde_json::Value| match value["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD
            .decode(value["bytes"].as_str().expect("text or bytes"))
            .expect("base64"),
    };
    let hits = lines.filter_map(|line| {
        let event: serde_json::Value = serde_json::from_slice(line).expect("ripgrep writes JSON");
        let data = &event["data"];
        (event["type"] == "match").then(|| {
            let line = bytes(&data["lines"]);
            let start = data["submatches"][0]["start"].as_u64().expect("a match has a place");
            let before = String::from_utf8_lossy(&line[..usize::try_from(start).expect("a place")]);
            let column = u64::try_from(before.chars().count()).expect("a count") + 1;
            let path = data["path"]["text"].as_str().expect("a name").trim_start_matches("./").to_owned();
            (path, data["line_number"].as_u64().expect("a number"), column, line)
        })
    });
    Some(hits.collect())
}

#[test]
fn ripgrep_finds_the_same_lines() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let mut random = Random(11);
    let contents: Vec<(String, Vec<u8>)> = (0..120).map(|n| (format!("f{n}"), random.content())).collect();
    for (name, content) in &contents {
        std::fs::write(tmp.path().join(name), content).expect("a file");
    }
    let queries = [
        ("foo", false),
        ("Foo", false),
        ("bär", false),
        (".", false),
        ("foo$", true),
        ("^bar", true),
        (r"\bfoo\b", true),
        (r"x\d|日本", true),
        (r"[[:alpha:]]+\s+\d", true),
        (r"k", false),
        (r"^\s*$", true),
        (r"(?i)FOO.*BAR", true),
        (r"\W$", true),
    ];
    let mut compared = 0;
    for (query, regex) in queries {
        let Some(theirs) = rg(tmp.path(), query, regex) else {
            eprintln!("ripgrep: absent");
            return;
        };
        let matcher = matcher(query, regex, false);
        let mut ours = BTreeSet::new();
        for (name, content) in &contents {
            for found in search(content, &matcher, 0).1 {
                assert!(!found.excerpt.contains('\n') && found.excerpt.chars().count() <= 1_000);
                ours.insert((name.clone(), found.line, found.column, found.excerpt, found.cut));
            }
        }
        let shown =
            |line: &[u8]| String::from_utf8_lossy(line).trim_end_matches('\n').trim_end_matches('\r').to_owned();
        let theirs: BTreeSet<_> =
            theirs.into_iter().map(|(name, line, column, text)| (name, line, column, shown(&text))).collect();
        let places = |hits: &BTreeSet<(String, u64, u64, String, bool)>| {
            hits.iter().map(|(name, line, column, ..)| (name.clone(), *line, *column)).collect::<BTreeSet<_>>()
        };
        let their_places =
            theirs.iter().map(|(name, line, column, _)| (name.clone(), *line, *column)).collect::<BTreeSet<_>>();
        let only_ours: Vec<_> = places(&ours).difference(&their_places).take(5).cloned().collect();
        let only_theirs: Vec<_> = their_places.difference(&places(&ours)).take(5).cloned().collect();
        assert!(
            only_ours.is_empty() && only_theirs.is_empty(),
            "{query}: only here {only_ours:?}, only there {only_theirs:?}"
        );
        for ((.., excerpt, cut), (name, line, _, text)) in ours.iter().zip(&theirs) {
            assert!(
                if *cut { text.contains(excerpt.as_str()) } else { text == excerpt },
                "{query}: {name}:{line} {excerpt:?} {text:?}"
            );
        }
        compared += theirs.len();
    }
    assert!(compared > 5_000, "{compared}");
}

#[test]
fn context_is_what_stands_around() {
    let mut random = Random(3);
    let matcher = matcher("foo", false, false);
    for _ in 0..300 {
        let text = random.text();
        let context = random.below(4);
        let lines: Vec<(u64, &str)> =
            (1..).zip(text.split_terminator('\n').map(|l| l.trim_end_matches('\r'))).collect();
        let wide = u64::try_from(context).expect("small");
        let around = |from: u64, to: u64| -> Vec<(u64, String)> {
            lines.iter().filter(|(n, _)| (from..=to).contains(n)).map(|(n, l)| (*n, (*l).to_owned())).collect()
        };
        for found in search(text.as_bytes(), &matcher, context).1 {
            assert_eq!(
                found.before,
                around(found.line.saturating_sub(wide), found.line - 1),
                "{text:?} {}",
                found.line
            );
            assert_eq!(found.after, around(found.line + 1, found.line + wide), "{text:?} {}", found.line);
        }
    }
}
