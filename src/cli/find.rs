//! Which view a command means, and where a path lies in it.

use std::{
    ffi::{CStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use base64::Engine;
use clap::Args;
use control_api::{CallResult, Client};
use serde_json::{Value, json};

use super::Failure;
use crate::run::{self, Known, KnownView};

/// The attribute of every file of a mount that tells its socket.
const SOCKET: &CStr = c"user.wardfs.socket";

/// Which view a command means.
#[derive(Args, Clone)]
pub(super) struct Which {
    /// The view's control socket. Else: the mount that the path or the current directory lies in, WARDFS_SOCKET, the view
    /// that serves the current directory, the only view there is
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A view that was found, and a connection to it.
pub(super) struct Found {
    pub client: Client,
    socket: PathBuf,
    /// The directories it shows, and their names in it, if a daemon of this user serves it.
    sources: Vec<(PathBuf, String)>,
}

impl Which {
    /// Connects to the view that is meant, looked for from `near` and the current directory.
    pub fn find(&self, near: Option<&Path>) -> Result<Found, Failure> {
        let daemons = run::known().unwrap_or_default();
        let socket = self.socket_among(near, &daemons)?;
        let view = views(&daemons).find(|view| view.socket == socket);
        let sources = view.map(|view| view.sources.clone()).unwrap_or_default();
        Ok(Found { client: Client::connect(&socket)?, socket, sources })
    }

    /// Connects to the admin socket of the daemon that serves the view that is meant: only a person's commands go there.
    pub fn human(&self, near: Option<&Path>) -> Result<Found, Failure> {
        let daemons = run::known()?;
        let socket = self.socket_among(near, &daemons)?;
        let mut served = daemons.iter().flat_map(|daemon| daemon.views.iter().map(move |view| (daemon, view)));
        let found = served.find(|(_, view)| view.socket == socket);
        let (daemon, view) = found.ok_or_else(|| Failure::on(&socket, "no daemon of this user has it"))?;
        let sources = view.sources.clone();
        Ok(Found { client: Client::connect(&daemon.admin_socket)?, socket, sources })
    }

    /// The socket of the view that is meant.
    pub fn socket(&self, near: Option<&Path>) -> Result<PathBuf, Failure> {
        self.socket_among(near, &run::known().unwrap_or_default())
    }

    fn socket_among(&self, near: Option<&Path>, daemons: &[Known]) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let places: Vec<PathBuf> = near.into_iter().chain([Path::new(".")]).filter_map(plain).collect();
        if let Some((_, socket)) = places.iter().find_map(|place| mount_of(place)) {
            return Ok(socket);
        }
        if let Some(socket) = std::env::var_os("WARDFS_SOCKET").filter(|socket| !socket.is_empty()) {
            return Ok(socket.into());
        }
        let serves = |view: &&KnownView, place: &Path| view.sources.iter().any(|(source, _)| place.starts_with(source));
        let serving = |place: &PathBuf| views(daemons).filter(|view| serves(view, &real(place))).collect::<Vec<_>>();
        let mut found = places.iter().map(serving).find(|found| !found.is_empty()).unwrap_or_default();
        if found.is_empty() {
            found = views(daemons).collect();
        }
        match found.as_slice() {
            [only] => Ok(only.socket.clone()),
            [] => Err(Failure::new("no view is served; start one with `wardfs mount` or `wardfs serve`")),
            [_, _, ..] => Err(Failure::new(
                "several views are served; go into one, or name its socket with --socket (`wardfs status` lists them)",
            )),
        }
    }
}

impl Found {
    /// A path as the view's tools take it. One in the view's mount, or in a directory that the view shows, is told as it is
    /// called in the view; any other is left as it is.
    pub fn path(&self, path: &Path) -> Value {
        wire(&self.place(path).unwrap_or_else(|| path.to_owned()))
    }

    fn place(&self, path: &Path) -> Option<PathBuf> {
        let absolute = plain(path)?;
        if let Some((root, _)) = mount_of(&absolute).filter(|(_, socket)| *socket == self.socket) {
            return absolute.strip_prefix(root).ok().map(Path::to_owned);
        }
        in_sources(&self.sources, &real(&absolute))
    }

    /// A person's command on the view, by the admin socket.
    pub fn command(&mut self, method: &str, mut params: Value) -> Result<Value, Failure> {
        params["socket"] = json!(self.socket);
        Ok(self.client.request(method, &params)?)
    }

    /// Calls a tool; an answer that is an error fails with status 3.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<CallResult, Failure> {
        let result = self.client.call(tool, arguments)?;
        if !result.is_error {
            return Ok(result);
        }
        let text = |key: &str| result.structured.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = match text("path") {
            path if path.is_empty() || text("message").contains(&path) => String::new(),
            path => format!("{path}: "),
        };
        Err(Failure { message: format!("{path}{} ({})", text("message"), text("code")), status: 3 })
    }
}

fn views(daemons: &[Known]) -> impl Iterator<Item = &KnownView> {
    daemons.iter().flat_map(|daemon| &daemon.views)
}

/// Where a host path is in a view of these sources.
fn in_sources(sources: &[(PathBuf, String)], path: &Path) -> Option<PathBuf> {
    sources.iter().find_map(|(source, name)| {
        let below = path.strip_prefix(source).ok()?;
        Some(if sources.len() > 1 { Path::new(name).join(below) } else { below.to_owned() })
    })
}

/// A path made absolute, `.` and `..` taken out by their letters: the directory it lies in may be gone.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    Some(out)
}

