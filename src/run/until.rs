//! Waiting for the end of a process that is not our child.

use std::time::Duration;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// Waits until a process has ended, or the time is over. True if it has ended.
#[must_use]
pub fn process_ends(pid: u32, time: Duration) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let time = Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() };
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended != Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_the_dead_are_told_apart() {
        assert!(!process_ends(std::process::id(), Duration::ZERO));
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        assert!(process_ends(child.id(), Duration::from_secs(20)));
        let pid = child.id();
        child.wait().expect("it has ended");
        assert!(process_ends(pid, Duration::ZERO));
        assert!(process_ends(0, Duration::ZERO));
    }
}
