//! The command line: arguments in, the daemon or a view's socket asked, an answer for people or for programs.

mod call;
mod cat;
mod checkpoint;
mod content;
mod diff;
mod doctor;
mod find;
mod fstab;
mod log;
mod man;
mod mcp;
mod moment;
mod mount;
mod operation;
mod output;
mod pager;
mod policy;
mod revert;
mod review;
mod serve;
mod setup;
mod show;
mod status;
mod store;
mod umount;
mod undo;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

pub(crate) use output::{Failure, Outcome};

/// Puts a policy-filtered, versioned view between files and the agents that work on them.
#[derive(Parser)]
#[command(name = "wardfs", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mount a view of directories
    Mount(mount::MountArgs),
    /// Serve views by their sockets alone, or as a service from a config file
    Serve(serve::ServeArgs),
    /// Unmount a view
    Umount(umount::UmountArgs),
    /// Show daemons, views and stores
    Status(status::StatusArgs),
    /// Tell what this machine lacks for a mount, and how to mend it
    Doctor(doctor::DoctorArgs),
    /// Call a tool of a view
    Call(call::CallArgs),
    /// Speak MCP on standard input and output
    Mcp(mcp::McpArgs),
    /// Show who changed what
    Log(log::LogArgs),
    /// Show one operation with its changes
    Show(show::ShowArgs),
    /// Compare files, or a file with an earlier state of itself (PATH@VERSION)
    Diff(diff::DiffArgs),
    /// Print a file as it was (PATH@VERSION)
    Cat(cat::CatArgs),
    /// Take changes back
    #[command(visible_alias = "restore")]
    Revert(revert::RevertArgs),
    /// Take the last operations back
    Undo(undo::UndoArgs),
    /// Put back what was undone last
    Redo(undo::UndoArgs),
    /// Show, accept and reject what was changed and nobody has accepted yet
    Review(review::ReviewArgs),
    /// Name this moment
    Checkpoint(checkpoint::CheckpointArgs),
    /// What a store holds: stats, gc, verify, export
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Drop what retention drops, and give its space back
    Gc(store::GcArgs),
    /// Check a store: every record, content and file, and the index
    Verify(store::WhichStore),
    /// Write the history as a stream for git fast-import
    Export(store::ExportArgs),
    /// Explain or check a policy
    Policy(policy::PolicyArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them into a directory
    Man(man::ManArgs),
    #[command(hide = true)]
    Daemon,
    #[command(hide = true)]
    Nudge { mountpoint: PathBuf },
}

/// Runs the command line. Exit status 0: done; 1: failed; 2: wrong usage; 3: a tool answered with an error.
#[must_use]
pub fn main() -> ExitCode {
    let Some(arguments) = fstab::translated(std::env::args_os().collect()) else { return ExitCode::SUCCESS };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, status }) => {
            if !message.is_empty() {
                output::complain(&message);
            }
            ExitCode::from(status)
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Mount(args) => mount::mount(args),
        Command::Serve(args) => serve::serve(&args),
        Command::Umount(args) => umount::umount(&args),
        Command::Status(args) => status::status(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Call(args) => call::call(&args),
        Command::Mcp(args) => mcp::mcp(&args),
        Command::Log(args) => log::log(&args),
        Command::Show(args) => show::show(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Cat(args) => cat::cat(&args),
        Command::Revert(args) => revert::revert(&args),
        Command::Undo(args) => undo::undo(&args),
        Command::Redo(args) => undo::redo(&args),
        Command::Review(args) => review::review(&args),
        Command::Checkpoint(args) => checkpoint::checkpoint(&args),
        Command::Store(command) => store::store(&command),
        Command::Gc(args) => store::gc(&args),
        Command::Verify(which) => store::verify(&which),
        Command::Export(args) => store::export(&args),
        Command::Policy(args) => policy::policy(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "wardfs", &mut std::io::stdout());
            Ok(())
        }
        Command::Man(args) => man::man(&args, Cli::command()),
        Command::Daemon => crate::run::daemon_main().map_err(|error| Failure::new(error.to_string())),
        Command::Nudge { mountpoint } => {
            crate::fuse::nudge_main(&mountpoint, std::io::stdin());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
