//! Text that may be long: through a pager and in colour on a terminal, as it is anywhere else.

use std::{
    io::{IsTerminal, Write},
    process::{Child, ChildStdin, Command, Stdio},
};

use super::output;

/// Where long text goes. Dropping it waits for the reader.
pub(super) struct Pager {
    child: Option<(Child, ChildStdin)>,
    colour: bool,
    left: bool,
}

impl Pager {
    /// Starts the pager of `WARDFS_PAGER` or `PAGER`, or `less`, if standard output is a terminal.
    pub fn start() -> Pager {
        let terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var(name).ok();
        let colour = terminal && set("NO_COLOR").is_none_or(|value| value.is_empty());
        let pager = set("WARDFS_PAGER").or_else(|| set("PAGER")).unwrap_or_else(|| "less".into());
        let wanted = terminal && !["", "cat"].contains(&pager.trim());
        let child = wanted.then(|| {
            let mut command = Command::new("sh");
            command.args(["-c", &pager]).stdin(Stdio::piped());
            if set("LESS").is_none() {
                // As git does: colours, no pager for one screen, the screen stays.
                command.env("LESS", "FRX");
            }
            command.spawn().ok()
        });
        let child = child.flatten().and_then(|mut child| child.stdin.take().map(|input| (child, input)));
        Pager { child, colour, left: false }
    }

    /// Shows more. False once nobody reads any more.
    pub fn text(&mut self, text: &str) -> bool {
        if self.left {
            return false;
        }
        let text = if self.colour { text.split_inclusive('\n').map(coloured).collect() } else { text.to_owned() };
        match &mut self.child {
            None => output::bytes(text.as_bytes()),
            Some((_, input)) => self.left = input.write_all(text.as_bytes()).is_err(),
        }
        !self.left
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        let Some((mut child, input)) = self.child.take() else { return };
        drop(input);
        if let Err(error) = child.wait() {
            output::complain(&format!("the pager: {error}"));
        }
    }
}

fn coloured(line: &str) -> String {
    let code = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "1",
        [b'+', ..] => "32",
        [b'-', ..] => "31",
        [b'@', b'@', ..] => "36",
        _ if line.starts_with("operation ") => "33",
        [..] => return line.to_owned(),
    };
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    format!("\x1b[{code}m{text}\x1b[0m{end}")
}
