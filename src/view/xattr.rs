//! Extended attributes: the host's, recorded when they change, and a few of our own that are answered, not listed.

use std::os::fd::AsFd;

use super::{Result, View, ViewError, node::Node, record::changed};
use crate::{
    crash_point,
    host::{self, Errno, XattrMode},
    types::{Caller, Ino},
    versions::{ChangeKind, OpKind},
};

/// Names that begin so are answered by us.
const OWN: &[u8] = b"user.wardfs.";
/// POSIX ACLs do not travel through FUSE without kernel support that is not there yet.
const ACL: &[u8] = b"system.posix_acl_";
/// The kernel labels what a FUSE mount shows by itself; `ls` asks for each file's label, unless it hears that there are none.
const LABEL: &[u8] = b"security.selinux";

fn is_untold(name: &[u8]) -> bool {
    name.starts_with(ACL) || name == LABEL
}

impl View {
    /// One attribute.
    ///
    /// # Errors
    /// ENODATA, ENOTSUP; the host's.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.node(ino)?;
        if let Some(own) = name.strip_prefix(OWN) {
            return self.own_xattr(&node, own);
        }
        if is_untold(name) {
            return Err(Errno::NOTSUP.into());
        }
        Ok(host::get_xattr(node.file.host.path_fd()?.as_fd(), name)?)
    }

    fn own_xattr(&self, node: &std::sync::Arc<Node>, name: &[u8]) -> Result<Vec<u8>> {
        match name {
            b"socket" => {
                let socket = self.socket.get().ok_or(ViewError::Host(Errno::NODATA))?;
                Ok(std::os::unix::ffi::OsStrExt::as_bytes(socket.as_os_str()).to_vec())
            }
            b"hash" => Ok(self.hash_of(node)?.to_string().into_bytes()),
            b"version" => {
                let version = self.version_of(node)?.ok_or(ViewError::Host(Errno::NODATA))?;
                Ok(version.to_string().into_bytes())
            }
            [..] => Err(Errno::NODATA.into()),
        }
    }

    /// The names of all of the host's attributes that the view shows.
    ///
    /// # Errors
    /// The host's.
    pub fn list_xattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let node = self.node(ino)?;
        let mut names = host::list_xattr(node.file.host.path_fd()?.as_fd())?;
        names.retain(|name| !is_untold(name) && !name.starts_with(OWN));
        Ok(names)
    }

    /// Sets one.
    ///
    /// # Errors
    /// `ReadOnly`, EPERM for our own names, ENOTSUP for ACLs; the host's.
    pub fn set_xattr(&self, caller: &Caller, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.change_xattr(caller, ino, name, |fd| host::set_xattr(fd, name, value, mode))
    }

    /// Removes one.
    ///
    /// # Errors
    /// As `set_xattr`; ENODATA.
    pub fn remove_xattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<()> {
        self.change_xattr(caller, ino, name, |fd| host::remove_xattr(fd, name))
    }

    fn change_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        apply: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> host::Result<()>,
    ) -> Result<()> {
        let node = self.node(ino)?;
        if name.starts_with(OWN) {
            return Err(Errno::PERM.into());
        }
        if is_untold(name) {
            return Err(Errno::NOTSUP.into());
        }
        let _tree = self.core.tree.read();
        self.writable(&node)?;
        self.check_acl(caller, &node, rustix::fs::Access::WRITE_OK)?;
        let mut state = node.file.state.lock();
        let state = &mut *state;
        let attr = node.file.host.attr()?;
        let place = if state.session.is_some() { None } else { self.recording_place(&node) };
        let before = match &place {
            Some(place) => Some(self.before(place, &node, state, &attr, false)?),
            None => None,
        };
        let fd = node.file.host.path_fd()?;
        let (Some(place), Some(before)) = (place, before) else {
            apply(fd.as_fd())?;
            state.ours(&attr, &node.file.host.attr()?);
            return Ok(());
        };
        let actor = self.actor(caller);
        let change = self.expected(&place, &node, state, ChangeKind::Meta, Some(before.clone()))?;
        let op = self.announce(OpKind::Meta, &actor, vec![change])?;
        if let Err(error) = apply(fd.as_fd()) {
            return self.call_off(op, error);
        }
        crash_point!("xattr-set");
        let after = node.file.host.attr()?;
        let change = changed(ChangeKind::Meta, Some(before), Some(after));
        self.record(op, &place, &node, state, OpKind::Meta, &actor, change)?;
        Ok(())
    }

    /// All of a node's attributes for the log, sorted by name.
    pub(crate) fn xattrs_of(&self, node: &Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        all_of(node.file.host.path_fd()?.as_fd())
    }
}

/// All attributes of an inode, sorted by name.
pub(crate) fn all_of(fd: std::os::fd::BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = match host::list_xattr(fd) {
        Ok(names) => names,
        // Some kinds on some file systems have none.
        Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    names.sort();
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        match host::get_xattr(fd, &name) {
            Ok(value) => all.push((name, value)),
            // Gone meanwhile, or not ours to read.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}
