//! `write`: a whole content, a new file, or more at the end of one.

use base64::{Engine, engine::general_purpose::STANDARD};
use control_api::{
    ErrorCode, ToolError,
    tools::{ChangeWord, MutationResult, OnExists, WriteArgs, WriteEncoding, WriteMode, WriteResult},
};

use super::{
    Answer, errors, given, mutation,
    mutation::Mutation,
    native::Call,
    transaction::{Prepared, Problem},
};
use crate::{
    types::{EntryName, Hash, Kind, ViewPath},
    view::{Done, Expect, Follow, NewContent, Request, Step, View, ViewError, WriteFile},
};

/// Names tried for `on_exists: rename`.
const NAMES_MAX: u32 = 1_000;

/// What is to be written where, understood.
struct Given {
    path: ViewPath,
    content: Vec<u8>,
    expect: Expect,
}

impl Given {
    fn of(call: &Call<'_>, args: &WriteArgs) -> Result<Given, ToolError> {
        let path = given::path(call.view, &args.path)?;
        let content = match args.encoding {
            WriteEncoding::Utf8 => args.content.clone().into_bytes(),
            WriteEncoding::Base64 => STANDARD
                .decode(args.content.trim())
                .map_err(|error| errors::invalid(format!("content is not base64: {error}")))?,
        };
        let expect = match (&args.expected_hash, args.mode) {
            (None | Some(None), WriteMode::Create) | (Some(None), WriteMode::Overwrite | WriteMode::Append) => {
                Expect::Absent
            }
            (Some(Some(_)), WriteMode::Create) => {
                return Err(errors::invalid("mode create makes a new file, which has no expected_hash"));
            }
            (None, WriteMode::Overwrite | WriteMode::Append) => Expect::Any,
            (Some(Some(hash)), WriteMode::Overwrite | WriteMode::Append) => given::expected(Some(hash))?,
        };
        if args.on_exists == OnExists::Rename && args.mode != WriteMode::Create {
            return Err(errors::invalid("on_exists goes with mode create"));
        }
        Ok(Given { path, content, expect })
    }

    fn file(&self, args: &WriteArgs, path: &ViewPath) -> WriteFile {
        WriteFile {
            path: path.clone(),
            content: new_content(args.mode, self.content.clone()),
            expect: self.expect.clone(),
            executable: args.executable,
            parents: true,
        }
    }
}

/// As a part of a transaction.
pub(super) fn prepare(call: &Call<'_>, args: &WriteArgs) -> Result<Prepared, ToolError> {
    if args.on_exists == OnExists::Rename {
        return Err(errors::invalid("on_exists rename does not go with a transaction; choose a free name"));
    }
    let given = Given::of(call, args)?;
    let step = Step::Write(given.file(args, &given.path));
    Ok(Prepared { step, problem: Problem { creates: args.mode == WriteMode::Create, ..Problem::default() } })
}

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &WriteArgs) -> Result<Answer, ToolError> {
    let given = Given::of(call, args)?;
    let path = &given.path;
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        let write = |path: &ViewPath| call.view.write_file(request, given.file(args, path));
        let done = match args.mode {
            WriteMode::Overwrite | WriteMode::Append => write(path).map_err(errors::of)?,
            WriteMode::Create => create(path, args.on_exists, write)?,
        };
        written(call.view, request, &done, path)
    })
}

fn new_content(mode: WriteMode, content: Vec<u8>) -> NewContent {
    match mode {
        WriteMode::Overwrite | WriteMode::Create => NewContent::Bytes(content),
        WriteMode::Append => {
            NewContent::Rewritten { rewrite: Box::new(move |old| Ok([old, &content].concat())), or_empty: true }
        }
    }
}

