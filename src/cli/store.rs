//! `store stats`, `gc`, `verify`, `export`: the human's commands on a store, by its daemon if one has it.

use std::{
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, Subcommand};
use control_api::Client;
use serde_json::{Value, json};

use super::{Failure, Outcome, find::shown, output};
use crate::{
    run::{self, Known},
    versions::Store,
};

/// Which store.
#[derive(Args)]
pub(super) struct WhichStore {
    /// The store. Else: that of the view that serves the current directory, the one of the current directory, the only one
    /// that is served
    #[arg(long, value_name = "DIR", env = "WARDFS_STORE")]
    store: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
pub(super) enum StoreCommand {
    /// Show what takes how much, and what retention would drop
    Stats(WhichStore),
    /// Drop what retention drops, and give its space back
    Gc(GcArgs),
    /// Check every record, content and file, and the index
    Verify(WhichStore),
    /// Write the history as a stream for git fast-import
    Export(ExportArgs),
}

#[derive(Args)]
pub(super) struct GcArgs {
    #[command(flatten)]
    which: WhichStore,
    /// Only tell what would go
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    which: WhichStore,
    /// Where to; else standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A store: in a daemon's hand, or ours.
enum Hand {
    Daemon(Client),
    Ours(Arc<Store>),
}

impl WhichStore {
    fn find(&self) -> Result<Hand, Failure> {
        let daemons = run::known()?;
        let here = std::env::current_dir().ok().and_then(|dir| dir.canonicalize().ok());
        if let Some(asked) = &self.store {
            let real = asked.canonicalize().map_err(|error| Failure::on(asked, error))?;
            return match daemons.iter().find(|daemon| daemon.store == real) {
                Some(daemon) => connected(daemon),
                None => Ok(Hand::Ours(run::open_store(&real)?)),
            };
        }
        if let Some(daemon) = here.as_deref().and_then(|dir| serving(&daemons, dir)) {
            return connected(daemon);
        }
        let placed = here.as_deref().and_then(|dir| run::place_of(dir, None, &[]).ok());
        if let Some(placed) = placed.filter(|placed| placed.exists) {
            return Ok(Hand::Ours(run::open_store(&placed.path)?));
        }
        match daemons.as_slice() {
            [only] => connected(only),
            _ => {
                Err(Failure::new("which store? name it with --store DIR (`wardfs status` lists those that are served)"))
            }
        }
    }
}

/// The daemon that shows a directory, or what is above it.
fn serving<'a>(daemons: &'a [Known], dir: &Path) -> Option<&'a Known> {
    daemons.iter().find(|daemon| {
        daemon.views.iter().any(|view| {
            view.sources.iter().any(|(source, _)| dir.starts_with(source))
                || view.mountpoint.as_deref().is_some_and(|mountpoint| dir.starts_with(mountpoint))
        })
    })
}

fn connected(daemon: &Known) -> Result<Hand, Failure> {
    Ok(Hand::Daemon(Client::connect(&daemon.admin_socket)?))
}

impl Hand {
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        match self {
            Hand::Daemon(client) => Ok(client.request(method, params)?),
            Hand::Ours(store) => {
                let done = run::store_command(store, method, params);
                Ok(done.unwrap_or_else(|| Err(run::RunError(format!("no command {method:?}"))))?)
            }
        }
    }
}

pub(super) fn store(command: &StoreCommand) -> Outcome {
    match command {
        StoreCommand::Stats(which) => stats(which),
        StoreCommand::Gc(args) => gc(args),
        StoreCommand::Verify(which) => verify(which),
        StoreCommand::Export(args) => export(args),
    }
}

fn stats(which: &WhichStore) -> Outcome {
    let told = which.find()?.ask("store_stats", &json!({}))?;
    if which.json {
        output::json(&told);
        return Ok(());
    }
    let (full, size) = (&told["fullness"], |value: &Value| output::size(value.as_u64().unwrap_or(0)));
    output::line(&format!("store {}", shown(&told["path"])));
    output::line(&format!(
        "  {} of {} used, {} when full",
        size(&full["used"]),
        size(&full["quota"]),
        shown(&full["on_full"])
    ));
    output::line(&format!(
        "  {} operations, {} versions, {} contents: {} of log, {} aside",
        told["operations"],
        told["versions"],
        told["contents"],
        size(&told["log_bytes"]),
        size(&told["aside_bytes"])
    ));
    for source in told["sources"].as_array().into_iter().flatten() {
        output::line(&format!("  {}: {}", shown(&source["path"]), size(&source["bytes"])));
        for (age, share) in source["ages"].as_object().into_iter().flatten() {
            if share["contents"] != 0 {
                output::line(&format!("    {age:6} {:>8} in {} contents", size(&share["bytes"]), share["contents"]));
            }
        }
    }
    for line in dropped(full) {
        output::line(&format!("  {line}"));
    }
    output::line(&format!("  next: {}", collection(&told["would_drop"], "would go")));
    Ok(())
}

/// What was dropped so far, a line for each rule; and what is wrong.
pub(super) fn dropped(full: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in full["dropped"].as_array().into_iter().flatten() {
        lines.push(format!(
            "dropped by rule `{}`: {} contents, last {}",
            shown(&rule["rule"]),
            rule["contents"],
            shown(&rule["last"])
        ));
    }
    let through = &full["trimmed_through"];
    if !through.is_null() {
        lines.push(format!(
            "forgotten: operations up to {}, {} by rule `{}`",
            through["operation"],
            shown(&through["time"]),
            shown(&through["rule"])
        ));
    }
    if let Some(failure) = full["failure"].as_str() {
        lines.push(format!("COLLECTING FAILED: {failure}"));
    }
    lines
}

