//! Git badges of a listing: right at once, per repository, within policy, and without a trace or a program run.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{Client, Mounted, Setup, program, sh};

/// A repository with a first commit of what is in the source.
const COMMIT: &str = "git init -q -b main . && git config user.email t@example.org && git config user.name t && \
                      git add -A && git commit -qm one";

fn badges(client: &mut Client, more: Value) -> BTreeMap<String, String> {
    let mut arguments = json!({"git": true});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let listed = client.call("list", &arguments);
    let badge = |entry: &Value| Some((entry["path"].as_str()?.to_owned(), entry.get("git")?.as_str()?.to_owned()));
    listed["entries"].as_array().unwrap().iter().filter_map(badge).collect()
}

fn of(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(path, badge)| ((*path).to_owned(), (*badge).to_owned())).collect()
}

fn repository(files: &[&str], more: Setup) -> Option<Mounted> {
    program("git");
    let setup = files.iter().fold(more, |setup, path| setup.file(path, format!("content of {path}\n")));
    sh(setup.source(), COMMIT).ok();
    setup.mount()
}

#[test]
fn every_kind_of_change_has_its_badge() {
    let Some(mount) = repository(
        &["clean", "changed", "staged", "out", "moved", "dir/clean", "dir/changed", "gone/x", "gone/y", "ö b/ü"],
        Setup::new(),
    ) else {
        return;
    };
    let mut client = mount.client();
    assert_eq!(badges(&mut client, json!({})), of(&[]));
    let script =
        "echo x >> changed; echo x >> staged; git add staged; echo n > new; git add new; git rm -q --cached out
        git mv moved moved2; echo x >> dir/changed; rm gone/x; mkdir all; echo u > all/u; echo u > u; echo x >> 'ö b/ü'
        echo ignored > .gitignore; echo i > ignored";
    sh(mount.source(), script).ok();
    let expected = of(&[
        ("changed", "M"),
        ("staged", "M"),
        ("new", "A"),
        ("out", "D"),
        ("moved2", "R"),
        ("dir", "M"),
        ("dir/changed", "M"),
        ("gone", "M"),
        ("all", "?"),
        ("all/u", "?"),
        ("u", "?"),
        ("ö b", "M"),
        ("ö b/ü", "M"),
    ]);
    assert_eq!(badges(&mut client, json!({})), expected);
    assert_eq!(badges(&mut client, json!({"sort": "size"})), expected);
    assert_eq!(badges(&mut client, json!({"path": "dir"})), of(&[("dir/changed", "M")]));
    assert_eq!(badges(&mut client, json!({"path": "all"})), of(&[("all/u", "?")]));
    assert_eq!(badges(&mut client, json!({"ignored": true, "pattern": "ignored"})), of(&[]));
    let text = client.request("tools/call", &json!({"name": "list", "arguments": {"git": true, "pattern": "u"}}));
    assert!(text["result"]["content"].to_string().contains("u 2 [?]"), "{text}");
}

#[test]
fn before_the_first_commit_all_is_new() {
    program("git");
    let setup = Setup::new().file("a", "x").file("b", "x");
    sh(setup.source(), "git init -q .; git add a").ok();
    let Some(mount) = setup.mount() else { return };
    assert_eq!(badges(&mut mount.client(), json!({})), of(&[("a", "A"), ("b", "?")]));
}

#[test]
fn packed_references_and_detached_heads_are_followed() {
    let Some(mount) = repository(&["a", "b"], Setup::new()) else { return };
    sh(mount.source(), "git pack-refs --all; git gc -q; echo x >> a").ok();
    let mut client = mount.client();
    assert_eq!(badges(&mut client, json!({})), of(&[("a", "M")]));
    sh(mount.source(), "git checkout -q --detach; echo x >> b").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[("a", "M"), ("b", "M")]));
}

#[test]
fn each_repository_speaks_for_itself() {
    let Some(mount) = repository(&["a"], Setup::new().file("plain/x", "x")) else { return };
    let script = format!("mkdir -p in/ner; cd in/ner; echo 1 > p; echo 1 > q; {COMMIT}; echo 2 > q");
    sh(mount.source(), &script).ok();
    let mut client = mount.client();
    let inner = of(&[("in", "?"), ("in/ner", "M"), ("in/ner/q", "M")]);
    assert_eq!(badges(&mut client, json!({})), inner);
    assert_eq!(badges(&mut client, json!({"path": "in/ner"})), of(&[("in/ner/q", "M")]));
}

#[test]
fn a_directory_of_repositories_is_badged_too() {
    program("git");
    let setup = Setup::new().file("one/a", "1").file("two/a", "1").file("none/a", "1");
    sh(setup.source(), &format!("for d in one two; do (cd $d && {COMMIT}); done; echo 2 > two/a")).ok();
    let Some(mount) = setup.mount() else { return };
    assert_eq!(badges(&mut mount.client(), json!({})), of(&[("two", "M"), ("two/a", "M")]));
}

