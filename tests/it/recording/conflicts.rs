//! What stands in the way of a revert, and what each choice does about it: a table of situations, each made anew for every
//! choice. A refusal changes nothing, and a dry run tells just what the revert then does.

use std::io::Write;

use serde_json::{Value, json};

use super::host;
use crate::harness::{Client, Mounted, Setup, Times, Tree, sh};

/// What a choice comes to.
enum Comes {
    /// Nothing is changed; the conflicts are told.
    Refused,
    /// These files are there, with these contents; a name that ends in `/` is a directory. The conflicts that are left are
    /// told, with one of this situation's kind among them unless it was overcome.
    Left(&'static [(&'static str, &'static str)]),
    /// As `Left`, and nothing of this kind is left.
    Overcome(&'static [(&'static str, &'static str)]),
}
use Comes::{Left, Overcome, Refused};

/// A situation.
struct Situation {
    /// Files that are there at first.
    files: &'static [(&'static str, &'static str)],
    /// The change that is to be taken back, in a shell.
    change: &'static str,
    /// What happens then.
    later: &'static str,
    /// The kind of conflict.
    code: &'static str,
    /// Where.
    path: &'static str,
    /// Open for writing while it is taken back.
    open: Option<&'static str>,
}

const OLD: &str = "1\n2\n3\n4\n5\n";
const FILE: &[(&str, &str)] = &[("f", OLD)];

const PLAIN: Situation = Situation { files: FILE, change: "", later: "true", code: "", path: "f", open: None };

fn operations(client: &mut Client) -> Vec<u64> {
    client.history(None).iter().map(|operation| operation["operation"].as_u64().unwrap()).collect()
}

/// The tree as the table writes it: with modes that are not the usual ones, and with `OP` for the operation's number.
fn listed(mount: &Mounted, op: u64) -> Vec<(String, String)> {
    let names = sh(mount.source(), "find . -mindepth 1 -printf '%P\\t%y\\t%m\\n' | LC_ALL=C sort").ok();
    let entry = |line: &str| {
        let [name, kind, mode] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let mode = if ["644", "755"].contains(&mode) { String::new() } else { format!(" {mode}") };
        let shown = name.replace(&format!(".{op}."), ".OP.") + &mode;
        match kind {
            "d" => (format!("{shown}/"), String::new()),
            _ => (shown, String::from_utf8_lossy(&host(mount, name)).into_owned()),
        }
    };
    names.lines().map(entry).collect()
}

fn conflicts(list: &Value) -> Vec<(String, String)> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.iter().map(|one| (text(&one["path"]), text(&one["conflict"]))).collect()
}

/// What an answer says was, or would be, done: everything but the numbers and hashes that come of doing it.
fn steps(answer: &Value) -> Vec<Value> {
    let list = answer["paths"].as_array().unwrap_or_else(|| panic!("no paths: {answer}"));
    let step =
        |one: &Value| json!([one["change"], one["path"], one["from"], one["before"]["size"], one["after"]["size"]]);
    list.iter().map(step).collect()
}

/// One cell of the table.
fn cell(situation: &Situation, choice: &str, comes: &Comes) {
    let setup = situation.files.iter().fold(Setup::new(), |setup, (path, text)| setup.file(path, text));
    let Some(mount) = setup.policy("unversioned = [\"cache\"]\n").mount() else { return };
    let what = format!("`{}`, then `{}`, {choice}", situation.change, situation.later);
    let mut client = mount.client();
    sh(mount.path(), situation.change).ok();
    let op = operations(&mut client)[0];
    sh(mount.path(), situation.later).ok();
    let open = situation.open.map(|path| std::fs::File::options().append(true).open(mount.at(path)).unwrap());
    let before = Tree::of(mount.source(), Times::Compare);
    let asked = json!({"operation": op, "on_conflict": choice});
    let mut dry_asked = asked.clone();
    dry_asked["dry_run"] = json!(true);
    let end = operations(&mut client);
    let dry = client.call("revert", &dry_asked);
    Tree::of(mount.source(), Times::Compare).same(&before, &format!("{what}: the dry run"));
    assert_eq!(operations(&mut client), end, "{what}: the dry run");
    let expected = (situation.path.to_owned(), situation.code.to_owned());
    let (entries, overcome) = match comes {
        Refused => {
            let error = client.try_call("revert", &asked).err().unwrap_or_else(|| panic!("{what}: not refused"));
            assert_eq!(error.code, "revert_conflict", "{what}: {}", error.body);
            let told = conflicts(&error.body["details"]["conflicts"]);
            assert!(told.contains(&expected), "{what}: {}", error.body);
            Tree::of(mount.source(), Times::Compare).same(&before, &what);
            assert_eq!(operations(&mut client), end, "{what}: the end of the log");
            assert_eq!((conflicts(&dry["conflicts"]), &dry["refused"]), (told, &json!(true)), "{what}: {dry}");
            assert_eq!(dry["paths"], json!([]), "{what}: {dry}");
            return;
        }
        Left(entries) => (entries, false),
        Overcome(entries) => (entries, true),
    };
    let done = client.call("revert", &asked);
    let told = |answer: &Value| (conflicts(&answer["conflicts"]), steps(answer));
    assert_eq!(told(&dry), told(&done), "{what}: the dry run");
    assert_eq!(dry.get("refused"), None, "{what}");
    assert_eq!(conflicts(&done["conflicts"]).contains(&expected), !overcome, "{what}: {done}");
    let entries: Vec<(String, String)> = entries.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    assert_eq!(listed(&mount, op), entries, "{what}: {done}");
    drop(open);
    if done["paths"] != json!([]) && situation.open.is_none() {
        client.call("revert", &json!({"last": "undo"}));
        Tree::of(mount.source(), Times::Compare).same(&before, &format!("{what}, taken back"));
    }
}

/// A row of the table: fail, skip, merge, force, aside.
fn row(situation: &Situation, comes: [Comes; 5]) {
    for (choice, comes) in ["fail", "skip", "merge", "force", "aside"].iter().zip(&comes) {
        cell(situation, choice, comes);
    }
}

#[test]
fn nothing_stands_in_the_way_of_what_is_as_the_change_left_it() {
    for choice in ["fail", "skip", "merge", "force", "aside"] {
        cell(&Situation { change: "echo x > f", code: "content", ..PLAIN }, choice, &Overcome(FILE));
        // By hand it is as it was already.
        let undone = Situation { change: "echo x > f", later: "seq 5 > f", code: "content", ..PLAIN };
        cell(&undone, choice, &Overcome(FILE));
    }
}

#[test]
fn a_content_that_was_changed_later() {
    let apart = Situation {
        change: "printf '1\\ntwo\\n3\\n4\\n5\\n' > f",
        later: "printf '1\\ntwo\\n3\\n4\\nfive\\n' > f",
        code: "content",
        ..PLAIN
    };
    let comes = [
        Refused,
        Left(&[("f", "1\ntwo\n3\n4\nfive\n")]),
        Overcome(&[("f", "1\n2\n3\n4\nfive\n")]),
        Overcome(FILE),
        Left(&[("f", "1\ntwo\n3\n4\nfive\n"), ("f.OP.reverted", OLD)]),
    ];
    row(&apart, comes);
}

#[test]
fn a_content_of_which_the_same_lines_were_changed_later_or_that_is_no_text_does_not_merge() {
    let change = "printf '1\\ntwo\\n3\\n4\\n5\\n' > f";
    let later = "printf '1\\nzwei\\n3\\n4\\n5\\n' > f";
    cell(&Situation { change, later, code: "content", ..PLAIN }, "merge", &Refused);
    let change = "printf '\\0b\\n\\n\\n\\n\\nx\\n' > f";
    let later = "printf '\\0b\\n\\n\\n\\n\\ny\\n' > f";
    let files = &[("f", "\0a\n\n\n\n\nx\n")];
    cell(&Situation { files, change, later, code: "content", ..PLAIN }, "merge", &Refused);
}

#[test]
fn a_content_that_was_removed_later() {
    let removed = Situation { change: "echo one > f", later: "rm f", code: "content", ..PLAIN };
    let comes = [Refused, Left(&[]), Refused, Overcome(FILE), Left(&[("f.OP.reverted", OLD)])];
    row(&removed, comes);
}

#[test]
fn a_content_that_was_changed_after_the_file_was_renamed() {
    let renamed = Situation { change: "mv f g", later: "echo 6 >> g", code: "content", path: "g", ..PLAIN };
    let comes = [
        Refused,
        Left(&[("g", "1\n2\n3\n4\n5\n6\n")]),
        Overcome(&[("f", "1\n2\n3\n4\n5\n6\n")]),
        Overcome(&[("f", "1\n2\n3\n4\n5\n6\n")]),
        Left(&[("g", "1\n2\n3\n4\n5\n6\n"), ("g.OP.reverted", OLD)]),
    ];
    row(&renamed, comes);
}

#[test]
fn metadata_alone_that_was_changed_later_stays_and_the_content_is_taken_back() {
    let meta = Situation { change: "echo one > f", later: "chmod 600 f", code: "meta", ..PLAIN };
    let kept = || Left(&[("f 600", OLD)]);
    row(&meta, [kept(), kept(), kept(), Overcome(FILE), kept()]);
}

#[test]
fn a_mode_that_was_changed_again_later() {
    let meta = Situation { change: "chmod 700 f", later: "chmod 600 f", code: "meta", ..PLAIN };
    let kept = || Left(&[("f 600", OLD)]);
    row(&meta, [kept(), kept(), kept(), Overcome(FILE), kept()]);
}

#[test]
fn a_file_that_was_made_and_changed_since() {
    let made = Situation { files: &[], change: "echo a > f", later: "echo b >> f", code: "modified_since", ..PLAIN };
    let stays = || Left(&[("f", "a\nb\n")]);
    row(&made, [Refused, stays(), Refused, Overcome(&[]), stays()]);
}

#[test]
fn a_file_that_was_removed_and_whose_path_is_taken() {
    let taken = Situation { change: "rm f", later: "echo other > f", code: "occupied", ..PLAIN };
    let comes = [
        Refused,
        Left(&[("f", "other\n")]),
        Refused,
        Overcome(FILE),
        Left(&[("f", "other\n"), ("f.OP.reverted", OLD)]),
    ];
    row(&taken, comes);
    cell(&Situation { later: "mkdir f", ..taken }, "force", &Overcome(FILE));
}

#[test]
fn a_directory_with_something_in_it_is_never_displaced() {
    let taken = Situation { change: "rm f", later: "mkdir f; echo x > f/x", code: "occupied", ..PLAIN };
    let stays = || Left(&[("f/", ""), ("f/x", "x\n")]);
    let aside = Left(&[("f/", ""), ("f.OP.reverted", OLD), ("f/x", "x\n")]);
    row(&taken, [Refused, stays(), Refused, stays(), aside]);
}

#[test]
fn a_file_that_was_renamed_and_whose_old_name_is_taken() {
    let taken = Situation { change: "mv f g", later: "echo other > f", code: "occupied", ..PLAIN };
    let comes = [
        Refused,
        Left(&[("f", "other\n"), ("g", OLD)]),
        Refused,
        Overcome(FILE),
        Left(&[("f", "other\n"), ("f.OP.reverted", OLD)]),
    ];
    row(&taken, comes);
}

#[test]
fn a_file_that_was_renamed_and_whose_old_directory_is_gone() {
    let parentless = Situation {
        files: &[("d/f", OLD)],
        change: "mv d/f g",
        later: "rmdir d",
        code: "no_parent",
        path: "d/f",
        open: None,
    };
    let comes =
        [Refused, Left(&[("g", OLD)]), Refused, Overcome(&[("d/", ""), ("d/f", OLD)]), Left(&[("f.OP.reverted", OLD)])];
    row(&parentless, comes);
}

#[test]
fn a_directory_that_was_made_and_holds_something_of_others() {
    let full =
        Situation { files: &[], change: "mkdir d", later: "echo x > d/x", code: "not_empty", path: "d", open: None };
    let stays = || Left(&[("d/", ""), ("d/x", "x\n")]);
    row(&full, [Refused, stays(), Refused, stays(), stays()]);
}

#[test]
fn a_file_whose_content_was_not_kept() {
    let lost = Situation { files: &[("cache", "x")], change: "rm cache", code: "unavailable", path: "cache", ..PLAIN };
    row(&lost, [Refused, Left(&[]), Refused, Left(&[]), Left(&[])]);
}

#[test]
fn a_file_that_somebody_has_open_for_writing() {
    let busy = Situation { change: "echo one > f", code: "busy", open: Some("f"), ..PLAIN };
    let comes =
        [Refused, Left(&[("f", "one\n")]), Refused, Overcome(FILE), Left(&[("f", "one\n"), ("f.OP.reverted", OLD)])];
    row(&busy, comes);
}

#[test]
fn what_was_written_so_far_is_recorded_before_an_open_file_is_taken_back() {
    let Some(mount) = Setup::new().file("f", OLD).mount() else { return };
    let mut client = mount.client();
    sh(mount.path(), "echo one > f").ok();
    let op = operations(&mut client)[0];
    let mut open = std::fs::File::options().append(true).open(mount.at("f")).unwrap();
    open.write_all(b"more\n").unwrap();
    client.call("revert", &json!({"operation": op, "on_conflict": "force"}));
    assert_eq!(host(&mount, "f"), OLD.as_bytes());
    drop(open);
    client.call("revert", &json!({"last": "undo"}));
    assert_eq!(host(&mount, "f"), b"one\nmore\n");
}

#[test]
fn what_is_left_alone_does_not_keep_the_rest() {
    let Some(mount) = Setup::new().file("a", "a\n").file("cache", "x").policy("unversioned = [\"cache\"]\n").mount()
    else {
        return;
    };
    let mut client = mount.client();
    client.call("delete", &json!({"paths": ["a", "cache"]}));
    let op = operations(&mut client)[0];
    assert_eq!(client.refused("revert", &json!({"operation": op})), "revert_conflict");
    let done = client.call("revert", &json!({"operation": op, "on_conflict": "skip"}));
    assert_eq!(conflicts(&done["conflicts"]), [("cache".to_owned(), "unavailable".to_owned())]);
    assert_eq!(listed(&mount, op), [("a".to_owned(), "a\n".to_owned())]);
}

/// Two sessions that write to one file in turn: `content` with the line of each, then with both.
fn interleaved(content: &str) -> Option<(Mounted, Client)> {
    let mount = Setup::new().file("f", content).mount()?;
    let (mut one, mut other) = (mount.client().session("one"), mount.client().session("other"));
    let edit = |client: &mut Client, old: &str, new: &str| {
        let now = String::from_utf8(host(&mount, "f")).unwrap().replace(old, new);
        client.call("write", &json!({"path": "f", "content": now}));
    };
    edit(&mut one, "1\n", "one\n");
    edit(&mut other, "9\n", "other\n");
    edit(&mut one, "5\n", "one again\n");
    Some((mount, one))
}

#[test]
fn what_one_agent_did_is_taken_out_from_under_what_another_did() {
    let asked = json!({"session": "one", "on_conflict": "merge"});
    let Some((mount, mut client)) = interleaved("1\n2\n3\n4\n5\n6\n7\n8\n9\n") else { return };
    assert_eq!(client.refused("revert", &json!({"session": "one"})), "revert_conflict");
    client.call("revert", &asked);
    assert_eq!(host(&mount, "f"), b"1\n2\n3\n4\n5\n6\n7\n8\nother\n");
    let Some((mount, mut client)) = interleaved("1\n\0\n5\n6\n7\n9\n") else { return };
    assert_eq!(client.refused("revert", &asked), "revert_conflict");
    assert_eq!(host(&mount, "f"), b"one\n\0\none again\n6\n7\nother\n");
}

/// A session has two files change places, then another writes to one of them; the session is taken back.
fn swapped(choice: &str) -> Option<(Vec<(String, String)>, Value)> {
    let mount = Setup::new().file("a", "a\n").file("b", "b\n").mount()?;
    let mut one = mount.client().session("one");
    for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
        one.call("move", &json!({"from": from, "to": to}));
    }
    sh(mount.path(), "echo more >> b").ok();
    let dry = one.call("revert", &json!({"session": "one", "on_conflict": choice, "dry_run": true}));
    let done = one.call("revert", &json!({"session": "one", "on_conflict": choice}));
    assert_eq!((conflicts(&dry["conflicts"]), steps(&dry)), (conflicts(&done["conflicts"]), steps(&done)), "{choice}");
    Some((listed(&mount, 3), done["conflicts"].clone()))
}

#[test]
fn what_is_left_alone_stands_in_the_way_of_what_should_take_its_place() {
    let entry = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let Some((tree, told)) = swapped("skip") else { return };
    assert_eq!(tree, [entry("a", "b\n"), entry("b", "a\nmore\n")]);
    let kinds = [("b".to_owned(), "content".to_owned()), ("b".to_owned(), "occupied".to_owned())];
    assert_eq!(conflicts(&told), kinds);
    let Some((tree, told)) = swapped("force") else { return };
    assert_eq!(tree, [entry("a", "a\nmore\n"), entry("b", "b\n")]);
    assert_eq!(told, json!([]));
}
