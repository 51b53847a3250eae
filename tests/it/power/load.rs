//! A load on a disk that records.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use super::{
    device::{Recorder, content},
    disk::{Disk, FileSystem},
    judge::judge,
    record::{Cut, Recording},
    scenes,
};
use crate::{
    crash::{
        load::{Played, play},
        points::begin_in,
    },
    harness::{Mounted, Setup, Tree, sh, take_away},
};

/// What a load left: the disk before it, all that reached the disk, and what was acknowledged when.
pub struct Recorded {
    kind: FileSystem,
    mount: Mounted,
    first: Tree,
    /// What was recorded.
    pub recording: Recording,
    /// What was acknowledged.
    pub played: Vec<Played>,
}

/// Plays all scenes on a disk of this kind, with a fault planted or none.
pub fn record(kind: FileSystem, fault: Option<&str>, seed: u64) -> Recorded {
    let setup = Setup::new().with(&["--durability", "strict"]);
    let (dir, at) = (setup.dir().to_owned(), setup.dir().join("host"));
    let setup = setup.source_at(at.join("source")).store(at.join("store"));
    sh(&dir, "mkdir host disk recorder && mount -t tmpfs disks disk && mount -t tmpfs recorder recorder").ok();
    let before = dir.join("disk/before");
    kind.make(&before);
    let disk = Disk::mount(kind, &before, &at, false);
    std::fs::create_dir(setup.source()).unwrap();
    let (mut mount, first) = begin_in(setup, &scenes::all()).unwrap();
    end(&mount);
    disk.unmount();

    let folder = dir.join("recorder");
    sh(&dir, "cp --sparse=always disk/before recorder/content").ok();
    assert!(content(&folder).exists());
    let recorder = Recorder::start(&folder);
    let disk = Disk::mount(kind, &recorder.disk(), &at, true);
    let mut environment = vec![("WARDFS_CRASH_SMALL", "1")];
    environment.extend(fault.map(|fault| ("WARDFS_PLANTED_FAULT", fault)));
    mount.set_environment(&environment);
    mount.mount_again();
    let played = play(&mount, &scenes::all(), seed, false, &|| recorder.now());
    let count = usize::try_from(recorder.now()).unwrap();
    end(&mount);
    mount.set_environment(&[("WARDFS_CRASH_SMALL", "1")]);
    disk.unmount();
    let mut bytes = recorder.end();
    bytes.truncate(count);
    Recorded { kind, mount, first, recording: Recording::of(bytes), played }
}

/// Kills the daemon, whose dead mount would keep files of the disk open.
fn end(mount: &Mounted) {
    mount.kill();
    while mount.is_mounted() && take_away(mount.path()) {}
}

/// After a power cut the machine has been started anew.
fn other_boot(store: &Path) {
    std::fs::write(store.join("LOCK"), "1\nanother start of the machine\n\n").unwrap();
}

impl Recorded {
    /// Cuts the power and looks at what is left. What is wrong with it, if anything is.
    pub fn cut(&mut self, cut: Cut) -> Option<String> {
        let dir = self.mount.setup().dir().to_owned();
        let state = dir.join("disk/state");
        sh(&dir, "cp --sparse=always disk/before disk/state").ok();
        let file = std::fs::OpenOptions::new().write(true).open(&state).unwrap();
        self.recording.replay(&file, cut);
        drop(file);
        let at: PathBuf = dir.join("host");
        let (kind, mount, first, played) = (self.kind, &mut self.mount, &self.first, &self.played);
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let disk = Disk::mount(kind, &state, &at, false);
            other_boot(mount.setup().store_path());
            judge(mount, played, first, cut.at);
            disk.unmount();
        }));
        let complaint = judged.err().map(|said| match said.downcast::<String>() {
            Ok(said) => *said,
            Err(said) => said.downcast_ref::<&str>().map_or_else(String::new, |said| (*said).to_owned()),
        });
        if complaint.is_some() {
            end(&self.mount);
        }
        complaint
    }
}
