//! Which view a command means: the socket it names, the mount it stands in, or the only one there is.

use std::{
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use control_api::Client;
use serde_json::Value;

use super::{Failure, Which};

/// The attribute of every directory of a mount that tells its socket.
const SOCKET: &std::ffi::CStr = c"user.wardfs.socket";

/// A connection to the view that a command means, looked for from `near`.
pub(super) fn view(which: &Which, near: Option<&Path>) -> Result<Client, Failure> {
    let socket = socket(which, near)?;
    Ok(Client::connect(&socket)?)
}

pub(super) fn socket(which: &Which, near: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(socket) = &which.socket {
        return Ok(socket.clone());
    }
    let here = std::env::current_dir().ok();
    let near = near.filter(|path| path.is_absolute()).map(Path::to_owned).or(here);
    if let Some(socket) = near.as_deref().and_then(socket_of_mount) {
        return Ok(socket);
    }
    let daemons = crate::run::known()?;
    let mut views = daemons.iter().flat_map(|daemon| &daemon.views);
    match (views.next(), views.next()) {
        (Some(only), None) => Ok(only.socket.clone()),
        (None, _) => Err(Failure::new("no view is served; start one with `wardfs mount` or `wardfs serve`")),
        (Some(_), Some(_)) => Err(Failure::new(
            "several views are served; go into one, or name its socket with --socket (`wardfs status` lists them)",
        )),
    }
}

/// The socket of the mount that a path lies in.
pub(super) fn socket_of_mount(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|dir| {
        let mut value = [0; 512];
        let length = rustix::fs::getxattr(dir, SOCKET, &mut value[..]).ok()?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(value[..length].to_vec())))
    })
}

/// A path as a tool takes it: in the current directory of a mount it is told whole.
pub(super) fn tool_path(path: &Path) -> Value {
    let here = std::env::current_dir().ok().filter(|here| path.is_relative() && socket_of_mount(here).is_some());
    let path = here.map_or_else(|| path.to_owned(), |here| here.join(path));
    match path.to_str() {
        Some(text) => Value::String(text.to_owned()),
        None => {
            use base64::Engine;
            let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
            serde_json::json!({"bytes": base64::engine::general_purpose::STANDARD.encode(bytes)})
        }
    }
}

/// Calls a tool; an answer that is an error fails with status 3.
pub(super) fn call(client: &mut Client, tool: &str, arguments: &Value) -> Result<control_api::CallResult, Failure> {
    let result = client.call(tool, arguments)?;
    if !result.is_error {
        return Ok(result);
    }
    let text = |key: &str| result.structured.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Err(Failure { message: format!("{} ({})", text("message"), text("code")), status: 3 })
}
