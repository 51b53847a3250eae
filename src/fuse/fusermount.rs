//! Mounting as a user: `fusermount3` mounts for us, and hands the device over a socket.

use std::{
    io::{self, ErrorKind, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{mount::MountError, options::MountOptions};

const PROGRAM: &str = "fusermount3";

/// Mounts at `mountpoint` and gives the mount's `/dev/fuse`. The mount is visible at once; who enters it waits until it is
/// served.
///
/// # Errors
/// `Device`, `NoFusermount`, `Fusermount`, `System`.
pub(super) fn mount(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    // It opens the device with our rights, and does not say what to do if it can't.
    rustix::fs::openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| MountError::Device(error.into()))?;
    let failed = MountError::system("running fusermount3");
    let (ours, theirs) = UnixStream::pair().map_err(&failed)?;
    // Its standard input is the socket: descriptors other than the first three do not reach it.
    let spawned = Command::new(PROGRAM)
        .arg("-o")
        .arg(option_list(options))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(MountError::NoFusermount),
        Err(error) => return Err(failed(error)),
    };
    let received = receive(&ours);
    let mut said = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut said).map_err(&failed)?;
    }
    let status = child.wait().map_err(&failed)?;
    match received.map_err(&failed)? {
        Some(device) if status.success() => Ok(device),
        Some(_) | None => {
            let said = String::from_utf8_lossy(&said);
            let said = said.trim().trim_start_matches("fusermount3: ");
            Err(MountError::Fusermount(if said.is_empty() { status.to_string() } else { said.to_owned() }))
        }
    }
}

/// Unmounts what a user mounted.
///
/// # Errors
/// EPERM if it refuses; the error of starting it.
pub(super) fn unmount(mountpoint: &Path) -> io::Result<()> {
    let done = Command::new(PROGRAM).args(["-u", "-z", "--"]).arg(mountpoint).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, said.trim().to_owned()))
}

fn option_list(options: &MountOptions) -> String {
    let mut list = vec!["default_permissions", "subtype=wardfs"];
    list.push(if options.suid { "suid" } else { "nosuid" });
    list.push(if options.dev { "dev" } else { "nodev" });
    list.extend(options.noexec.then_some("noexec"));
    list.extend(options.read_only.then_some("ro"));
    list.extend(options.allow_other.then_some("allow_other"));
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    format!("{},fsname={source}", list.join(","))
}

/// The descriptor that comes over the socket; `None` if it is closed without one.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let device = |message| if let RecvAncillaryMessage::ScmRights(mut fds) = message { fds.next() } else { None };
    Ok(ancillary.drain().find_map(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_become_an_option() {
        let options = MountOptions { source: r"a,suid\,b".into(), allow_other: false, ..MountOptions::default() };
        let expected = r"default_permissions,subtype=wardfs,nosuid,nodev,fsname=a\,suid\\\,b";
        assert_eq!(option_list(&options), expected);
    }

    #[test]
    fn a_closed_socket_gives_no_device() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
    }
}
