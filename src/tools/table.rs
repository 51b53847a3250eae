//! The table: every tool once, with all that is known of it.

use std::sync::Arc;

use control_api::{ToolError, tools as api};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    AccessGroup, Answer, Hints, ToolSpec, changes, checkpoint, delete, diff, edit, errors, find, history, info, list,
    mkdir, moves, native::Call, read, revert, search, stat, transaction, write,
};

/// One tool.
pub(super) struct Tool {
    pub name: &'static str,
    title: &'static str,
    description: &'static str,
    hints: Hints,
    pub access: AccessGroup,
    input: fn() -> Value,
    output: fn() -> Value,
    pub run: fn(&Call<'_>, Value) -> Result<Answer, ToolError>,
}

impl Tool {
    /// As it is listed.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name,
            title: self.title,
            description: self.description,
            input_schema: Arc::new((self.input)()),
            output_schema: Arc::new((self.output)()),
            hints: self.hints,
            access: self.access,
        }
    }
}

/// A type's schema, whole: without references, so that every client understands it.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.remove("description");
    }
    schema
}

/// Arguments of the tool's own type.
pub(super) fn typed<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|error| errors::invalid(format!("the arguments do not fit: {error}")))
}

/// The tools, in the order in which they are listed.
pub(super) const TABLE: &[Tool] = &[
    Tool {
        name: "read",
        title: "Read files",
        description: "Reads one file, or up to 64, whole or by a window of lines or bytes. Every answer holds the hash of \
                      the whole file, for expected_hash of later changes. Images, audio and PDF come as media.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::ReadArgs>,
        output: schema::<api::ReadResult>,
        run: |call, arguments| read::run(call, &typed(arguments)?),
    },
    Tool {
        name: "stat",
        title: "Look at a path",
        description: "Tells whether something is at a path, what it is, and what policy allows there.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::StatArgs>,
        output: schema::<api::StatResult>,
        run: |call, arguments| stat::run(call, &typed(arguments)?),
    },
    Tool {
        name: "list",
        title: "List a directory",
        description: "Lists what is in a directory and, to a depth of 4, below it, with type, size, mode and time. Names \
                      that begin with a dot and what ignore rules hide are left out unless asked for.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::ListArgs>,
        output: schema::<api::ListResult>,
        run: |call, arguments| list::run(call, &typed(arguments)?),
    },
    Tool {
        name: "find",
        title: "Find paths",
        description: "Finds paths by a glob: **/*.rs at any depth, *.rs in the directory itself; match: \"name\" compares \
                      names alone. Nothing is left out without the answer saying so.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Search,
        input: schema::<api::FindArgs>,
        output: schema::<api::FindResult>,
        run: |call, arguments| find::run(call, &typed(arguments)?),
    },
    Tool {
        name: "search",
        title: "Search contents",
        description: "Searches the contents of files for a text (the default), a regular expression, or words. Answers \
                      with lines, with files, or with counts, by path and line.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Search,
        input: schema::<api::SearchArgs>,
        output: schema::<api::SearchResult>,
        run: |call, arguments| search::run(call, &typed(arguments)?),
    },
    Tool {
        name: "diff",
        title: "Compare two files",
        description: "Compares two files, or a file with itself at an earlier moment, as a unified diff.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::DiffArgs>,
        output: schema::<api::DiffResult>,
        run: |call, arguments| diff::run(call, &typed(arguments)?),
    },
    Tool {
        name: "history",
        title: "What was done",
        description: "Lists recorded operations, newest first: who changed what, when, by which way in, with hashes before \
                      and after.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::HistoryArgs>,
        output: schema::<api::HistoryResult>,
        run: |call, arguments| history::run(call, &typed(arguments)?),
    },
    Tool {
        name: "changes",
        title: "What changed since",
        description: "Tells what changed since an earlier answer, oldest first, and can wait for the next change.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::ChangesArgs>,
        output: schema::<api::ChangesResult>,
        run: |call, arguments| changes::run(call, &typed(arguments)?),
    },
    Tool {
        name: "info",
        title: "About this view",
        description: "Tells what this view shows, what is allowed in it, and the bounds of its tools.",
        hints: Hints::ReadOnly,
        access: AccessGroup::Read,
        input: schema::<api::InfoArgs>,
        output: schema::<api::InfoResult>,
        run: |call, arguments| info::run(call, &typed(arguments)?),
    },
    Tool {
        name: "write",
        title: "Write a file",
        description: "Writes a whole file, makes a new one, or appends to one. With expected_hash it only replaces what \
                      you have read; null there means that nothing may be there yet. Can be taken back with revert.",
        hints: Hints::Destructive { idempotent: true },
        access: AccessGroup::Write,
        input: schema::<api::WriteArgs>,
        output: schema::<api::WriteResult>,
        run: |call, arguments| write::run(call, &typed(arguments)?),
    },
    Tool {
        name: "edit",
        title: "Edit a file",
        description: "Changes places in a file: text that stands there exactly once, inserted lines, or replaced lines. All \
                      edits are matched against the file as it is, and all are made or none; every other byte stays. Answers \
                      with a diff. Can be taken back with revert.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: edit::schema_of_arguments,
        output: schema::<api::EditResult>,
        run: |call, arguments| edit::run(call, &typed(edit::folded(arguments))?),
    },
    Tool {
        name: "move",
        title: "Move or rename",
        description: "Moves a file or a directory, also into another source; metadata is kept. Can be taken back with revert.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::MoveArgs>,
        output: schema::<api::MutationResult>,
        run: |call, arguments| moves::run(call, &typed(arguments)?, moves::What::Move),
    },
    Tool {
        name: "copy",
        title: "Copy",
        description: "Copies a file, or a directory with all that is in it; metadata is kept. Can be taken back with revert.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::MoveArgs>,
        output: schema::<api::MutationResult>,
        run: |call, arguments| moves::run(call, &typed(arguments)?, moves::What::Copy),
    },
    Tool {
        name: "mkdir",
        title: "Make directories",
        description: "Makes directories; one that is there already is no error.",
        hints: Hints::Additive { idempotent: true },
        access: AccessGroup::Write,
        input: schema::<api::MkdirArgs>,
        output: schema::<api::MutationResult>,
        run: |call, arguments| mkdir::run(call, &typed(arguments)?),
    },
    Tool {
        name: "delete",
        title: "Delete",
        description: "Removes files and directories: all that is named, or nothing. Refused for what could not be brought \
                      back. Can be taken back with revert.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::DeleteArgs>,
        output: schema::<api::MutationResult>,
        run: |call, arguments| delete::run(call, &typed(arguments)?),
    },
    Tool {
        name: "transaction",
        title: "Do several things at once",
        description: "Carries up to 256 writes, edits, moves, copies, mkdirs and deletes out as one operation: every one is \
                      checked first, then all are applied, or none. Can be taken back with revert, as one.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::TransactionArgs>,
        output: schema::<api::MutationResult>,
        run: |call, arguments| transaction::run(call, &typed(arguments)?),
    },
    Tool {
        name: "revert",
        title: "Take changes back",
        description: "Takes back the last change of a path, an operation, all that an actor or session did, or all since a \
                      checkpoint or a time. Refused where somebody changed a path later, unless on_conflict says what \
                      becomes of it. Use dry_run to look first: it tells just what would be done. A revert can be reverted.",
        hints: Hints::Destructive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::RevertArgs>,
        output: schema::<api::RevertResult>,
        run: |call, arguments| revert::run(call, &typed(arguments)?),
    },
    Tool {
        name: "checkpoint",
        title: "Name this moment",
        description: "Gives the present moment a name, to come back to with revert, or to look at with read and diff.",
        hints: Hints::Additive { idempotent: false },
        access: AccessGroup::Write,
        input: schema::<api::CheckpointArgs>,
        output: schema::<api::CheckpointResult>,
        run: |call, arguments| checkpoint::run(call, &typed(arguments)?),
    },
];
