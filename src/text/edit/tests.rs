//! Edits against small texts, and against a naive reference on random ones.

use proptest::prelude::*;

use super::*;

fn only(old: &str, new: &str) -> Edit {
    replace_which(old, new, Which::Only)
}

fn replace_which(old: &str, new: &str, which: Which) -> Edit {
    Edit::Replace { old: old.into(), new: new.into(), which }
}

fn insert(line: usize, text: &str) -> Edit {
    Edit::Insert { line, text: text.into() }
}

fn lines(first: usize, last: usize, text: &str) -> Edit {
    Edit::Lines { first, last, text: text.into(), expect: None }
}

fn check(original: &str, edits: &[Edit], expected: &str) {
    let got = apply(original.as_bytes(), edits, false).map(|e| String::from_utf8(e.text).expect("made of UTF-8"));
    assert_eq!(got.as_deref(), Ok(expected), "{edits:?} on {original:?}");
}

fn refused(original: &str, edits: &[Edit]) -> EditError {
    apply(original.as_bytes(), edits, false).expect_err("this must be refused")
}

#[test]
fn a_text_that_stands_once_is_replaced() {
    check("a b c", &[only("b", "X")], "a X c");
    check("a b c", &[only("b ", "")], "a c");
    check("a b c", &[only("c", "C"), only("a", "A")], "A b C");
    check("$& x", &[only("x", "$& $$ \\1")], "$& $& $$ \\1");
    check("a b", &[only("a", "b"), only("b", "a")], "b a");
}

#[test]
fn several_places_need_a_word_on_which() {
    let text = "x\ny\nx\nx\n";
    let error = refused(text, &[only("x", "z")]);
    assert_eq!(error, EditError::NotUnique { edit: 0, count: 3, lines: vec![1, 3, 4] });
    assert!(error.to_string().contains("stands 3 times (lines [1, 3, 4])"));
    assert!(matches!(refused("aaa", &[only("aa", "b")]), EditError::NotUnique { count: 2, .. }));
    check(text, &[replace_which("x", "z", Which::All)], "z\ny\nz\nz\n");
    check(text, &[replace_which("x", "z", Which::Nth(2))], "x\ny\nz\nx\n");
    check(text, &[replace_which("x", "z", Which::NearLine(4))], "x\ny\nx\nz\n");
    assert!(matches!(refused(text, &[replace_which("x", "z", Which::NearLine(2))]), EditError::NotUnique { .. }));
    assert!(matches!(refused(text, &[replace_which("x", "z", Which::Nth(4))]), EditError::BadLines { .. }));
    check("aaaa", &[replace_which("aa", "b", Which::All)], "bb");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    assert_eq!(refused("a", &[only("", "x")]), EditError::EmptyOld { edit: 0 });
    assert_eq!(refused("a", &[only("a", "a")]), EditError::NoChange { edit: 0 });
    assert_eq!(refused("abc", &[only("ab", "x"), only("bc", "y")]), EditError::Overlap { first: 0, second: 1 });
    assert_eq!(refused("a\nb\n", &[only("a\nb", "x"), insert(2, "y")]), EditError::Overlap { first: 0, second: 1 });
    assert_eq!(refused("a\n", &[lines(1, 1, "a")]), EditError::NoChange { edit: 0 });
    let EditError::NotFound { edit, hint, nearest } =
        refused("a\nlet x  = 1;\n", &[only("a", "b"), only("let x = 1;", "")])
    else {
        unreachable!("the second edit is not found")
    };
    assert_eq!((edit, nearest.map(|n| (n.line, n.differs))), (1, Some((2, "whitespace"))));
    assert!(hint.contains("line 2") && hint.contains("white space"), "{hint}");
}

#[test]
fn line_ends_match_and_are_kept() {
    check("a\r\nb\r\nc\r\n", &[only("a\nb\n", "x\ny\nz\n")], "x\r\ny\r\nz\r\nc\r\n");
    check("a\r\nb\r\nc", &[only("\nb", "\nX")], "a\r\nX\r\nc");
    check("a\r\nb\r\n", &[only("a\r\nb", "x\r\ny")], "x\r\ny\r\n");
    check("a\nb\n", &[only("a\r\nb", "x\ny")], "x\ny\n");
    check("a\r\nb\nc\n", &[only("b", "x\ny")], "a\r\nx\ny\nc\n");
    check("a\r\nb\nc\n", &[only("a", "x\ny")], "x\r\ny\r\nb\nc\n");
    check("a\rb\rc", &[only("a\nb", "x\ny\nz")], "x\ry\rz\rc");
    check("a\r\nb", &[only("b", "x\ny")], "a\r\nx\r\ny");
    check("a\r\nb\r\n", &[only("b", "x\ny\r\n")], "a\r\nx\ny\r\n\r\n");
    check("a\r\nb\r\n", &[only("a\r\n", "a\n")], "a\nb\r\n");
    check("a\nb\n", &[only("a\n", "a\r\n")], "a\r\nb\n");
    assert_eq!(refused("a\r\nb\r\n", &[only("a\nb", "a\r\nb")]), EditError::NoChange { edit: 0 });
    assert!(matches!(refused("a\r\nb\na\nb", &[only("a\nb", "x")]), EditError::NotUnique { count: 2, .. }));
    check("x\ra\r\nb\n", &[only("\ra", "\rA")], "x\rA\r\nb\n");
}

