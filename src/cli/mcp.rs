//! `mcp`: a view's socket on standard input and output, for clients that start a command.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    Failure, Outcome,
    find::{self, Which},
    setup::source_at,
};
use crate::{
    config::{Config, ViewConfig, profile},
    run,
};

#[derive(Args)]
pub(super) struct McpArgs {
    #[command(flatten)]
    which: Which,
    /// The directory to serve; one that is served already is joined
    dir: Option<PathBuf>,
    /// The tool profile
    #[arg(long, value_name = "PROFILE", default_value = "native")]
    tools: String,
}

pub(super) fn mcp(args: &McpArgs) -> Outcome {
    let tools = profile(&args.tools).map_err(|why| Failure::usage(format!("--tools: {why}")))?;
    let socket = match (&args.which.socket, &args.dir) {
        (Some(socket), _) => socket.clone(),
        (None, None) => args.which.socket(None)?,
        (None, Some(dir)) => socket_for(dir, &tools)?,
    };
    let stream = UnixStream::connect(&socket).map_err(|error| Failure::on(&socket, error))?;
    pipe(&stream).map_err(|error| Failure::on(&socket, error))
}

/// The socket of the view that serves a directory alone, or of the mount it is; started if there is none.
fn socket_for(dir: &Path, tools: &str) -> Result<PathBuf, Failure> {
    let source = source_at(dir)?;
    if let Some((root, socket)) = find::mount_of(&source.path)
        && root == source.path
    {
        return Ok(socket);
    }
    let daemons = run::known()?;
    let alone = |view: &&run::KnownView| matches!(view.sources.as_slice(), [(only, _)] if *only == source.path);
    if let Some(view) = daemons.iter().flat_map(|daemon| &daemon.views).find(alone) {
        return Ok(view.socket.clone());
    }
    let view = ViewConfig { tools: tools.to_owned(), ..ViewConfig::of(&source.name.clone(), vec![source]) };
    let config = Config { views: vec![view], ..Config::default() };
    let store = std::env::var_os("WARDFS_STORE").map(PathBuf::from);
    let mut socket = None;
    run::start(config, store.as_deref(), false, |started| socket = started.first().map(|view| view.socket.clone()))?;
    socket.ok_or_else(|| Failure::new("the daemon started no view"))
}

/// Carries bytes both ways until the daemon has answered all there was.
fn pipe(stream: &UnixStream) -> std::io::Result<()> {
    let mut to = stream.try_clone()?;
    std::thread::Builder::new().name("requests".into()).spawn(move || {
        let copied = copy(&mut std::io::stdin(), &mut to);
        // The end of our input is the end of the requests. If the daemon went first there is nothing to end.
        let _ = to.shutdown(Shutdown::Write);
        copied
    })?;
    copy(&mut &*stream, &mut std::io::stdout())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut buf = vec![0; 64 << 10];
    loop {
        let got = match from.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buf.get(..got).unwrap_or_default())?;
        to.flush()?;
    }
}
