//! The codes of errors: what each means, what to do about it, and what its details hold.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($code:ident, $meaning:literal, $remedy:literal, $details:literal;)*) => {
        /// What went wrong. Codes are only added, never renamed.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(
                #[doc = $meaning]
                #[doc = $remedy]
                // A model reads the schema with each tool: the remedy comes with the error.
                #[cfg_attr(feature = "schema", schemars(description = $meaning))]
                $code,
            )*
        }

        impl ErrorCode {
            /// All codes, in the order of the documentation.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code),*];

            /// What it means, as a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $meaning,)*
                }
            }

            /// What a caller should do, as a sentence.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $remedy,)*
                }
            }

            /// What an error's `details` may hold, as Markdown; empty if nothing.
            #[must_use]
            pub fn details(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $details,)*
                }
            }
        }
    };
}

codes! {
    NotFound, "Nothing is there: really, or because policy hides it.", "Check the spelling; `find` and `list` show what is there.", "`errno`, if the host said so";
    NotADirectory, "A component of the path is no directory, or a directory was wanted.", "Give a directory, or look at the path with `stat`.", "";
    IsADirectory, "A file was wanted.", "Use `list` to see what is in it.", "";
    NotText, "The content is not text that this tool takes.", "Ask for base64, or use another tool.", "";
    PermissionDenied, "The host refuses it to the daemon.", "Leave it; whoever runs the daemon can change the file's mode or owner.", "`errno`";
    ReadOnly, "Policy lets it be read, not changed.", "Leave it, or work on a copy elsewhere.", "`errno`, if the host said so";
    CreateDenied, "Policy does not let this name be made.", "Choose another name.", "";
    OutsideView, "The path, or a symbolic link on it, leads out of the view.", "Give a path relative to the view's root.", "";
    SymlinkLoop, "Too many symbolic links on the way.", "Look at the links with `stat`.", "";
    InvalidArgument, "Arguments that do not fit the tool.", "Read the message, correct the arguments, call again.", "`edit`: which one, for `edit`";
    EmptyOldText, "`old_text` is empty.", "Quote the text to replace; to insert, use `insert_at_line`.", "`edit`";
    OldTextNotFound, "`old_text` does not stand in the file.", "Read the file again and quote it exactly; the nearest place is shown.", "`edit`, `hint`, `nearest`: line, text, how it differs";
    OldTextNotUnique, "`old_text` stands more than once.", "Quote more of its surroundings, or say `occurrence`, `near_line` or `replace_all`.", "`edit`, `count`, `lines`";
    EditsOverlap, "Two edits touch the same text.", "Make one edit of the two, or say `sequential`.", "`edits`: the two";
    NoChange, "The edit would change nothing.", "Nothing has to be done, or the edit is not the one that was meant.", "`edit`";
    HashRequired, "Policy wants `expected_hash`.", "Read the file, and give its `hash` as `expected_hash`.", "";
    HashConflict, "The content is not the expected one.", "Read it again and decide anew; for `edit`, the differences are shown, and `on_conflict: \"merge\"` may do.", "`current_hash`; for `edit` also the diff since";
    WriterOpen, "Someone has the file open for writing.", "Try again in a moment.", "`pid`, `command` of the writer";
    AlreadyExists, "Something is there already.", "Choose another name, or ask to overwrite it.", "";
    NotEmpty, "The directory is not empty.", "Remove what is in it first, or say `recursive`; hidden entries count, too.", "";
    TooLarge, "It is larger than this tool takes.", "Work on a part of it, or in a shell.", "`size`, `limit` in bytes";
    InvalidPattern, "Not a valid glob or regular expression.", "Correct it; to look for the text itself, use mode `literal`.", "";
    PatternTooComplex, "The pattern would cost too much.", "Use a simpler one.", "";
    Cancelled, "The caller gave up.", "Nothing; ask again if it is still wanted.", "";
    Timeout, "It took too long.", "Ask for less, or try again.", "";
    Unversionable, "The old content could not be kept, so it was not destroyed.", "Leave it, or do it in a shell if the old content may be lost.", "`reason`";
    VersionNotFound, "No such version, operation or checkpoint.", "`history` names those there are.", "";
    VersionPruned, "That version's content is not kept any more.", "Use a later version.", "`reason`";
    RevertConflict, "A revert met later changes.", "Look at the conflicts, then say with `on_conflict` what shall become of them.", "`conflicts`: path, which kind, detail, both diffs";
    ApprovalRequired, "It removes much, and wants to be looked at first.", "Make the same call with `dry_run`, and give its `confirm_token` back if that is really meant.", "`removes`: how many paths";
    HeadMoved, "Something was recorded after the operation that `if_head` names.", "Look at what came (`changes`, `history`), then ask again with the newer number.", "`operation`: the newest";
    OperationIdReused, "The same `operation_id` came with other arguments before.", "Use a new id for a new call.", "";
    NoSpace, "The disk, or the store's share of it, is full.", "Free some; nothing was changed.", "`errno`, if the host said so";
    Unsupported, "This system or this view does not offer it; also for FIFOs, sockets and devices, which no tool opens.", "Use another way.", "";
    HostError, "The host's error; its name is in the details.", "See what it is; the daemon's log may say more.", "`errno`";
    Internal, "A fault of ours.", "Report it, with the daemon's log.", "";
}

impl ErrorCode {
    /// Does the same call succeed, as a rule, if it is made again in a moment? An error of another code may say of itself
    /// that it does.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(self, ErrorCode::WriterOpen | ErrorCode::Timeout)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn codes_are_words_and_all_are_listed_once() {
        let words: Vec<String> = ErrorCode::ALL.iter().map(ToString::to_string).collect();
        assert!(words.contains(&"not_a_directory".into()), "{words:?}");
        for (at, word) in words.iter().enumerate() {
            assert!(!words[..at].contains(word), "{word} twice");
            let back: ErrorCode = serde_json::from_value(Value::String(word.clone())).expect(word);
            assert_eq!(back, ErrorCode::ALL[at]);
        }
    }

    /// The table in the documentation is this one. To write it anew, take what this test shows.
    #[test]
    fn the_documentation_has_all_of_them() {
        let table: String = ErrorCode::ALL
            .iter()
            .map(|code| {
                let again = if code.retryable() { "yes" } else { "" };
                format!("| `{code}` | {} | {} | {} | {again} |\n", code.meaning(), code.remedy(), code.details())
            })
            .collect();
        assert!(include_str!("../README.md").contains(&table), "control-api/README.md has to hold:\n{table}");
    }
}
