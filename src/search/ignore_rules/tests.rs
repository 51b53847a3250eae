//! Ignore rules by table, and against git itself on random trees of rules.

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

use super::*;

fn path(text: &str) -> ViewPath {
    ViewPath::parse(text.as_bytes()).expect(text)
}

/// The rules of the directory that holds `target`, from a map of `.gitignore` files by directory.
fn rules_for(files: &BTreeMap<String, String>, exclude: &str, target: &ViewPath) -> IgnoreRules {
    let mut dirs: Vec<ViewPath> = std::iter::successors(target.parent(), ViewPath::parent).collect();
    dirs.reverse();
    dirs.iter().fold(IgnoreRules::default(), |rules, dir| {
        let file = files.get(std::str::from_utf8(dir.as_bytes()).expect("UTF-8")).map(String::as_bytes);
        rules.descend(dir, file, None, dir.is_root().then_some(exclude.as_bytes()))
    })
}

fn check(gitignore: &str, cases: &[(&str, bool)]) {
    let rules = IgnoreRules::default().descend(&ViewPath::root(), Some(gitignore.as_bytes()), None, None);
    for (text, expected) in cases {
        assert_eq!(rules.is_ignored(&path(text), text.ends_with('/')), *expected, "{text} by {gitignore:?}");
    }
}

#[test]
fn lines_are_read_as_git_reads_them() {
    check("*.o\n!keep.o\n", &[("a.o", true), ("d/a.o", true), ("keep.o", false), ("d/keep.o", false)]);
    check("build/\n", &[("build/", true), ("build", false), ("build/x", true), ("a/build/x", true)]);
    check("d/*\n!d/x\n", &[("d/", false), ("d/x", false), ("d/y", true)]);
    check("d/\n!d/x\n", &[("d/x", true)]);
    check(
        "\u{feff}a\r\nb  \r\n# c\nc\\ \n[\n",
        &[("a", true), ("b", true), ("# c", false), ("c ", true), ("[", false)],
    );
    check("", &[("a", false), ("", false)]);
}

#[test]
fn nearer_files_and_dot_ignore_win() {
    let root =
        IgnoreRules::default().descend(&path(""), Some(b"*.log\n/only-root\nd2\n"), None, Some(b"secret\n*.x\n"));
    let below = root.descend(&path("d"), Some(b"!a.log\n!y.x\n"), Some(b"b.txt\n!c.log\n"), None);
    for (text, expected) in [
        ("d/a.log", false),
        ("d/b.log", true),
        ("d/c.log", false),
        ("d/b.txt", true),
        ("d/e/b.txt", true),
        ("d/secret", true),
        ("d/y.x", false),
        ("d/only-root", false),
        ("d/d2/a.log", true),
        ("b.txt", false),
    ] {
        assert_eq!(below.is_ignored(&path(text), false), expected, "{text}");
    }
    assert!(
        root.is_ignored(&path("d2"), true)
            && root.descend(&path("d2"), None, None, None).is_ignored(&path("d2/x"), false)
    );
}

#[test]
fn a_repository_inside_has_rules_of_its_own() {
    let outer = IgnoreRules::default().descend(&path(""), Some(b"*.log\nhidden/\n"), Some(b"*.tmp\n"), Some(b"e\n"));
    let inner = outer.descend(&path("sub"), None, None, Some(b""));
    for (text, expected) in [("sub/a.log", false), ("sub/e", false), ("sub/a.tmp", true)] {
        assert_eq!(inner.is_ignored(&path(text), false), expected, "{text}");
    }
    assert!(outer.descend(&path("hidden"), None, None, Some(b"")).is_ignored(&path("hidden/a"), false));
}

/// A small generator of its own, so that each run asks git the same questions.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn line(&mut self) -> String {
        let pieces = [
            "a",
            "b",
            "c",
            "*",
            "**",
            "?",
            "/",
            "[ab]",
            "[!a]",
            "[^b-c]",
            "[[:alpha:]]",
            "\\a",
            "{a,b}",
            "ä",
            " ",
            "[a",
            "***",
            "[]a]",
            "\\",
        ];
        let mut line = String::new();
        line.push_str(self.pick(&["", "", "", "!", "/", "**/", "#", "\\!"]));
        for _ in 0..=self.below(5) {
            line.push_str(self.pick(&pieces));
        }
        line.push_str(self.pick(&["", "", "", "/", "/**", " ", "\\ ", "\r"]));
        line
    }
}

/// The names of each directory, and whether they are directories.
const NAMES: [(&str, bool); 12] = [
    ("a", true),
    ("b", true),
    ("ä", true),
    ("]", true),
    ("{a,b}", true),
    ("c", false),
    ("ab", false),
    ("a b", false),
    (" ", false),
    ("!a", false),
    ("#a", false),
    ("[a", false),
];

/// What `git check-ignore` says of each path, in the same order.
fn git_says(root: &std::path::Path, paths: &[&str]) -> Vec<bool> {
    let mut git = Command::new("git")
        .args(["-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let input: Vec<u8> = paths.iter().flat_map(|p| [p.as_bytes(), b"\0"].concat()).collect();
    let mut stdin = git.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = git.wait_with_output().expect("git answers");
    writer.join().expect("the writer ends").expect("git reads all");
    let fields: Vec<&[u8]> = output.stdout.split(|b| *b == 0).collect();
    // source, line, pattern, path
    fields.chunks_exact(4).map(|f| !f[2].is_empty() && !f[2].starts_with(b"!")).collect()
}

#[test]
fn git_agrees() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let git =
        |args: &[&str]| Command::new("git").args(args).current_dir(tmp.path()).output().expect("git is installed");
    assert!(git(&["init", "-q"]).status.success());
    // A real tree, so that git sees for itself what is a directory.
    let (mut dirs, mut paths) = (vec![String::new()], Vec::new());
    for at in 0..31 {
        for (name, is_dir) in NAMES {
            let text = if dirs[at].is_empty() { name.to_owned() } else { format!("{}/{name}", dirs[at]) };
            let target = tmp.path().join(&text);
            if is_dir {
                std::fs::create_dir(&target).expect("a directory");
                dirs.push(text.clone());
            } else {
                std::fs::write(&target, "").expect("a file");
            }
            paths.push((text, is_dir));
        }
    }
    let mut random = Random(7);
    let mut asked = 0;
    for round in 0..150 {
        let mut files = BTreeMap::new();
        for dir in &dirs[..8] {
            let file = tmp.path().join(dir).join(".gitignore");
            let lines: Vec<String> = (0..random.below(5)).map(|_| random.line()).collect();
            std::fs::write(&file, lines.join("\n")).expect("a file");
            files.insert(dir.clone(), lines.join("\n"));
        }
        let exclude = random.line();
        std::fs::write(tmp.path().join(".git/info/exclude"), &exclude).expect("a file");
        let sample: Vec<&(String, bool)> = (0..200).map(|_| &paths[random.below(paths.len())]).collect();
        let texts: Vec<&str> = sample.iter().map(|(text, _)| text.as_str()).collect();
        let verdicts = git_says(tmp.path(), &texts);
        assert_eq!(verdicts.len(), sample.len());
        for ((text, is_dir), expected) in sample.into_iter().zip(verdicts) {
            let target = path(text);
            let got = rules_for(&files, &exclude, &target).is_ignored(&target, *is_dir);
            assert_eq!(got, expected, "round {round}: {text:?} {is_dir} by {files:?} and {exclude:?}");
            asked += 1;
        }
    }
    assert!(asked > 20_000, "{asked}");
}
