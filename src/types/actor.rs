//! Who does something: the process behind a request, and the name under which a change is recorded.

/// The process behind one request of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// File system user id.
    pub uid: u32,
    /// File system group id.
    pub gid: u32,
    /// Process (thread) id, in the daemon's pid namespace; 0 if unknown.
    pub pid: u32,
}

/// The way a change came in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Channel {
    /// A system call through a mount.
    Fuse,
    /// A tool call on a socket.
    Tool,
    /// Found on the host: nobody did it through us.
    External,
    /// A revert, undo or redo.
    Revert,
    /// Found or finished by recovery after a crash.
    Recovery,
}

/// Who made a change, as the log keeps it. Equal actors share one record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Actor {
    /// The way in.
    pub channel: Channel,
    /// The user, where known.
    pub uid: Option<u32>,
    /// The process that made the system call or holds the socket.
    pub pid: Option<u32>,
    /// That process's command line, shortened to 256 bytes.
    pub command: Option<String>,
    /// The agent's session, as the tool call named it.
    pub session: Option<String>,
    /// The view through which it came.
    pub view: Option<String>,
}

impl Channel {
    /// The word that results and the command line use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Channel::Fuse => "fuse",
            Channel::Tool => "tool",
            Channel::External => "external",
            Channel::Revert => "revert",
            Channel::Recovery => "recovery",
        }
    }
}

impl Actor {
    /// An actor of which only the way in is known.
    #[must_use]
    pub fn of(channel: Channel) -> Self {
        Actor { channel, uid: None, pid: None, command: None, session: None, view: None }
    }
}
