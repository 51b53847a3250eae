//! The `wardfs` command.

fn main() -> std::process::ExitCode {
    wardfs::cli::main()
}