fn create(
    path: &ViewPath,
    on_exists: OnExists,
    write: impl Fn(&ViewPath) -> Result<Done, ViewError>,
) -> Result<Done, ToolError> {
    let is_taken = |error: &ViewError| {
        matches!(error, ViewError::HashConflict { .. } | ViewError::AlreadyExists(_) | ViewError::IsADirectory(_))
    };
    match (write(path), on_exists) {
        (Err(error), OnExists::Rename) if is_taken(&error) => {}
        (Err(ViewError::HashConflict { path, .. }), OnExists::Error) => {
            return Err(errors::of(ViewError::AlreadyExists(path)));
        }
        (done, OnExists::Error | OnExists::Rename) => return done.map_err(errors::of),
    }
    for number in 2..=NAMES_MAX {
        let other = numbered(path, number).ok_or_else(|| errors::of(ViewError::AlreadyExists(path.clone())))?;
        match write(&other) {
            Err(error) if is_taken(&error) => {}
            done => return done.map_err(errors::of),
        }
    }
    let text = format!("{path} and {NAMES_MAX} names like it exist; choose another");
    Err(ToolError::new(ErrorCode::AlreadyExists, text).on(errors::wire(path)))
}

/// `name-2.ext`: the number stands before the last extension. `None` if that is no name.
fn numbered(path: &ViewPath, number: u32) -> Option<ViewPath> {
    let name = path.file_name()?;
    let bytes = name.as_bytes();
    let dot = memchr::memrchr(b'.', bytes).filter(|at| *at > 0).unwrap_or(bytes.len());
    let (stem, extension) = bytes.split_at(dot);
    let name = [stem, format!("-{number}").as_bytes(), extension].concat();
    Some(path.parent()?.join(&EntryName::new(&name).ok()?))
}

fn written(view: &View, request: &Request, done: &Done, asked: &ViewPath) -> Result<WriteResult, ToolError> {
    let mutation = mutation::told(view, request, done);
    // Directories that were made come first.
    let file = done.paths.iter().rev().find(|touched| touched.after.as_ref().is_some_and(|s| s.kind == Kind::File));
    let path = match file {
        Some(touched) => touched.path.clone(),
        None => view.find(asked, Follow::Yes).map_err(errors::of)?.path,
    };
    let mut result = WriteResult::recalled(mutation);
    result.path = errors::wire(&path);
    if let Some(side) = file.and_then(|touched| touched.after.as_ref()) {
        result.bytes = side.size;
        let hash = side.hash.or_else(|| side.bytes.as_ref().map(|bytes| Hash::of(bytes)));
        result.hash = hash.map(|hash| hash.to_string()).or(result.hash);
    }
    Ok(result)
}

impl Mutation for WriteResult {
    fn common(&mut self) -> &mut MutationResult {
        &mut self.mutation
    }

    fn rendered(&self) -> String {
        let verb = if self.created { "created" } else { "wrote" };
        let hash = self.hash.as_deref().unwrap_or("not hashed");
        let only = MutationResult { paths_total: 1, ..self.mutation.clone() };
        mutation::line(&only, &format!("{verb} {}, {} bytes, {hash}", self.path, self.bytes))
    }

    fn recalled(mutation: MutationResult) -> Self {
        let file = mutation.paths.last();
        WriteResult {
            path: file.map(|touched| touched.path.clone()).unwrap_or_default(),
            created: file.is_some_and(|touched| touched.change == ChangeWord::Create),
            bytes: file.and_then(|touched| touched.after.as_ref()).map_or(0, |side| side.size),
            hash: file.and_then(|touched| touched.after.as_ref()?.hash.clone()),
            mutation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_before_the_extension() {
        for (path, expected) in [
            ("a/b.txt", "a/b-2.txt"),
            ("a.tar.gz", "a.tar-2.gz"),
            ("Makefile", "Makefile-2"),
            (".env", ".env-2"),
            ("a.b/c", "a.b/c-2"),
        ] {
            let path = ViewPath::parse(path.as_bytes()).unwrap();
            assert_eq!(numbered(&path, 2).map(|p| p.to_string()).as_deref(), Some(expected));
        }
        let long = ViewPath::parse("x".repeat(255).as_bytes()).unwrap();
        assert_eq!(numbered(&long, 2), None);
    }
}
