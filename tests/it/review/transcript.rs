//! What a person sees.

use super::{numbered, reviewed, run, write};

#[test]
fn a_review_from_the_list_to_the_end() {
    let Some(mount) = reviewed().file("a", numbered(&[])).mount() else { return };
    let mut one = mount.client().session("one");
    let op = write(&mut one, "a", &numbered(&[(3, "first"), (30, "second")]));
    let say = |words: &[&str]| run(&mount, words).ok();
    let list = format!(
        "session one:\n    changed  a  (operation {op})\n1 path is pending up to operation {op}; see `wardfs review show`\n"
    );
    assert_eq!(say(&[]), list);
    assert_eq!(say(&["list"]), list);
    assert_eq!(say(&["show", "--stat"]), format!("changed  a  (operation {op})  by session one  +2 -2\n"));
    let shown = say(&["show", "-p", "a"]);
    let mark = shown.split("mark ").nth(1).unwrap()[..12].to_owned();
    let context = |from: usize, to: usize| (from..=to).map(|n| format!(" line {n}\n")).collect::<String>();
    assert_eq!(
        shown,
        format!(
            "changed  a  (operation {op})  by session one\nmark {mark}, 2 hunks\n--- a/a\n+++ b/a\n@@ -1,6 +1,6 @@ hunk 1\n{}-line 3\n+first\n{}\
             @@ -27,7 +27,7 @@ hunk 2\n{}-line 30\n+second\n{}\n",
            context(1, 2),
            context(4, 6),
            context(27, 29),
            context(31, 33)
        )
    );
    assert_eq!(say(&["accept", "a", "--hunk", "1", "--mark", &mark]), "accepted hunk 1\n");
    let status = crate::harness::Shell::of(mount.wardfs().arg("status")).ok();
    assert!(status.contains("under review: 1 path is pending"), "{status}");
    assert!(say(&["reject", "a", "-n"]).contains("(dry run: nothing was changed)"));
    assert!(say(&["reject", "a"]).starts_with("took back operation "));
    assert_eq!(say(&["accept", "--all"]), "accepted 0 paths\n");
    assert_eq!(say(&[]), "nothing is pending\n");
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), numbered(&[(3, "first")]));
}