/// A path with the symlinks of what is there of it resolved.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(above), Ok(below)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if below.as_os_str().is_empty() { above } else { above.join(below) };
        }
    }
    path.to_owned()
}

/// The root of the mount that an absolute path lies in, and the mount's socket.
pub(super) fn mount_of(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let socket_at = |dir: &Path| {
        let mut value = [0; 512];
        let length = rustix::fs::getxattr(dir, SOCKET, &mut value[..]).ok()?;
        Some(PathBuf::from(OsString::from_vec(value.get(..length)?.to_vec())))
    };
    let (inside, socket) = path.ancestors().find_map(|dir| Some((dir, socket_at(dir)?)))?;
    let root = inside.ancestors().take_while(|dir| socket_at(dir).as_ref() == Some(&socket)).last()?;
    Some((root.to_owned(), socket))
}

/// A path as it travels; the empty one is the root.
fn wire(path: &Path) -> Value {
    match path.to_str() {
        Some("") => Value::String(".".into()),
        Some(text) => Value::String(text.to_owned()),
        None => json!({"bytes": base64::engine::general_purpose::STANDARD.encode(path.as_os_str().as_bytes())}),
    }
}

/// A path as an answer has it, for people.
pub(super) fn shown(path: &Value) -> String {
    match path {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Object(map) => {
            let raw = map.get("bytes").and_then(Value::as_str).unwrap_or_default();
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_sources_are_told_as_the_view_has_them() {
        let sources = |names: &[&str]| -> Vec<(PathBuf, String)> {
            names.iter().map(|name| (PathBuf::from(format!("/src/{name}")), (*name).to_owned())).collect()
        };
        let check = |names: &[&str], path: &str, expected: Option<&str>| {
            assert_eq!(in_sources(&sources(names), Path::new(path)).as_deref(), expected.map(Path::new), "{path}");
        };
        check(&["a"], "/src/a/x/y", Some("x/y"));
        check(&["a"], "/src/a", Some(""));
        check(&["a"], "/src/ab", None);
        check(&["a", "b"], "/src/b/x", Some("b/x"));
        check(&[], "/src/b/x", None);
        assert_eq!(wire(Path::new("")), json!("."));
        assert_eq!(shown(&wire(Path::new(std::ffi::OsStr::from_bytes(b"a\xff")))), "a\u{fffd}");
    }

    #[test]
    fn dots_are_taken_out_and_links_resolved() {
        assert_eq!(plain(Path::new("/a/./b/../c")), Some("/a/c".into()));
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().canonicalize().expect("real");
        std::fs::create_dir(at.join("d")).expect("made");
        std::os::unix::fs::symlink("d", at.join("l")).expect("made");
        assert_eq!(real(&at.join("l/none/yet")), at.join("d/none/yet"));
        assert_eq!(real(&at.join("l")), at.join("d"));
    }
}