#[test]
fn a_byte_order_mark_stays_in_front() {
    check("\u{feff}a\nb\n", &[only("a", "x")], "\u{feff}x\nb\n");
    check("\u{feff}a\nb\n", &[only("\u{feff}a", "\u{feff}x")], "\u{feff}x\nb\n");
    check("\u{feff}a\nb\n", &[insert(1, "x")], "\u{feff}x\na\nb\n");
    check("\u{feff}a\nb\n", &[lines(1, 2, "")], "\u{feff}");
    assert!(matches!(
        refused("\u{feff}a", &[only("\u{feff}", "x")]),
        EditError::EmptyOld { .. } | EditError::NotFound { .. }
    ));
}

#[test]
fn bytes_that_are_not_utf8_are_bytes() {
    let edit = Edit::Replace { old: b"\xe9".to_vec(), new: b"e".to_vec(), which: Which::Only };
    assert_eq!(apply(b"caf\xe9\xff\n", &[edit], false).map(|e| e.text), Ok(b"cafe\xff\n".to_vec()));
}

#[test]
fn lines_are_inserted_whole() {
    check("a\nb\n", &[insert(1, "x")], "x\na\nb\n");
    check("a\nb\n", &[insert(2, "x\n")], "a\nx\nb\n");
    check("a\nb\n", &[insert(3, "x")], "a\nb\nx\n");
    check("a\nb", &[insert(3, "x")], "a\nb\nx");
    check("a\nb", &[insert(3, "x\n")], "a\nb\nx\n");
    check("a\r\nb\r\n", &[insert(2, "x\ny")], "a\r\nx\r\ny\r\nb\r\n");
    check("a\r\nb\n", &[insert(1, "x")], "x\r\na\r\nb\n");
    check("a\rb", &[insert(2, "x")], "a\rx\rb");
    check("", &[insert(1, "x")], "x\n");
    check("a\n", &[insert(2, "")], "a\n\n");
    check("a\n", &[insert(1, "x"), insert(1, "y")], "x\ny\na\n");
    check("a\nb\n", &[insert(2, "x"), only("b", "B")], "a\nx\nB\n");
    assert!(matches!(refused("a\n", &[insert(0, "x")]), EditError::BadLines { .. }));
    assert!(matches!(refused("a\n", &[insert(3, "x")]), EditError::BadLines { .. }));
}

#[test]
fn lines_are_replaced_by_number() {
    check("a\nb\nc\n", &[lines(2, 2, "X")], "a\nX\nc\n");
    check("a\nb\nc\n", &[lines(2, 3, "")], "a\n");
    check("a\nb\nc", &[lines(3, 3, "X")], "a\nb\nX");
    check("a\r\nb\r\n", &[lines(1, 1, "x\ny")], "x\r\ny\r\nb\r\n");
    check("a\nb\n", &[lines(2, 1, "x")], "a\nx\nb\n");
    check("a\nb\n", &[lines(3, 2, "x")], "a\nb\nx\n");
    for (first, last) in [(0, 1), (2, 3), (3, 1), (4, 3), (1, usize::MAX)] {
        assert!(matches!(refused("a\nb\n", &[lines(first, last, "x")]), EditError::BadLines { .. }), "{first} {last}");
    }
    let expecting = |text: &str| Edit::Lines { first: 2, last: 2, text: "X".into(), expect: Some(text.into()) };
    check("a\r\nb\r\n", &[expecting("b\n")], "a\r\nX\r\n");
    let error = refused("a\r\nb\r\n", &[expecting("B")]).to_string();
    assert!(error.contains("there stands \"b\\r\\n\""), "{error}");
}

#[test]
fn sequential_edits_see_each_other() {
    let edits = [only("a", "b"), replace_which("b", "c", Which::All)];
    assert_eq!(apply(b"a b", &edits, true).map(|e| e.text), Ok(b"c c".to_vec()));
    let error = apply(b"a b", &[only("a", "b"), only("a", "c")], true);
    assert!(matches!(error, Err(EditError::NotFound { edit: 1, .. })));
}

