//! Sockets that only their owner can use, from the moment that they are there.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
};

use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};

use super::{Result, RunError};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Bytes of a socket's path: `sun_path` has 108 with its NUL (unix(7)).
pub(super) const PATH_MAX: usize = 107;

/// Listens at a path, with mode 0600. What a dead daemon left there is replaced; what lives is not.
///
/// # Errors
/// Somebody listens there, something that is no socket stands there, or the host's.
pub(super) fn listen(path: &Path) -> Result<UnixListener> {
    let failed = |error: &dyn std::fmt::Display| RunError::on(path.display(), error);
    if path.as_os_str().len() > PATH_MAX {
        return Err(failed(&format!("is too long for a socket, which has {PATH_MAX} bytes; choose another --socket")));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(failed(&"is in use by another process; choose another --socket"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(path).map_err(|e| failed(&e))?,
        Ok(_) => return Err(failed(&"exists and is no socket; choose another --socket")),
        Err(_) => {}
    }
    bind(path).map(UnixListener::from).map_err(|error| failed(&std::io::Error::from(error)))
}

/// The kernel gives the file the mode that the socket has when it is bound, so that there is no moment with another one.
fn bind(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(socket.as_fd(), Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Listens at a path where we listen already, for those who connect from now on.
///
/// # Errors
/// The host's.
pub(super) fn replace(path: &Path) -> Result<UnixListener> {
    remove(path);
    listen(path)
}

/// Removes a socket's file.
pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "a socket was gone already");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_may_use_it_and_the_dead_are_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let first = listen(&path).expect("a socket");
        assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777, 0o600);
        let busy = listen(&path).expect_err("in use").to_string();
        assert!(busy.contains("in use") && busy.contains("--socket"), "{busy}");
        drop(first);
        listen(&path).expect("what a dead daemon left is replaced");
        let file = dir.path().join("f");
        std::fs::write(&file, "precious").expect("written");
        assert!(listen(&file).expect_err("a file").to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), "precious");
        let long = dir.path().join("x".repeat(108));
        assert!(listen(&long).expect_err("too long").to_string().contains("too long"));
    }
}
