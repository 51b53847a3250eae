//! What may be done, and how often.

use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags};

use crate::harness::{Random, is_root};

/// One operation. Paths are numbers, so that a list of them stays readable; handles are numbers of slots.
#[derive(Clone, Debug)]
pub enum Act {
    /// Opens into a slot.
    Open { path: String, flags: OFlags, mode: Mode, slot: usize },
    /// Closes a slot.
    Close { slot: usize },
    /// Writes through a slot at an offset.
    Write { slot: usize, offset: u64, count: usize, byte: u8 },
    /// Writes through a slot where it stands.
    Append { slot: usize, count: usize, byte: u8 },
    /// Reads through a slot.
    Read { slot: usize, offset: u64, count: usize },
    /// Cuts or grows through a slot.
    Cut { slot: usize, size: u64 },
    /// `fallocate` through a slot.
    Allocate { slot: usize, flags: FallocateFlags, offset: u64, count: u64 },
    /// `copy_file_range` from one slot to another.
    Copy { from: usize, to: usize, offset: u64, into: u64, count: usize },
    /// `fstat` of a slot.
    Look { slot: usize },
    /// `fsync` of a slot.
    Sync { slot: usize },
    /// `truncate`.
    Truncate { path: String, size: u64 },
    /// `unlink`.
    Unlink { path: String },
    /// `mkdir`.
    Mkdir { path: String, mode: Mode },
    /// `rmdir`.
    Rmdir { path: String },
    /// `renameat2`.
    Rename { from: String, to: String, flags: RenameFlags },
    /// `link`.
    Link { from: String, to: String },
    /// `symlink`.
    Symlink { target: String, path: String },
    /// `readlink`.
    Readlink { path: String },
    /// `chmod`.
    Chmod { path: String, mode: Mode },
    /// `lchown`.
    Chown { path: String, uid: u32, gid: u32 },
    /// `utimensat`.
    Times { path: String, seconds: i64 },
    /// `mknod` of a FIFO.
    Fifo { path: String },
    /// `lsetxattr`.
    SetXattr { path: String, name: &'static str, size: usize, flags: XattrFlags },
    /// `lgetxattr`.
    GetXattr { path: String, name: &'static str },
    /// `lremovexattr`.
    RemoveXattr { path: String, name: &'static str },
    /// `lstat`.
    Stat { path: String },
    /// `stat`.
    Follow { path: String },
    /// Lists a directory.
    List { path: String },
    /// A whole file as `cat` reads it.
    Cat { path: String },
    /// A whole file as an editor saves it: a new one, renamed over it.
    Save { path: String, count: usize, byte: u8 },
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
pub const SLOTS: usize = 5;

fn path(random: &mut Random) -> String {
    let mut path = (*random.pick(&NAMES)).to_owned();
    while path.len() < 7 && random.below(5) < 2 {
        path = format!("{path}/{}", random.pick(&NAMES));
    }
    match random.below(60) {
        0 => format!("{path}/."),
        1 => format!("{path}/../{}", random.pick(&NAMES)),
        2 => format!("{path}/"),
        _ => path,
    }
}

fn mode(random: &mut Random) -> Mode {
    let mode = *random.pick(&[
        Mode::from_raw_mode(0o644),
        Mode::from_raw_mode(0o755),
        Mode::from_raw_mode(0o600),
        Mode::from_raw_mode(0o775),
        // No setuid and setgid bits: a write by root through the mount clears them, as the README says.
        Mode::from_raw_mode(0o711),
        Mode::from_raw_mode(0o1777),
    ]);
    // Another user than root could not look into all directories afterwards.
    if is_root() { mode } else { mode | Mode::RWXU }
}

fn size(random: &mut Random) -> u64 {
    *random.pick(&[0, 1, 5, 100, 4095, 4096, 4097, 20_000, 70_000])
}

fn count(random: &mut Random) -> usize {
    usize::try_from(size(random)).unwrap()
}

fn byte(random: &mut Random) -> u8 {
    random.bytes(1)[0]
}

fn open_flags(random: &mut Random) -> OFlags {
    let access = *random.pick(&[OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR]);
    let extra = *random.pick(&[
        OFlags::empty(),
        OFlags::CREATE,
        OFlags::CREATE,
        OFlags::CREATE,
        OFlags::CREATE.union(OFlags::TRUNC),
        OFlags::CREATE.union(OFlags::TRUNC),
        OFlags::CREATE.union(OFlags::EXCL),
        OFlags::CREATE.union(OFlags::APPEND),
        OFlags::TRUNC,
        OFlags::APPEND,
        OFlags::NOFOLLOW,
        OFlags::DIRECTORY,
    ]);
    // A FIFO would block.
    access | extra | OFlags::NONBLOCK | OFlags::CLOEXEC
}

fn xattr(random: &mut Random) -> &'static str {
    ["user.one", "user.two", "user.three"][random.below(3)]
}

impl Act {
    /// What makes a world worth acting in: folders, files and open handles.
    pub fn beginning() -> Vec<Act> {
        let mode = Mode::from_raw_mode(0o755);
        let file = |slot: usize, path: &str| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            [
                Act::Open { path: path.to_owned(), flags, mode: Mode::from_raw_mode(0o644), slot },
                Act::Write { slot, offset: 0, count: 5000, byte: b'0' + u8::try_from(slot).unwrap() },
            ]
        };
        let mut acts: Vec<Act> =
            ["a", "b", "a/c"].map(|path| Act::Mkdir { path: path.to_owned(), mode }).into_iter().collect();
        for (slot, path) in ["c", "d", "a/a", "a/c/b", "b/e"].into_iter().enumerate() {
            acts.extend(file(slot, path));
        }
        acts.push(Act::Link { from: "c".into(), to: "b/c".into() });
        acts
    }

    /// One of them; those that make something worth having come more often.
    pub fn random(r: &mut Random) -> Act {
        let slot = r.below(SLOTS);
        match r.below(64) {
            0..8 => Act::Open { path: path(r), flags: open_flags(r), mode: mode(r), slot },
            8..9 => Act::Close { slot },
            9..17 => Act::Write { slot, offset: size(r), count: count(r), byte: byte(r) },
            17..19 => Act::Append { slot, count: count(r), byte: byte(r) },
            19..23 => Act::Read { slot, offset: size(r), count: count(r) },
            23..25 => Act::Cut { slot, size: size(r) },
            25..27 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let flags =
                    *r.pick(&[FallocateFlags::empty(), FallocateFlags::KEEP_SIZE, punch, FallocateFlags::ZERO_RANGE]);
                Act::Allocate { slot, flags, offset: size(r), count: size(r) }
            }
            27..29 => Act::Copy { from: slot, to: r.below(SLOTS), offset: size(r), into: size(r), count: count(r) },
            29 => Act::Look { slot },
            30 => Act::Sync { slot },
            31..33 => Act::Truncate { path: path(r), size: size(r) },
            33..35 => Act::Unlink { path: path(r) },
            35..39 => Act::Mkdir { path: path(r), mode: mode(r) },
            39 => Act::Rmdir { path: path(r) },
            40..44 => {
                let flags = *r.pick(&[
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ]);
                Act::Rename { from: path(r), to: path(r), flags }
            }
            44..46 => Act::Link { from: path(r), to: path(r) },
            46 => Act::Symlink { target: path(r), path: path(r) },
            47 => Act::Readlink { path: path(r) },
            48 => Act::Chmod { path: path(r), mode: mode(r) },
            49 => Act::Chown { path: path(r), uid: *r.pick(&[0, 1000, 2000]), gid: *r.pick(&[0, 1000, 2000]) },
            50 => Act::Times { path: path(r), seconds: i64::try_from(r.below(2_000_000_000)).unwrap() },
            51 => Act::Fifo { path: path(r) },
            52..54 => {
                let flags = *r.pick(&[XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
                Act::SetXattr { path: path(r), name: xattr(r), size: r.below(500), flags }
            }
            54 => Act::GetXattr { path: path(r), name: xattr(r) },
            55 => Act::RemoveXattr { path: path(r), name: xattr(r) },
            56 => Act::Stat { path: path(r) },
            57 => Act::Follow { path: path(r) },
            58 => Act::List { path: path(r) },
            59..61 => Act::Cat { path: path(r) },
            _ => Act::Save { path: path(r), count: count(r), byte: byte(r) },
        }
    }
}