#[test]
fn what_just_changed_is_told_at_once() {
    let Some(mount) = repository(&["a", "b"], Setup::new()) else { return };
    let mut client = mount.client();
    for _ in 0..3 {
        assert_eq!(badges(&mut client, json!({})), of(&[]), "a clean tree");
    }
    // Beside the mount, through it, through an open file, and by a tool.
    std::fs::write(mount.source().join("a"), "beside\n").unwrap();
    assert_eq!(badges(&mut client, json!({})), of(&[("a", "M")]));
    sh(mount.source(), "git checkout -q a").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]));
    std::fs::write(mount.at("b"), "through\n").unwrap();
    assert_eq!(badges(&mut client, json!({})), of(&[("b", "M")]));
    sh(mount.path(), "git checkout -q b").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]));
    let open = std::fs::OpenOptions::new().append(true).open(mount.at("b")).unwrap();
    assert_eq!(badges(&mut client, json!({})), of(&[]));
    std::io::Write::write_all(&mut &open, b"open\n").unwrap();
    assert_eq!(badges(&mut client, json!({})), of(&[("b", "M")]));
    drop(open);
    client.call("write", &json!({"path": "c", "content": "x"}));
    assert_eq!(badges(&mut client, json!({})), of(&[("b", "M"), ("c", "?")]));
    sh(mount.source(), "git add c").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[("b", "M"), ("c", "A")]));
    sh(mount.source(), "git commit -qm two c").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[("b", "M")]));
}

fn traces(dir: &Path) -> String {
    sh(dir, "find .git -printf '%p %y %s %i %T@ %C@\\n' | sort").ok()
}

#[test]
fn nothing_is_written_into_a_repository() {
    let Some(mount) = repository(&["a", "b"], Setup::new()) else { return };
    // Other times than the index has: git would like to note that nothing else changed.
    sh(mount.source(), "touch -d '2001-01-01' a; echo x > b").ok();
    let before = traces(mount.source());
    assert_eq!(badges(&mut mount.client(), json!({})), of(&[("b", "M")]));
    assert_eq!(traces(mount.source()), before);
}

#[test]
fn no_program_that_a_repository_names_is_run() {
    let Some(mount) = repository(&["a", "b"], Setup::new()) else { return };
    let ran = mount.source().join("ran");
    let script = format!(
        "printf '#!/bin/sh\\necho \"$0\" >> {0}\\n' > {0}.sh; chmod +x {0}.sh
        git config core.fsmonitor {0}.sh; git config core.hooksPath .; git config filter.x.clean {0}.sh
        git config filter.x.process {0}.sh; git config core.sshCommand {0}.sh
        printf '* filter=x\\n' > .gitattributes; cp {0}.sh post-index-change; cp {0}.sh .git/hooks/post-index-change
        touch a b; echo x >> b",
        ran.display()
    );
    sh(mount.source(), &script).ok();
    let _ = std::fs::remove_file(&ran);
    let found = badges(&mut mount.client(), json!({}));
    assert_eq!(found.get("b").map(String::as_str), Some("M"), "{found:?}");
    assert!(!ran.exists(), "{:?}", std::fs::read_to_string(&ran));
    // The same by git itself: the check can fail.
    sh(mount.source(), "git status > /dev/null 2>&1 || true").ok();
    assert!(ran.exists());
}

#[test]
fn of_what_is_hidden_nothing_is_told() {
    let policy = "allow = [\"**\"]\ndeny = [\"secret*\"]\n";
    let files = ["a/secret", "b/secret.txt", "b/open", "c/x"];
    let Some(mount) = repository(&files, Setup::new().policy(policy)) else { return };
    sh(
        mount.source(),
        "echo x >> a/secret; rm b/secret.txt; echo x >> c/x; mkdir d; echo x > d/secret; touch d/secrets",
    )
    .ok();
    assert_eq!(badges(&mut mount.client(), json!({})), of(&[("c", "M"), ("c/x", "M")]));
    for hidden in [".git", ".git/index", ".git/HEAD", ".git/objects"] {
        let policy = format!("allow = [\"**\"]\ndeny = [\"{hidden}\"]\n");
        let Some(mount) = repository(&["a"], Setup::new().policy(&policy)) else { return };
        sh(mount.source(), "echo x >> a").ok();
        assert_eq!(badges(&mut mount.client(), json!({})), of(&[]), "{hidden}");
    }
}

#[test]
fn trouble_leaves_badges_out_and_nothing_else() {
    let Some(mount) = repository(&["a"], Setup::new()) else { return };
    let mut client = mount.client();
    sh(mount.source(), "echo x >> a; cp .git/index index; echo no > .git/index").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]), "an index that is none");
    sh(mount.source(), "rm .git/index; mkfifo .git/index").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]), "an index that never comes");
    sh(mount.source(), "rm .git/index; mv index .git/index; echo x > .git/HEAD").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]), "a HEAD that is none");
    sh(mount.source(), "echo 'ref: refs/heads/main' > .git/HEAD; mv .git .real; echo 'gitdir: .real' > .git").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]), "a repository elsewhere");
    sh(mount.source(), "rm .git; ln -s .real .git").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[]), "a link to one");
    sh(mount.source(), "rm .git; mv .real .git").ok();
    assert_eq!(badges(&mut client, json!({})), of(&[("a", "M")]));
}

#[test]
fn a_slow_git_is_not_waited_for() {
    program("git");
    let mut setup = Setup::new().file("a", "x");
    sh(setup.source(), &format!("{COMMIT}; echo x >> a")).ok();
    let bin = setup.dir().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    setup.set_environment(&[("PATH", &path)]);
    let slow = bin.join("git");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 30\n").unwrap();
    sh(&bin, "chmod +x git").ok();
    let Some(mount) = setup.mount() else { return };
    let mut client = mount.client();
    let start = Instant::now();
    assert_eq!(badges(&mut client, json!({})), of(&[]));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    std::fs::remove_file(&slow).unwrap();
    assert_eq!(badges(&mut client, json!({})), of(&[("a", "M")]));
}
