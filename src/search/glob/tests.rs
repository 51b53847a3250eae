//! Globs by table, against globset, and what a walk may skip.

use proptest::prelude::*;

use super::*;

fn path(text: &[u8]) -> ViewPath {
    ViewPath::parse(text).expect("a path")
}

fn check(dialect: Dialect, pattern: &str, matching: &[&str], others: &[&str]) {
    let glob = Glob::new(pattern, dialect, false).expect(pattern);
    for (texts, expected) in [(matching, true), (others, false)] {
        for text in texts {
            assert_eq!(glob.is_match(&path(text.as_bytes())), expected, "{pattern} on {text}");
        }
    }
}

#[test]
fn the_native_dialect() {
    let native = |pattern: &str, matching: &[&str], others: &[&str]| check(Dialect::Native, pattern, matching, others);
    native("*.js", &["a.js", ".a.js"], &["d/a.js"]);
    native("**/*.js", &["a.js", "d/a.js", ".d/e/a.js"], &["a.jsx"]);
    native("a/**", &["a/b", "a/b/c"], &["a", "ba/b"]);
    native("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/bb", "xa/b"]);
    native("**/b/**", &["b/x", "a/b/x/y"], &["b", "a/b"]);
    native("**", &["a", "a/b"], &[""]);
    native("a**/c", &["a/c", "ab/c"], &["ab/d/c"]);
    native("?.js", &["a.js", "é.js", "日.js"], &["ab.js", ".js"]);
    native("*.{js,ts}", &["a.js", "a.ts"], &["a.{js,ts}"]);
    native("{a,b/c}/{,x}y", &["a/y", "a/xy", "b/c/y"], &["b/y", "a/"]);
    native("{a,{b,c}d}", &["a", "bd", "cd"], &["b"]);
    native("[!a]*.[jt]s", &["b.js", "bb.ts"], &["a.js", "b.cs"]);
    native("[]x-]", &["]", "x", "-"], &["y"]);
    native("[à-ü]", &["é"], &["e"]);
    native(r"\{a\}\*[\]]", &["{a}*]"], &["a*]"]);
    native("!(a)", &["!(a)"], &["b"]);
    native("./a", &["a"], &["b/a"]);
    native("/a", &["a"], &["b/a"]);
    assert!(Glob::new("a/", Dialect::Native, false).is_ok_and(|g| g.dirs_only() && g.is_match(&path(b"a"))));
}

#[test]
fn the_plain_dialect() {
    let plain = |pattern: &str, matching: &[&str], others: &[&str]| check(Dialect::Plain, pattern, matching, others);
    plain("*", &["a"], &["a/b"]);
    plain("**/*.mjs", &["a.mjs", "d/e/a.mjs"], &["a.js"]);
    plain("a/x{y}.js", &["a/x{y}.js"], &["a/xy.js"]);
    plain("[ab]", &["[ab]"], &["a"]);
    plain(r"a\*", &[r"a\b"], &["a*"]);
    plain("**.js", &["a.js", "d/a.js"], &["a.ts"]);
    plain("a**/c", &["a/c", "ab/x/c"], &["b/c", "ac"]);
    plain("src/a**b/?", &["src/ab/x", "src/a/y/b/x"], &["src/ab/xx", "src/b/x"]);
    plain("**/**x", &["x", "a/bx"], &["y"]);
}

#[test]
fn the_gitignore_dialect() {
    let git = |pattern: &str, matching: &[&str], others: &[&str]| check(Dialect::Gitignore, pattern, matching, others);
    git("*.js", &["a.js", "d/e/a.js"], &["a.ts"]);
    git("/*.js", &["a.js"], &["d/a.js"]);
    git("d/*.js", &["d/a.js"], &["x/d/a.js"]);
    git("{a,b}", &["{a,b}", "x/{a,b}"], &["a"]);
    git("[[:digit:]x]", &["7", "d/x"], &["a", ":"]);
    git("build", &["build", "a/build"], &["build/x"]);
}

#[test]
fn case_is_folded_when_asked() {
    let folds = |pattern: &str, dialect: Dialect, text: &str| {
        Glob::new(pattern, dialect, true).expect(pattern).is_match(&path(text.as_bytes()))
    };
    for dialect in [Dialect::Native, Dialect::Plain, Dialect::Gitignore] {
        assert!(folds("*.MD", dialect, "readme.md"));
        assert!(folds("straÄe*", dialect, "STRAäEN"));
        assert!(!folds("*.md", dialect, "readme.mx"));
    }
    assert!(folds("[a-c]", Dialect::Native, "B"));
    assert!(folds("[A-C]", Dialect::Native, "b"));
    assert!(folds("d**X", Dialect::Plain, "D/x"));
}

