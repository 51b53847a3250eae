//! Config files, whole ones and those with each kind of mistake.

use super::*;

fn load(text: &str) -> Result<Config, String> {
    parse_config(Path::new("c.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn a_whole_config_is_read() {
    let config = load(
        "[view.agent]\nmountpoint = \"/mnt/agent\"\nalias = [\"/w\", \"/project\"]\nsources = [\n  \"/srv/app\",\n  \
         { path = \"/srv/docs\", name = \"d\", access = \"read\" },\n]\nsocket = \"/run/s\"\n[view.agent.policy]\n\
         allow = [\n  \"src/**\",\n  \"docs/**\",\n]\ndeny = [\".env*\"]\nrequire_hash = true\nreview = true\nfeatures = [\"read\"]\n\
         [view.other]\nsources = [\"/srv/app\"]\ntools = \"native\"\n[store]\ndurability = \"relaxed\"\n",
    )
    .expect("a good config");
    let view = &config.views[0];
    let source = |path: &str, name: &str, read_only| SourceConfig { path: path.into(), name: name.into(), read_only };
    assert_eq!(view.sources, [source("/srv/app", "app", false), source("/srv/docs", "d", true)]);
    assert_eq!(view.mountpoint.as_deref(), Some(Path::new("/mnt/agent")));
    let origins: Vec<&str> =
        view.policy.allow.iter().flatten().chain(&view.policy.deny).map(|pattern| &*pattern.origin).collect();
    assert_eq!(origins, ["c.toml:11", "c.toml:12", "c.toml:14"]);
    assert!(config.store.relaxed && view.policy.require_hash && view.policy.review);
    assert_eq!(
        (view.policy.features.as_slice(), view.alias.as_slice()),
        (&["read".into()][..], &["/w".into(), "/project".into()][..])
    );
    let other = &config.views[1];
    assert_eq!((&*other.name, other.mountpoint.as_deref(), &*other.alias[0]), ("other", None, "/workspace"));
    assert_eq!(other.policy, PolicyConfig::default());
}

#[test]
fn one_alias_needs_no_list() {
    let config = load("[view.a]\nsources = [\"/x\"]\nalias = \"/w\"\n").expect("a good config");
    assert_eq!(config.views[0].alias, ["/w"]);
}

#[test]
fn mistakes_are_refused_with_their_place_and_what_was_expected() {
    let check = |text: &str, expected: &str| {
        assert_eq!(load(text).expect_err(text), expected, "{text}");
    };
    check(
        "[view.a]\nsources = [\"/x\"]\nmountpiont = \"/y\"\n",
        "c.toml:3:1: unknown field `mountpiont`, expected one of `mountpoint`, `sources`, `tools`, `alias`, `socket`, `policy`",
    );
    check("[view.a]\n", "c.toml:1:1: missing field `sources`");
    check("[view.a]\nsources = []\n", "c.toml:2:11: a view needs at least one source");
    check("[view.a]\nsources = [\"\"]\n", "c.toml:2:12: expected a path, and this is empty");
    check(
        "[view.a]\nsources = [\"/x/a\", \"/y/a\"]\n",
        "c.toml:2:20: two sources are named \"a\"; give one another: { path = …, name = … }",
    );
    check("[view.a]\nsources = [\"/\"]\n", "c.toml:2:12: this source needs a `name`: { path = …, name = … }");
    check(
        "[view.a]\nsources = [ { path = \"/x\", access = \"wriet\" } ]\n",
        "c.toml:2:37: access is \"read\" or \"write\", not \"wriet\"",
    );
    check(
        "[view.a]\nsources = [ { path = \"/x\", acess = \"read\" } ]\n",
        "c.toml:2:28: unknown field `acess`, expected one of `path`, `name`, `access`",
    );
    check(
        "[view.a]\nsources = [ 7 ]\n",
        "c.toml:2:13: invalid type: integer `7`, expected a directory, or a table with `path`, and `name` and `access` if you like",
    );
    check("[view.a]\nsources = [\"$NO_SUCH_THING/x\"]\n", "c.toml:2:12: $NO_SUCH_THING/x: $NO_SUCH_THING is not set");
    check(
        "[view.a]\nsources = [\"/x\"]\n[view.a.policy]\nfeatures = [\"read\", \"fly\"]\n",
        "c.toml:4:21: \"fly\" is no feature; there are read, search, write",
    );
    check(
        "[view.a]\nsources = [\"/x\"]\n[view.a.policy]\ndeny = \".env\"\n",
        "c.toml:4:8: invalid type: string \".env\", expected a sequence",
    );
    check(
        "[view.a]\nsources = [\"/x\"]\n[store]\ndurability = \"most\"\n",
        "c.toml:4:14: durability is \"strict\" or \"relaxed\", not \"most\"",
    );
    check(
        "[view.a]\nsources = [\"/x\"]\ntools = \"burow\"\n",
        "c.toml:3:9: there is no tool profile \"burow\"; there is native",
    );
    check(
        "[view.a]\nsources = [\"/x\"]\nalias = \"w\"\n",
        "c.toml:3:9: an alias is an absolute path, and \"w\" is none",
    );
    check("[view.\"a/b\"]\nsources = [\"/x\"]\n", "c.toml:1:7: a view's name is a word without slashes");
    check("[store]\n", "c.toml: it has no [view.NAME]; a file of policy keys alone goes with --policy");
    check("[view.a]\nsources = [\"/x\"\n", "c.toml:2:16: unclosed array, expected `]`");
}

#[test]
fn what_this_version_does_not_do_is_not_passed_over() {
    let check = |table: &str, line: &str, key: &str| {
        let error = load(&format!("[view.a]\nsources = [\"/x\"]\n{table}\n{line}\n")).expect_err(line);
        assert!(error.starts_with("c.toml:4:1: `") && error.contains(&format!("`{key}`: ")), "{error}");
        assert!(error.ends_with("; leave it out"), "{error}");
    };
    check("[view.a.policy]", "ask = [\"delete\"]", "ask");
    check("[view.a.policy]", "post_edit = [ { path = \"*.rs\", run = \"rustfmt $path\" } ]", "post_edit");
    check("[view.a.policy]", "exec = \"unconfined\"", "exec");
    let error = load("[view.a]\nsources = [\"/x\"]\npolicy.features = [\"exec\"]\n").expect_err("exec");
    assert!(error.starts_with("c.toml:3:20: ") && error.contains("exec"), "{error}");
}

#[test]
fn what_a_store_keeps_is_read_word_by_word() {
    let store = |text: &str| load(&format!("[view.a]\nsources = [\"/x\"]\n[store]\n{text}\n")).map(|c| c.store.keep);
    let keep = store(
        "on_full = \"refuse\"\nshort = [\"out/\", \"obj\"]\nretain = { full = \"2h\", sessions = \"3d\", age = \"4w\", \
         bytes = \"64MiB\", per_file = \"1MiB\", short_age = \"1h\", short_bytes = \"5KiB\" }",
    );
    let expected = KeepConfig {
        refuse: Some(true),
        short: Some(vec!["out".into(), "obj".into()]),
        full: Some(7200),
        sessions: Some(3 * 86_400),
        age: Some(28 * 86_400),
        bytes: Some(64 << 20),
        per_file: Some(1 << 20),
        short_age: Some(3600),
        short_bytes: Some(5 << 10),
    };
    assert_eq!(keep, Ok(expected));
    assert_eq!(store(""), Ok(KeepConfig::default()));
    let check = |text: &str, expected: &str| assert_eq!(store(text).expect_err(text), expected);
    check("on_full = \"stop\"", "c.toml:4:11: on_full is \"drop_oldest\" or \"refuse\", not \"stop\"");
    check(
        "retain = { age = \"30\" }",
        "c.toml:4:18: expected a span of time, as \"24h\" or \"30d\" (s, min, h, d, w, y), and this is \"30\"",
    );
    check(
        "retain = { bytes = \"10GB\" }",
        "c.toml:4:20: expected a size, as \"64MiB\" or \"10GiB\" (B, KiB, MiB, GiB, TiB), and this is \"10GB\"",
    );
    check(
        "retain = { sessions = \"2d\", age = \"1d\" }",
        "c.toml:4:35: `age` is shorter than the span before it; expected full, then sessions, then age",
    );
    check(
        "retain = { ages = \"1d\" }",
        "c.toml:4:12: unknown field `ages`, expected one of `full`, `sessions`, `age`, `bytes`, `per_file`, `short_age`, `short_bytes`",
    );
    check("short = [\"a/b\"]", "c.toml:4:10: expected the name of a directory, as \"target/\", and this is \"a/b\"");
}

#[test]
fn a_policy_file_has_the_policy_keys_alone() {
    let policy = parse_policy(Path::new("p.toml"), "deny = [\n\"a\"]\n").expect("a good policy");
    assert_eq!(policy.deny, [PatternConfig { text: "a".into(), origin: "p.toml:2".into() }]);
    let error = parse_policy(Path::new("p.toml"), "sources = []\n").expect_err("no policy key").to_string();
    assert!(error.starts_with("p.toml:1:1: unknown field `sources`, expected one of `allow`, `deny`"), "{error}");
    let error = load_policy(Path::new("/no/such/file")).expect_err("no file").to_string();
    assert!(error.starts_with("/no/such/file: cannot be read: "), "{error}");
}