#[test]
fn what_was_replaced_is_told() {
    let got = apply(b"a\nb\nc\n", &[only("c", "X"), insert(2, "y")], false).expect("both fit");
    let told: Vec<_> = got.replaced.iter().map(|r| (r.edit, r.range.clone(), r.line)).collect();
    assert_eq!(told, [(1, 2..2, 2), (0, 4..5, 3)]);
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let pieces: [&[u8]; 8] = [b"a", b"b", b"ab", b"\n", b"\r\n", b"\r", b"\xff", b"\xef\xbb\xbf"];
    let piece = prop::sample::select(pieces.to_vec());
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let which = prop_oneof![
        Just(Which::Only),
        Just(Which::All),
        (1usize..4).prop_map(Which::Nth),
        (1usize..6).prop_map(Which::NearLine)
    ];
    let expect = prop::option::weighted(0.2, body());
    prop_oneof![
        3 => (body(), body(), which).prop_map(|(mut old, new, which)| { old.truncate(4); Edit::Replace { old, new, which } }),
        1 => (0usize..8, body()).prop_map(|(line, text)| Edit::Insert { line, text }),
        1 => (0usize..6, 0usize..6, body(), expect)
            .prop_map(|(first, last, text, expect)| Edit::Lines { first, last, text, expect }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// What lies between the spans that the result names is the original's, byte for byte, in order; nothing else is.
    #[test]
    fn every_byte_outside_the_spans_stays(original in body(), edits in prop::collection::vec(any_edit(), 1..4)) {
        if let Ok(got) = apply(&original, &edits, false) {
            let (mut was, mut now) = (0, 0);
            for done in &got.replaced {
                prop_assert!(done.range.start >= was);
                prop_assert_eq!(&original[was..done.range.start], &got.text[now..done.now.start]);
                (was, now) = (done.range.end, done.now.end);
            }
            prop_assert_eq!(&original[was..], &got.text[now..]);
        }
    }

    /// Without line ends in play, `Replace` is what the standard library does.
    #[test]
    fn replacing_equals_the_naive_way(original in "[abc ]{0,40}", old in "[abc]{1,3}", new in "[abcx]{0,4}") {
        let count = original.matches(&old).count();
        let all = apply(original.as_bytes(), &[replace_which(&old, &new, Which::All)], false);
        let one = apply(original.as_bytes(), &[only(&old, &new)], false);
        if old == new {
            prop_assert_eq!(all, Err(EditError::NoChange { edit: 0 }));
        } else if count == 0 {
            let missing = matches!(all, Err(EditError::NotFound { .. }));
            prop_assert!(missing);
        } else {
            prop_assert_eq!(all.map(|e| e.text), Ok(original.replace(&old, &new).into_bytes()));
            let starts = (0..original.len()).filter(|at| original[*at..].starts_with(&old)).count();
            prop_assert_eq!(one.is_ok(), starts == 1);
        }
        if let Ok(one) = apply(original.as_bytes(), &[only(&old, &new)], false) {
            prop_assert_eq!(one.text, original.replacen(&old, &new, 1).into_bytes());
        }
    }

    /// The same edit on a text with other line ends gives the same result with those line ends.
    #[test]
    fn line_ends_do_not_change_what_an_edit_does(original in "[ab\n]{1,30}\n", old in "[ab\n]{1,4}", new in "[abx\n]{0,5}") {
        let edit = [only(&old, &new)];
        let to = |text: &str, end: &str| text.replace('\n', end).into_bytes();
        let plain = apply(original.as_bytes(), &edit, false).map(|e| String::from_utf8(e.text).expect("UTF-8"));
        for end in ["\r\n", "\r"] {
            let other = apply(&to(&original, end), &edit, false);
            match &plain {
                Ok(text) => prop_assert_eq!(other.map(|e| e.text), Ok(to(text, end))),
                Err(error) => prop_assert_eq!(std::mem::discriminant(&other.expect_err("as before")), std::mem::discriminant(error)),
            }
        }
    }

    #[test]
    fn sequential_is_one_after_the_other(original in body(), edits in prop::collection::vec(any_edit(), 1..4)) {
        let mut text = original.clone();
        let mut failed = false;
        for edit in &edits {
            match apply(&text, std::slice::from_ref(edit), false) {
                Ok(next) => text = next.text,
                Err(_) => { failed = true; break; }
            }
        }
        match apply(&original, &edits, true) {
            Ok(got) => prop_assert!(!failed && got.text == text),
            Err(_) => prop_assert!(failed),
        }
    }
}
