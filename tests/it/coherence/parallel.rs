//! Many at once: whatever was answered as done is there.

use serde_json::json;

use crate::harness::{Setup, as_child};

#[test]
fn sixty_four_parallel_edits_of_one_file_are_all_in() {
    let lines: String = (0..64).map(|n| format!("line {n:02} todo\n")).collect();
    let Some(mount) = Setup::new().file("a", lines).mount() else { return };
    std::thread::scope(|scope| {
        for number in 0..64 {
            let mut client = mount.client();
            scope.spawn(move || {
                let edit =
                    json!({"old_text": format!("line {number:02} todo"), "new_text": format!("line {number:02} done")});
                client.call("edit", &json!({"path": "a", "edits": [edit]}));
            });
        }
    });
    let wanted: String = (0..64).map(|n| format!("line {n:02} done\n")).collect();
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), wanted);
    assert_eq!(std::fs::read_to_string(mount.beside("a")).unwrap(), wanted);
    assert_eq!(mount.client().history(Some("a")).len(), 64, "one row an edit");
}

#[test]
fn parallel_edits_through_two_names_of_one_file_are_all_in() {
    let lines: String = (0..32).map(|n| format!("line {n:02} todo\n")).collect();
    let setup = Setup::new().file("a", lines);
    std::fs::hard_link(setup.source().join("a"), setup.source().join("b")).unwrap();
    let Some(mount) = setup.mount() else { return };
    std::thread::scope(|scope| {
        for number in 0..32 {
            let mut client = mount.client();
            scope.spawn(move || {
                let path = if number % 2 == 0 { "a" } else { "b" };
                let edit = json!({"old_text": format!("{number:02} todo"), "new_text": format!("{number:02} done")});
                client.call("edit", &json!({"path": path, "edits": [edit]}));
            });
        }
    });
    let wanted: String = (0..32).map(|n| format!("line {n:02} done\n")).collect();
    assert_eq!(std::fs::read_to_string(mount.at("b")).unwrap(), wanted);
    assert_eq!(std::fs::read_to_string(mount.at("a")).unwrap(), wanted);
}

#[test]
fn tools_and_shells_that_append_lose_nothing() {
    let Some(mount) = Setup::new().file("a", "").mount() else { return };
    let child = as_child(mount.path(), "for i in $(seq 200); do echo \"shell $i\" >> a; done");
    let mut client = mount.client();
    let mut done = 0;
    while done < 50 {
        match client.try_call("write", &json!({"path": "a", "content": format!("tool {done}\n"), "mode": "append"})) {
            Ok(_) => done += 1,
            Err(error) => assert_eq!(error.code, "writer_open", "{}", error.body),
        }
    }
    assert!({ child }.wait().unwrap().success());
    let content = std::fs::read_to_string(mount.at("a")).unwrap();
    for (who, count) in [("shell", 1..=200), ("tool", 0..=49)] {
        for number in count {
            assert!(content.lines().any(|line| line == format!("{who} {number}")), "lost: {who} {number}");
        }
    }
    assert_eq!(content.lines().count(), 250);
}
