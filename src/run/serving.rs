//! One view that is served: its socket, its mount, the policy in force.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Result, RunError, reload::PolicyReader, socket};
use crate::{
    config::ViewConfig,
    control::{self, Limits, Server},
    fuse::{self, Mount, MountOptions},
    tools::{self, AccessGroup, ToolSettings},
    view::View,
};

/// How long a program may go on in a mount that is taken away.
const UNMOUNT_WAIT: Duration = Duration::from_secs(10);
/// How long calls may go on whose socket is taken away.
const SOCKET_WAIT: Duration = Duration::from_secs(5);

/// A view that is served.
pub(super) struct Serving {
    pub config: ViewConfig,
    pub view: Arc<View>,
    pub socket: PathBuf,
    pub policy: Option<PolicyReader>,
    /// Why the policy that was read last is not in force.
    pub refused: Option<String>,
    pub mount: Option<Arc<Mount>>,
    server: Server,
}

impl Serving {
    /// Opens the socket, then the mount.
    ///
    /// # Errors
    /// The socket, or the mount; then neither is there.
    pub fn open(view: Arc<View>, config: ViewConfig, socket: PathBuf, policy: Option<PolicyReader>) -> Result<Serving> {
        let listener = socket::listen(&socket)?;
        view.set_socket(socket.clone());
        let server = serve(&view, &config, listener, &socket).inspect_err(|_| socket::remove(&socket))?;
        let mount = match config.mountpoint.as_deref().map(|at| fuse::mount(&view, at, &options(&config))).transpose() {
            Ok(mount) => mount.map(Arc::new),
            Err(error) => {
                server.shutdown(SOCKET_WAIT);
                socket::remove(&socket);
                return Err(RunError(one_line(&error.to_string(), config.mountpoint.as_deref())));
            }
        };
        Ok(Serving { config, view, socket, policy, refused: None, mount, server })
    }

    /// True once its mount was taken away, by whomever.
    pub fn has_ended(&self) -> bool {
        self.mount.as_ref().is_some_and(|mount| mount.has_ended())
    }

    /// Offers the tools that the config names now, to those who connect from now on; the old connections end.
    ///
    /// # Errors
    /// The socket. Then nobody is served by it.
    pub fn serve_anew(&mut self) -> Result<Server> {
        let listener = socket::replace(&self.socket)?;
        let server = serve(&self.view, &self.config, listener, &self.socket)?;
        Ok(std::mem::replace(&mut self.server, server))
    }

    /// Stops accepting, ends the calls, unmounts and seals.
    ///
    /// # Errors
    /// The mount could not be taken away.
    pub fn close(self) -> Result<()> {
        end(self.server);
        socket::remove(&self.socket);
        match &self.mount {
            Some(mount) => mount.unmount(UNMOUNT_WAIT).map_err(|e| RunError::on(mount.mountpoint().display(), e)),
            None => Ok(()),
        }
    }
}

/// Ends a server's connections.
pub(super) fn end(server: Server) {
    server.shutdown(SOCKET_WAIT);
}

fn serve(
    view: &Arc<View>,
    config: &ViewConfig,
    listener: std::os::unix::net::UnixListener,
    socket: &Path,
) -> Result<Server> {
    let toolbox = tools::toolbox(Arc::clone(view), settings(config));
    control::serve(listener, toolbox, view.name(), Limits::default()).map_err(|e| RunError::on(socket.display(), e))
}

/// What the config says of the tools.
fn settings(config: &ViewConfig) -> ToolSettings {
    let features: BTreeSet<&str> = config.policy.features.iter().map(String::as_str).collect();
    let writable = !config.mount.read_only && config.sources.iter().any(|source| !source.read_only);
    ToolSettings {
        features: AccessGroup::ALL
            .into_iter()
            .filter(|group| features.contains(group.word()))
            // What cannot work is not offered.
            .filter(|group| *group != AccessGroup::Write || writable)
            .collect(),
        require_hash: config.policy.require_hash,
        profile: config.tools.clone(),
    }
}

fn options(config: &ViewConfig) -> MountOptions {
    let source = || config.sources.first().map_or_else(|| "wardfs".into(), |source| source.path.display().to_string());
    MountOptions {
        source: config.mount.fsname.clone().unwrap_or_else(source),
        read_only: config.mount.read_only,
        allow_other: config.mount.allow_other,
        suid: config.mount.suid,
        dev: config.mount.dev,
        noexec: config.mount.noexec,
        nudger: Some(fuse::OWN_PROGRAM.into()),
        ..MountOptions::default()
    }
}

/// An error with the place it is about, said once.
fn one_line(error: &str, place: Option<&Path>) -> String {
    match place.map(|place| place.display().to_string()) {
        Some(place) if !error.contains(&place) => format!("{place}: {error}"),
        Some(_) | None => error.to_owned(),
    }
}
