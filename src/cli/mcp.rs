//! `mcp`: a view's socket on standard input and output, for clients that start a command.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
};

use clap::Args;

use super::{Failure, Outcome, Which, find};
use crate::{
    config::{Config, SourceConfig, ViewConfig},
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
    if args.tools != "native" {
        return Err(Failure::usage(format!("no tool profile {:?}; there is native", args.tools)));
    }
    let socket = match &args.dir {
        None => find::view(&args.which, None)?.path().to_owned(),
        Some(dir) => socket_for(dir)?,
    };
    let stream =
        UnixStream::connect(&socket).map_err(|error| Failure::new(format!("{}: {error}", socket.display())))?;
    pipe(&stream).map_err(|error| Failure::new(format!("{}: {error}", socket.display())))
}

/// The socket of the view that serves a directory alone, started if there is none.
fn socket_for(dir: &PathBuf) -> Result<PathBuf, Failure> {
    let real = std::fs::canonicalize(dir).map_err(|error| Failure::new(format!("{}: {error}", dir.display())))?;
    if let Some(socket) = find::socket_of_mount(&real) {
        return Ok(socket);
    }
    let daemons = run::known()?;
    let serving = daemons.iter().flat_map(|daemon| &daemon.views).find(|view| view.sources == [real.clone()]);
    if let Some(view) = serving {
        return Ok(view.socket.clone());
    }
    let name = real.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let view = ViewConfig {
        name: name.clone(),
        sources: vec![SourceConfig { path: real, name, read_only: false }],
        tools: "native".into(),
        alias: vec!["/workspace".into()],
        ..ViewConfig::default()
    };
    let started = run::start(Config { views: vec![view], ..Config::default() }, None, true, false)?;
    started.first().map(|view| view.socket.clone()).ok_or_else(|| Failure::new("the daemon started no view"))
}

fn pipe(stream: &UnixStream) -> std::io::Result<()> {
    let mut to = stream.try_clone()?;
    std::thread::Builder::new().spawn(move || {
        let copied = copy(&mut std::io::stdin(), &mut to);
        // The end of our input is the end of the requests.
        let _ = to.shutdown(Shutdown::Write);
        copied
    })?;
    copy(&mut &*stream, &mut std::io::stdout())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut buf = vec![0; 64 << 10];
    loop {
        let got = from.read(&mut buf)?;
        if got == 0 {
            return Ok(());
        }
        to.write_all(&buf[..got])?;
        to.flush()?;
    }
}
