//! Who is behind a pid, read from `/proc` and remembered for a moment.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::types::{Actor, Caller, Channel};

/// How long a pid's command line is believed: shorter than a shell takes from one command to the next.
const BELIEVED: Duration = Duration::from_millis(50);
/// The longest command line kept, in bytes.
const COMMAND_MAX: usize = 256;

/// Command lines lately seen.
#[derive(Default)]
pub(crate) struct Actors {
    seen: Mutex<HashMap<u32, (Instant, Option<String>)>>,
}

impl Actors {
    /// The actor behind a system call through the mount of `view`.
    pub fn of_caller(&self, caller: &Caller, view: &str) -> Actor {
        Actor {
            channel: Channel::Fuse,
            uid: Some(caller.uid),
            pid: (caller.pid != 0).then_some(caller.pid),
            command: self.command(caller.pid),
            session: None,
            view: Some(view.to_owned()),
        }
    }

    /// The command line of a process, shortened.
    pub fn command(&self, pid: u32) -> Option<String> {
        if pid == 0 {
            return None;
        }
        let now = Instant::now();
        if let Some((when, command)) = self.seen.lock().get(&pid)
            && now.duration_since(*when) < BELIEVED
        {
            return command.clone();
        }
        let command = read_command(pid);
        let mut seen = self.seen.lock();
        if seen.len() >= 1024 {
            seen.retain(|_, (when, _)| now.duration_since(*when) < BELIEVED);
        }
        seen.insert(pid, (now, command.clone()));
        command
    }
}

/// The command line of a process, for those who come by the socket.
pub fn command_of(pid: u32) -> Option<String> {
    read_command(pid)
}

/// `/proc/<pid>/cmdline` with spaces between the arguments; the thread's name for a kernel thread.
fn read_command(pid: u32) -> Option<String> {
    let raw = crate::host::process_file(pid, "cmdline").ok()?;
    let raw = if raw.is_empty() { crate::host::process_file(pid, "comm").ok()? } else { raw };
    let text = String::from_utf8_lossy(&raw);
    let line = text.trim_end_matches(['\0', '\n']).replace(['\0', '\n'], " ");
    let end = line.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= COMMAND_MAX).last();
    Some(line[..end.unwrap_or(0)].to_owned())
}
