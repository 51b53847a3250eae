//! What tools change is seen through the mount at once, however long the kernel may believe what it knows; and watchers wake.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    mem::MaybeUninit,
};

use rustix::fs::inotify::{self, ReadFlags, WatchFlags};

use super::door::both_ways;

#[test]
fn what_a_tool_changes_is_seen_at_once() {
    both_ways(|door| {
        fs::write(door.at("f"), b"old").unwrap();
        assert!(fs::metadata(door.at("new")).is_err());
        assert_eq!(fs::read_dir(door.root()).unwrap().count(), 1);
        let mut open = File::open(door.at("f")).unwrap();
        let mut read = String::new();
        open.read_to_string(&mut read).unwrap();
        assert_eq!(door.ask("write f changed"), "written");
        assert_eq!(fs::read(door.at("f")).unwrap(), b"changed");
        assert_eq!(fs::metadata(door.at("f")).unwrap().len(), 7);
        // Who has it open keeps what it opened.
        open.seek(SeekFrom::Start(0)).unwrap();
        read.clear();
        open.read_to_string(&mut read).unwrap();
        assert_eq!(read, "old");
        assert_eq!(door.ask("write new/er content"), "written");
        assert_eq!(fs::read(door.at("new/er")).unwrap(), b"content");
        assert_eq!(fs::read_dir(door.root()).unwrap().count(), 2);
    });
}

#[test]
fn watchers_wake_and_nothing_is_recorded_for_it() {
    both_ways(|door| {
        fs::write(door.at("f"), b"old").unwrap();
        let watch = inotify::init(inotify::CreateFlags::empty()).unwrap();
        inotify::add_watch(&watch, door.root(), WatchFlags::ATTRIB | WatchFlags::MODIFY).unwrap();
        assert_eq!(door.ask("write f changed"), "written");
        let last = door.ask("last");
        let (mut room, mut seen) = ([MaybeUninit::uninit(); 4096], ReadFlags::empty());
        let mut events = inotify::Reader::new(&watch, &mut room);
        while !seen.contains(ReadFlags::ATTRIB | ReadFlags::MODIFY) {
            let event = events.next().unwrap();
            if event.file_name().is_some_and(|name| name.to_bytes() == b"f") {
                seen |= event.events();
            }
        }
        assert_eq!(fs::read(door.at("f")).unwrap(), b"changed");
        assert_eq!(door.ask("last"), last);
    });
}