fn collection(told: &Value, verb: &str) -> String {
    let size = |value: &Value| output::size(value.as_u64().unwrap_or(0));
    let mut text = format!(
        "{} contents and {} files aside ({}) {verb}",
        told["contents"],
        told["files_aside"],
        size(&told["bytes"])
    );
    if told["operations"] != 0 {
        text += &format!(", {} operations with their rows", told["operations"]);
    }
    text
}

/// What nobody has accepted yet, and so stays.
fn held_back(unreviewed: &Value) {
    let size = output::size(unreviewed["bytes"].as_u64().unwrap_or(0));
    for view in unreviewed["views"].as_array().into_iter().flatten() {
        let (name, since) = (shown(&view["view"]), &view["since"]);
        output::line(&format!(
            "  review of {name} keeps all from operation {since} on; `wardfs review` tells what is pending, and\n  \
             `wardfs review accept --all` lets go of it"
        ));
    }
    if !unreviewed.is_null() {
        output::line(&format!("  reviews hold {} contents ({size})", unreviewed["contents"]));
    }
}

pub(super) fn gc(args: &GcArgs) -> Outcome {
    let told = args.which.find()?.ask("gc", &json!({"dry_run": args.dry_run}))?;
    if args.which.json {
        output::json(&told);
        return Ok(());
    }
    let size = |key: &str| output::size(told[key].as_u64().unwrap_or(0));
    output::line(&collection(&told, if args.dry_run { "would go" } else { "went" }));
    for rule in told["rules"].as_array().into_iter().flatten() {
        output::line(&format!("  by rule `{}`: {} versions", shown(&rule["rule"]), rule["versions"]));
    }
    held_back(&told["unreviewed"]);
    output::line(&format!("  {} -> {}", size("used_before"), size("used_after")));
    Ok(())
}

pub(super) fn verify(which: &WhichStore) -> Outcome {
    let told = which.find()?.ask("verify", &json!({}))?;
    if which.json {
        output::json(&told);
    } else {
        let size = output::size(told["bytes"].as_u64().unwrap_or(0));
        output::line(&format!(
            "{} records, {} contents, {} files aside, {size}",
            told["records"], told["contents"], told["files_aside"]
        ));
        for damage in told["damage"].as_array().into_iter().flatten() {
            output::line(&format!("  DAMAGE: {}", shown(damage)));
        }
        for file in told["damaged_files"].as_array().into_iter().flatten() {
            let good = file["last_good"].as_u64().map_or_else(|| "none is left".into(), |op| format!("operation {op}"));
            output::line(&format!(
                "  {}: the version of operation {} is damaged; last good version: {good}",
                shown(&file["path"]),
                file["operation"]
            ));
        }
    }
    if told["whole"] == true { Ok(()) } else { Err(Failure::new("the store is damaged")) }
}

pub(super) fn export(args: &ExportArgs) -> Outcome {
    let mut out: Box<dyn Write + Send> = match &args.output {
        Some(path) => Box::new(std::fs::File::create(path).map_err(|error| Failure::on(path, error))?),
        None if std::io::stdout().is_terminal() => {
            return Err(Failure::usage("the stream is for git fast-import: pipe it there, or name a file with -o"));
        }
        None => Box::new(std::io::stdout()),
    };
    let told = match args.which.find()? {
        Hand::Ours(store) => {
            let mut out = std::io::BufWriter::with_capacity(1 << 16, out);
            run::export_store(&store, &mut out)?
        }
        Hand::Daemon(client) => piped(client, &mut *out)?,
    };
    let text = format!(
        "{} operations, {} contents; {} contents are not in the store",
        told["operations"], told["contents"], told["missing"]
    );
    if args.which.json {
        output::note(&told.to_string());
    } else {
        output::note(&text);
    }
    Ok(())
}

/// The daemon writes into a pipe of ours, and this process where the human wants it.
fn piped(mut client: Client, out: &mut (dyn Write + Send)) -> Result<Value, Failure> {
    let pipe = run::runtime_dir()?.join(format!("export-{}.pipe", std::process::id()));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .map_err(|error| Failure::on(&pipe, error))?;
    // Open for both, so that neither side waits for the other to come.
    let ours = std::fs::OpenOptions::new().read(true).write(true).open(&pipe);
    let told = ours.map_err(|error| Failure::on(&pipe, error)).and_then(|mut ours| {
        let path = pipe.clone();
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                let told = client.request("export", &json!({"pipe": path}));
                // The end of what is read: the reader knows it by this line, which no stream begins with.
                let end = std::fs::OpenOptions::new().write(true).open(&path).and_then(|mut end| end.write_all(END));
                (told, end)
            });
            copy_until_end(&mut ours, out).map_err(|error| Failure::new(format!("the export: {error}")))?;
            match asked.join() {
                Ok((told, _)) => Ok(told?),
                Err(_) => Err(Failure::new("the export ended unexpectedly")),
            }
        })
    });
    // It is of no use to anybody any more.
    let _ = std::fs::remove_file(&pipe);
    told
}

/// What this process says to itself when the daemon is done.
const END: &[u8] = b"\0wardfs export ends\0";

fn copy_until_end(from: &mut impl Read, to: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let mut held: Vec<u8> = Vec::new();
    let mut buf = vec![0; 1 << 16];
    loop {
        let got = from.read(&mut buf)?;
        held.extend_from_slice(&buf[..got]);
        if got == 0 || held.ends_with(END) {
            let end = held.len() - if held.ends_with(END) { END.len() } else { 0 };
            to.write_all(&held[..end])?;
            return to.flush();
        }
        let sure = held.len().saturating_sub(END.len());
        to.write_all(&held[..sure])?;
        held.drain(..sure);
    }
}
