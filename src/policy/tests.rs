//! What the lists make of paths: a table, the slow reference, git itself, and the cost of one judgement.

use proptest::prelude::*;

use super::*;

const OPEN: Option<Class> = Some(Class { read_only: false, unversioned: false });
const FIXED: Option<Class> = Some(Class { read_only: true, unversioned: false });
const HIDDEN: Option<Class> = None;

fn list(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().enumerate().map(|(at, t)| Pattern { text: (*t).into(), origin: format!("test:{}", at + 1) }).collect()
}

fn spec(allow: &[&str], deny: &[&str], read_only: &[&str]) -> PolicySpec {
    PolicySpec { allow: list(allow), deny: list(deny), read_only: list(read_only), ..PolicySpec::default() }
}

fn path(text: &str) -> ViewPath {
    ViewPath::parse(text.as_bytes()).expect(text)
}

/// A path ending in `/` is a directory.
fn check(spec: &PolicySpec, cases: &[(&str, Option<Class>)]) {
    let policy = Policy::compile(spec).expect("valid patterns");
    for (text, expected) in cases {
        let is_dir = text.is_empty() || text.ends_with('/');
        let explained = policy.explain(&path(text), is_dir);
        assert_eq!(policy.class(&path(text), is_dir), *expected, "{text}: {explained:?}");
        assert_eq!(explained.class, *expected, "{text}");
    }
}

#[test]
fn deny_beats_read_only_beats_allow() {
    let mut policy = spec(&["**"], &[".env*", "*.pem", ".git/config", "!certs/public.pem"], &[".git/**", "/vendor/**"]);
    policy.unversioned = list(&["target/**", "!target/keep"]);
    check(
        &policy,
        &[
            ("", OPEN),
            ("src/main.rs", OPEN),
            (".env", HIDDEN),
            ("a/.env.local/x", HIDDEN),
            ("certs/public.pem", OPEN),
            ("certs/private.pem", HIDDEN),
            (".git/", OPEN),
            (".git/config", HIDDEN),
            (".git/HEAD", FIXED),
            ("sub/.git/config", OPEN),
            ("vendor/", OPEN),
            ("vendor/a/b", FIXED),
            ("a/vendor/b", OPEN),
            ("target/debug/x", Some(Class { read_only: false, unversioned: true })),
            ("target/keep/x", OPEN),
        ],
    );
}

#[test]
fn a_directory_that_leads_to_something_allowed_is_shown() {
    check(
        &spec(&["src/**/*.rs", "/docs/"], &[], &[]),
        &[
            ("", FIXED),
            ("src/", FIXED),
            ("src/any/dir/", FIXED),
            ("src/a.rs", OPEN),
            ("src/any/dir/a.rs", OPEN),
            ("src/a.txt", HIDDEN),
            ("src", HIDDEN),
            ("docs/", OPEN),
            ("docs", HIDDEN),
            ("docs/a/b", OPEN),
            ("lib/", HIDDEN),
            ("lib/a.rs", HIDDEN),
        ],
    );
    check(&spec(&["*.rs"], &[], &[]), &[("any/where/", FIXED), ("any/where/a.rs", OPEN), ("any/where/a", HIDDEN)]);
}

#[test]
fn entries_are_made_in_directories_that_only_lead_to_them() {
    let check = |spec: &PolicySpec, dir: &str, expected: bool| {
        let policy = Policy::compile(spec).expect("valid patterns");
        assert_eq!(policy.takes_entries(&path(dir)), expected, "{dir:?} in {spec:?}");
    };
    let src = spec(&["src/**/*.rs", "/docs/"], &[], &["src/gen/"]);
    for (dir, expected) in [
        ("", true),
        ("src", true),
        ("src/a/b", true),
        ("src/gen", false),
        ("src/gen/a", false),
        ("lib", false),
        ("docs", false),
    ] {
        check(&src, dir, expected);
    }
    check(&PolicySpec { all_read_only: true, ..src }, "src", false);
    check(&spec(&["**"], &[], &[]), "src", false);
    check(&spec(&["a/b"], &["a"], &[]), "a", false);
}

