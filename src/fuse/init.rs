//! What is agreed with the kernel when a mount begins.

use fuser::{InitFlags, KernelConfig};
use rustix::thread::{CapabilitySet, capabilities};

use crate::view::View;

/// The largest write in one request, in bytes.
const WRITE_MAX: u32 = 1 << 20;
/// Requests in the background (reading ahead, releases) at once, and from when on the kernel slows down.
const BACKGROUND: u16 = 64;
const CONGESTED: u16 = 48;

/// Asked for one by one: the library takes all or none of what it is given at once.
const WANTED: [InitFlags; 12] = [
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // O_TRUNC comes with OPEN: one round trip, and the moment at which the old content is kept.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // OPENDIR is answered with ENOSYS once and never asked again; listings are cached.
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_NO_EXPORT_SUPPORT,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    // Cached pages and listings are checked against mtime whenever attributes are read.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_ABORT_ERROR,
    // We clear setuid bits and capabilities ourselves; else each write asks for an extended attribute first.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// Whether opened files go past us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passing {
    /// As far as the kernel and the sources' file systems allow.
    Allowed,
    /// Never.
    Off,
}

/// Agrees with the kernel. Not asked for: writeback caching (the kernel would be the authority on sizes and times), locks
/// (it does both kinds itself, rightly for all users of one mount) and ACLs (they need more than the library carries).
pub(super) fn agree(config: &mut KernelConfig, view: &View, passing: Passing) {
    for flag in WANTED {
        if config.add_capabilities(flag).is_err() {
            tracing::debug!(?flag, "the kernel does not offer this");
        }
    }
    let depth = stack_depth(view);
    let on = passing == Passing::Allowed
        && may_pass()
        && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        && config.set_max_stack_depth(depth).is_ok();
    view.set_passthrough(on);
    // A refusal names the nearest value that is possible, and these are far within bounds.
    let set = (
        config.set_max_write(WRITE_MAX).is_ok(),
        config.set_max_background(BACKGROUND).is_ok(),
        config.set_congestion_threshold(CONGESTED).is_ok(),
    );
    tracing::debug!(passthrough = on, ?set, "agreed with the kernel");
}

/// Backing files are for CAP_SYS_ADMIN in the first user namespace alone.
fn may_pass() -> bool {
    let admin = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let map = crate::host::process_file(std::process::id(), "uid_map").unwrap_or_default();
    admin && String::from_utf8_lossy(&map).split_whitespace().eq(["0", "0", "4294967295"])
}

/// How deep file systems may be stacked below a backing file: a plain one is 1 deep, an overlay 2. What is 2 deep cannot
/// be the lower layer of an overlay itself, so that is only asked for where it is needed.
fn stack_depth(view: &View) -> u32 {
    if view.sources().iter().any(|source| source.fs.caps().fs_type == "overlay") { 2 } else { 1 }
}
