//! Numbers that cross a boundary, each its own type so that none can stand for another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A node's number in one view: FUSE's nodeid, and what `stat(2)` shows as `st_ino`. 1 is the root.
    Ino(u64)
}
number! {
    /// An operation's number in the log, rising from 1. A path's version is named by the operation that made it.
    OpId(u64)
}
number! {
    /// A file's identity in the log: the same through renames and hard links, never given twice in one store.
    NodeId(u64)
}
number! {
    /// A record's position in the log: bytes from its logical start, so that a later record is larger.
    Lsn(u64)
}
number! {
    /// A served directory, as the store knows it.
    SourceId(u32)
}

impl Ino {
    /// FUSE's fixed number of a view's root directory.
    pub const ROOT: Ino = Ino(1);
}

impl std::str::FromStr for OpId {
    type Err = std::num::ParseIntError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(OpId)
    }
}