#[test]
fn negation_takes_the_narrower_reading() {
    // Below a denied directory nothing comes back; the entries of a directory can.
    check(&spec(&["**"], &["certs/", "!certs/public.pem"], &[]), &[("certs/", HIDDEN), ("certs/public.pem", HIDDEN)]);
    check(
        &spec(&["**"], &["certs/*", "!certs/public.pem"], &[]),
        &[("certs/", OPEN), ("certs/public.pem", OPEN), ("certs/x", HIDDEN)],
    );
    // What `allow` takes away is gone with all below, however it was given.
    check(&spec(&["**", "!secret/"], &[], &[]), &[("secret/", HIDDEN), ("secret/a/b", HIDDEN), ("open/a", OPEN)]);
    check(
        &spec(&["src/**", "!src/gen/**"], &[], &[]),
        &[("src/gen/", OPEN), ("src/gen/a", HIDDEN), ("src/lib/a", OPEN)],
    );
    check(&spec(&["**", "!a/", "a/b"], &[], &[]), &[("a/", FIXED), ("a/b", OPEN), ("a/c", HIDDEN)]);
    check(&spec(&["**"], &[], &["*", "!open/"]), &[("open/", OPEN), ("open/a", FIXED)]);
}

#[test]
fn the_root_stays_and_an_empty_allow_list_shows_nothing_else() {
    check(&spec(&["**"], &["**"], &[]), &[("", OPEN), ("a", HIDDEN), ("a/b/", HIDDEN)]);
    check(&spec(&[], &[], &[]), &[("", FIXED), ("a/", HIDDEN), ("a", HIDDEN)]);
    check(&spec(&["**"], &[], &["**"]), &[("", FIXED), ("a", FIXED)]);
    let all = PolicySpec { all_read_only: true, ..PolicySpec::default() };
    check(&all, &[("", FIXED), ("a/b", FIXED)]);
}

#[test]
fn names_are_bytes_and_braces_mean_themselves() {
    let policy = Policy::compile(&spec(&["**"], &["{secret}.txt", "k?y"], &[])).expect("valid patterns");
    assert_eq!(policy.class(&path("secret.txt"), false), OPEN);
    assert_eq!(policy.class(&path("{secret}.txt"), false), HIDDEN);
    let raw = ViewPath::parse(b"d\xff/k\xfey").expect("a path");
    assert_eq!(policy.class(&raw, false), HIDDEN);
}

#[test]
fn explanations_name_the_pattern_that_decides() {
    let policy = Policy::compile(&spec(&["src/**", "!src/gen"], &["*.key", "!a.key"], &[])).expect("valid patterns");
    let decided = |text: &str| {
        let explained = policy.explain(&path(text), false);
        explained.matches.iter().map(|(list, p, on)| (*list, p.text.clone(), *on)).collect::<Vec<_>>()
    };
    assert_eq!(decided("src/gen/x"), [(List::Allow, "!src/gen".into(), false)]);
    assert_eq!(decided("src/a.key"), [(List::Allow, "src/**".into(), true), (List::Deny, "!a.key".into(), false)]);
    assert_eq!(decided("src/b.key/x"), [(List::Allow, "src/**".into(), true), (List::Deny, "*.key".into(), true)]);
    assert!(policy.explain(&path("src"), true).leads_to_allowed);
    assert!(!policy.explain(&path("src/a"), true).leads_to_allowed);
}

#[test]
fn what_looks_like_protection_and_gives_none_is_refused() {
    for bad in ["", "   ", "# note", "a//b", "./secret", "../x", "/", "!", "[a", "x\\", "a\nb"] {
        let error = Policy::compile(&spec(&["**"], &["ok", bad], &[])).expect_err(bad);
        assert_eq!((error.origin.as_str(), error.text.as_str()), ("test:2", bad));
        assert!(!error.reason.is_empty());
    }
}

#[test]
fn uniform_means_that_no_rename_can_change_a_class() {
    let uniform = |allow: &[&str], deny: &[&str], fixed: &[&str]| {
        Policy::compile(&spec(allow, deny, fixed)).expect("valid patterns").is_uniform()
    };
    assert!(uniform(&["**"], &[], &[]));
    assert!(uniform(&["src", "*"], &["!x"], &[]));
    assert!(uniform(&["**"], &[], &["**"]));
    assert!(!uniform(&["**"], &["x"], &[]));
    assert!(!uniform(&["**", "!x"], &[], &[]));
    assert!(!uniform(&["**/"], &[], &[]));
    assert!(!uniform(&["**"], &[], &["*", "!x"]));
    assert!(!uniform(&[], &[], &[]));
}