#[test]
fn names_that_are_not_utf8_match() {
    for dialect in [Dialect::Native, Dialect::Plain, Dialect::Gitignore] {
        let glob = Glob::new("caf?.txt", dialect, false).expect("valid");
        assert!(glob.is_match(&path(b"caf\xe9.txt")) && glob.is_match_name("café.txt".as_bytes()));
        assert!(Glob::new("*.txt", dialect, false).expect("valid").is_match(&path(b"\xff\xfe.txt")));
    }
    assert!(Glob::new("d**x?", Dialect::Plain, false).expect("valid").is_match(&path(b"d\xff/x\xe9")));
}

#[test]
fn malformed_patterns_are_refused() {
    let long = "a".repeat(1_001);
    let many = "{a,b}".repeat(20);
    for bad in ["", "/", "./", "[a", "a{b", "a}b", "a\\", "[b-a]", "a//b", "../a", &long, &many] {
        let error = Glob::new(bad, Dialect::Native, false).expect_err(bad);
        assert!(!error.reason.is_empty() && error.pattern.len() <= 120);
    }
    for fine in ["[a", "a{b", "a}b", "a\\", "[b-a]"] {
        assert!(Glob::new(fine, Dialect::Plain, false).is_ok(), "{fine}");
    }
    assert!(Glob::new("!a", Dialect::Gitignore, false).is_err());
    assert!(Glob::new("[[:nope:]]", Dialect::Gitignore, false).is_err());
}

#[test]
fn a_walk_skips_what_cannot_match() {
    for (pattern, dir, expected) in [
        ("src/*.rs", "src", true),
        ("src/*.rs", "lib", false),
        ("src/*.rs", "src/a", false),
        ("src/**/x", "src/a/b", true),
        ("{a,b}/c", "b", true),
        ("{a,b}/c", "c", false),
        ("*.rs", "src", false),
        ("*.rs", "", true),
        ("a", "a", false),
    ] {
        let glob = Glob::new(pattern, Dialect::Native, false).expect(pattern);
        assert_eq!(glob.could_match_below(&path(dir.as_bytes())), expected, "{pattern} below {dir:?}");
    }
    let plain = Glob::new("a/b**c", Dialect::Plain, false).expect("valid");
    assert!(plain.could_match_below(&path(b"a/bx/y")) && !plain.could_match_below(&path(b"b")));
}

fn text() -> impl Strategy<Value = String> {
    let piece =
        prop::sample::select(vec!["a", "b", "/", "*", "**", "**/", "?", "[ab]", "[!a]", "{a,b}", "{a,b/a}", "\\a"]);
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

fn some_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "ba", "c", "aab"]), 1..5)
        .prop_map(|names| names.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn skipping_a_directory_loses_nothing(pattern in text(), target in some_path(), which in 0usize..3, fold: bool) {
        let dialect = [Dialect::Native, Dialect::Plain, Dialect::Gitignore][which];
        if let Ok(glob) = Glob::new(&pattern, dialect, fold) && glob.is_match(&path(target.as_bytes())) {
            let mut at = path(target.as_bytes());
            while let Some(parent) = at.parent() {
                prop_assert!(glob.could_match_below(&parent), "{pattern} on {target}, below {parent}");
                at = parent;
            }
        }
    }

    /// The native dialect is globset's, where both know the pattern. (Braces around `**` are read by globset after the
    /// place of the brace, here as if written out.)
    #[test]
    fn native_patterns_equal_globset(pattern in text(), target in some_path()) {
        let theirs = globset::GlobBuilder::new(&pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build();
        let unusual = pattern.starts_with('/') || pattern.ends_with('/') || pattern.contains("}**") || pattern.contains("**{");
        if let (Ok(ours), Ok(theirs), false) = (Glob::new(&pattern, Dialect::Native, false), theirs, unusual) {
            prop_assert_eq!(ours.is_match(&path(target.as_bytes())), theirs.compile_matcher().is_match(&target), "{} on {}", pattern, target);
        }
    }
}
