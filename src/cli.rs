//! The command line: arguments in, the daemon or a view's socket asked, an answer for people or for programs.

mod doctor;
mod find;
mod history;
mod mcp;
mod mount;
mod output;
mod policy;
mod revert;
mod status;
mod tool;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use output::{Failure, Outcome};

/// Puts a policy-filtered, versioned view between files and the agents that work on them.
#[derive(Parser)]
#[command(name = "wardfs", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Which view a command means.
#[derive(Args, Clone)]
pub(crate) struct Which {
    /// The view's control socket; else WARDFS_SOCKET, else the mount the current directory lies in, else the only view
    #[arg(long, env = "WARDFS_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Mount a view of directories
    Mount(mount::MountArgs),
    /// Serve views by their sockets alone, or as a service from a config file
    Serve(mount::ServeArgs),
    /// Unmount a view
    Umount(mount::UmountArgs),
    /// Show daemons, views and stores
    Status(status::StatusArgs),
    /// Tell what this machine lacks for a mount, and how to mend it
    Doctor(doctor::DoctorArgs),
    /// Call a tool of a view
    Call(tool::CallArgs),
    /// Speak MCP on standard input and output
    Mcp(mcp::McpArgs),
    /// Show who changed what
    Log(history::LogArgs),
    /// Show one operation with its changes
    Show(history::ShowArgs),
    /// Compare files, or a file with an earlier state of itself (PATH@VERSION)
    Diff(history::DiffArgs),
    /// Print a file as it was (PATH@VERSION)
    Cat(history::CatArgs),
    /// Take changes back
    #[command(visible_alias = "restore")]
    Revert(revert::RevertArgs),
    /// Take the last operations back
    Undo(revert::UndoArgs),
    /// Name this moment
    Checkpoint(revert::CheckpointArgs),
    /// Explain or check a policy
    Policy(policy::PolicyArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    #[command(hide = true)]
    Daemon,
    #[command(hide = true)]
    Nudge { mountpoint: PathBuf },
}

/// Runs the command line. Exit status 0: done; 1: failed; 2: wrong usage; 3: a tool answered with an error.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(arguments()) {
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

/// As `mount.fuse.wardfs SOURCE MOUNTPOINT -o …`, mount(8) calls us for /etc/fstab.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let name = arguments.first().map(PathBuf::from).and_then(|path| path.file_name().map(|n| n.to_os_string()));
    if name.is_some_and(|name| name.to_string_lossy().starts_with("mount.")) {
        arguments.insert(1, "mount".into());
    }
    arguments
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Mount(args) => mount::mount(args),
        Command::Serve(args) => mount::serve(args),
        Command::Umount(args) => mount::umount(&args),
        Command::Status(args) => status::status(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Call(args) => tool::call(&args),
        Command::Mcp(args) => mcp::mcp(&args),
        Command::Log(args) => history::log(&args),
        Command::Show(args) => history::show(&args),
        Command::Diff(args) => history::diff(&args),
        Command::Cat(args) => history::cat(&args),
        Command::Revert(args) => revert::revert(&args),
        Command::Undo(args) => revert::undo(&args),
        Command::Checkpoint(args) => revert::checkpoint(&args),
        Command::Policy(args) => policy::policy(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "wardfs", &mut std::io::stdout());
            Ok(())
        }
        Command::Man => {
            let page = clap_mangen::Man::new(Cli::command());
            page.render(&mut std::io::stdout()).map_err(|error| Failure::new(error.to_string()))
        }
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