#[test]
fn only_more_sight_or_more_writing_widens() {
    let unversioned = Some(Class { read_only: false, unversioned: true });
    assert!(Policy::widens(HIDDEN, FIXED));
    assert!(Policy::widens(FIXED, OPEN));
    assert!(!Policy::widens(OPEN, FIXED));
    assert!(!Policy::widens(OPEN, HIDDEN));
    assert!(!Policy::widens(HIDDEN, HIDDEN));
    assert!(!Policy::widens(OPEN, unversioned));
}

/// Not a measurement, a guard against accidents: the best of many rounds, in a build without optimisation and on a busy
/// machine, stays within 50 µs a path. (Optimised it is about 0.5 µs.)
#[test]
fn one_judgement_is_cheap() {
    let mut policy = spec(
        &["**"],
        &[".env*", "*.pem", "*.key", ".git/config", "!certs/public.pem", "secrets/"],
        &[".git/**", "/vendor/**"],
    );
    policy.unversioned = list(&["target/**", "node_modules/**"]);
    let policy = Policy::compile(&policy).expect("valid patterns");
    let path = path("crates/app/src/module/file_name.rs");
    let round = || {
        let start = std::time::Instant::now();
        assert!((0..200).all(|_| policy.class(std::hint::black_box(&path), false).is_some()));
        start.elapsed().as_nanos() / 200
    };
    let best = (0..100).map(|_| round()).min().expect("there were rounds");
    eprintln!("{best} ns a path");
    assert!(best < 50_000, "{best} ns a path");
}

fn pattern_text() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("*"), Just("**"), Just("a*"), Just("?")];
    (any::<bool>(), any::<bool>(), prop::collection::vec(name, 1..4), any::<bool>()).prop_map(
        |(not, root, names, dir)| {
            format!(
                "{}{}{}{}",
                if not { "!" } else { "" },
                if root { "/" } else { "" },
                names.join("/"),
                if dir { "/" } else { "" }
            )
        },
    )
}

fn lists() -> impl Strategy<Value = PolicySpec> {
    let patterns = || {
        prop::collection::vec(pattern_text(), 0..4)
            .prop_map(|texts| list(&texts.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    (patterns(), patterns(), patterns(), patterns()).prop_map(|(allow, deny, read_only, unversioned)| PolicySpec {
        allow,
        deny,
        read_only,
        unversioned,
        all_read_only: false,
    })
}

/// Every path of up to `depth` names over an alphabet that tells the test's patterns apart.
fn paths(depth: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..depth {
        let to = all.len();
        for at in from..to {
            for name in ["a", "b", "ab", "c"] {
                all.push(if all[at].is_empty() { name.to_string() } else { format!("{}/{name}", all[at]) });
            }
        }
        from = to;
    }
    all.remove(0);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The reference finds what a directory leads to by trying paths below it, so it can only ever show less.
    #[test]
    fn verdicts_equal_the_slow_reference(spec in lists(), deep in 0usize..84, is_dir: bool) {
        let all = paths(3);
        let text = &all[deep];
        let policy = Policy::compile(&spec).expect("valid patterns");
        let tails = paths(3);
        let below: Vec<String> = tails.iter().map(|t| format!("{text}/{t}")).collect();
        let expected = reference::class(&spec, text, is_dir, &below);
        let got = policy.class(&path(text), is_dir);
        let leads = is_dir && policy.leads_only(&path(text));
        prop_assert!(got == expected || (leads && expected.is_none()), "{text} {got:?} {expected:?}");
        if policy.is_uniform() {
            prop_assert_eq!(got, policy.class(&ViewPath::root(), true));
        }
    }

    /// Whatever is visible hangs on directories that are visible.
    #[test]
    fn parents_of_visible_paths_are_visible(spec in lists(), deep in 0usize..84) {
        let text = &paths(3)[deep];
        let policy = Policy::compile(&spec).expect("valid patterns");
        if policy.class(&path(text), false).is_some() {
            let mut at = path(text);
            while let Some(parent) = at.parent() {
                prop_assert!(policy.class(&parent, true).is_some(), "{parent} above {text}");
                at = parent;
            }
        }
    }
}
