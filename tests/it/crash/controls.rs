//! Proofs that the proof sees something: without a crash all is well, and what is planted is found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{
    load::play,
    oracle,
    points::{begin, crashed},
    scenes::{BULK, Scene, USUAL},
};

#[test]
fn a_load_that_nothing_disturbs_is_taken_back_scene_by_scene() {
    for scene in USUAL.iter().chain([&BULK]) {
        eprintln!("scene {}", scene.name);
        let Some((mut mount, first)) = begin("relaxed", &[*scene]) else { return };
        mount.mount_again();
        let played = play(&mount, &[*scene], 0, false, &|| 0);
        mount.kill();
        oracle::judge(&mut mount, &played, &first);
    }
}

/// The oracle's complaint about a crash at a point with a planted fault.
fn complaint(point: &str, fault: &str, scenes: &[Scene]) -> Option<String> {
    let (mut mount, first, played) = crashed("relaxed", point, fault, scenes)?;
    let judged = catch_unwind(AssertUnwindSafe(|| oracle::judge(&mut mount, &played, &first)));
    let complaint = judged.expect_err("the oracle does not see the fault");
    Some(complaint.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn a_pre_image_that_was_not_kept_is_noticed() {
    let Some(said) = complaint("closed", "pre-image-left-out", &USUAL[..1]) else { return };
    assert!(said.contains("damaged") || said.contains("not in the store"), "it complains of something else: {said}");
}

#[test]
fn an_operation_that_was_applied_without_a_record_is_noticed() {
    let Some(said) = complaint("step-applied:3", "intent-left-out", USUAL) else { return };
    assert!(said.contains("as acknowledged") || said.contains("taken back"), "it complains of something else: {said}");
}
