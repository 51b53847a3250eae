//! `edit`: places in a file changed, all or none, every other byte kept.

mod stale;

use std::sync::Arc;

use control_api::{
    ErrorCode, ToolError,
    tools::{EditArgs, EditFailure, EditItem, EditResult, EditedSpan, MutationResult, OnEditConflict},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    Answer, errors, given,
    given::wide,
    mutation,
    mutation::Mutation,
    native::Call,
    transaction::{Prepared, Problem},
};
use crate::{
    text::{self, Edit, EditError, Edited, Encoding, Which, detect},
    types::{HashPrefix, ViewPath},
    view::{Done, Expect, NewContent, Request, Rewrite, Step, ViewError, WriteFile},
};

/// Edits in one call.
const EDITS_MAX: usize = 1_000;
/// Arguments of a single edit, which models also put beside `edits`.
const FOLDED: [&str; 9] =
    ["old_text", "new_text", "replace_all", "occurrence", "near_line", "insert_at_line", "lines", "text", "expect"];

/// The schema of the arguments; what `folded` takes is not advertised.
pub(super) fn schema_of_arguments() -> Value {
    super::table::schema::<EditArgs>()
}

/// A single edit written beside the other arguments becomes the one in `edits`.
pub(super) fn folded(mut arguments: Value) -> Value {
    let Some(object) = arguments.as_object_mut() else { return arguments };
    let has_edits = object.get("edits").is_some_and(|edits| edits.as_array().is_none_or(|list| !list.is_empty()));
    if has_edits || !FOLDED.iter().any(|name| object.contains_key(*name)) {
        return arguments;
    }
    let edit: serde_json::Map<String, Value> =
        FOLDED.iter().filter_map(|name| Some(((*name).to_owned(), object.remove(*name)?))).collect();
    let mut edit = Value::Object(edit);
    super::repair::fit(&mut edit, &super::table::schema::<EditItem>());
    object.insert("edits".into(), Value::Array(vec![edit]));
    arguments
}

/// The edits of a call, checked, and the content that they are meant for.
fn understood(args: &EditArgs) -> Result<(Vec<Edit>, Option<HashPrefix>), ToolError> {
    if args.edits.is_empty() || args.edits.len() > EDITS_MAX {
        return Err(errors::invalid(format!("edits holds {}; give 1 to {EDITS_MAX}", args.edits.len())));
    }
    let edits = args.edits.iter().enumerate().map(|(at, item)| form(at, item)).collect::<Result<Vec<_>, _>>()?;
    Ok((edits, args.expected_hash.as_deref().map(given::prefix).transpose()?))
}

/// As a part of a transaction.
pub(super) fn prepare(call: &Call<'_>, args: &EditArgs) -> Result<Prepared, ToolError> {
    if args.on_conflict == OnEditConflict::Merge {
        return Err(errors::invalid("on_conflict merge does not go with a transaction"));
    }
    if args.partial {
        return Err(errors::invalid("partial does not go with a transaction, which is done whole or not at all"));
    }
    let path = given::path(call.view, &args.path)?;
    let (edits, expected) = understood(args)?;
    let (sequential, on) = (args.sequential, errors::wire(&path));
    let problem = Problem::default();
    let told = Arc::clone(&problem.told);
    let rewrite: Rewrite = Box::new(move |old| {
        apply(old, &edits, sequential, false, &mut Outcome::default()).map_err(|error| {
            *told.lock() = Some(error.on(on.clone()));
            ViewError::Cancelled
        })
    });
    let content = NewContent::Rewritten { rewrite, or_empty: false };
    let expect = expected.map_or(Expect::Any, Expect::Hash);
    let step = Step::Write(WriteFile { path, content, expect, executable: None, parents: false });
    Ok(Prepared { step, problem })
}

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &EditArgs) -> Result<Answer, ToolError> {
    let path = given::path(call.view, &args.path)?;
    let (edits, expected) = understood(args)?;
    if args.on_conflict == OnEditConflict::Merge && expected.is_none() {
        return Err(errors::invalid("on_conflict merge wants expected_hash: what the edits were made for"));
    }
    let editing = Editing { call, path, edits: Arc::new(edits), sequential: args.sequential, partial: args.partial };
    mutation::run(call, args, args.operation_id.as_deref(), args.dry_run, |request| {
        editing.carry_out(request, expected.as_ref(), args.on_conflict)
    })
}

/// One edit's form, checked.
fn form(at: usize, item: &EditItem) -> Result<Edit, ToolError> {
    let refuse = |text: &str| Err(errors::invalid(format!("edit {at}: {text}")).with(json!({"edit": at})));
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let which = match (item.replace_all, item.occurrence, item.near_line) {
        (false, None, None) => Which::Only,
        (true, None, None) => Which::All,
        (false, Some(0), None) => return refuse("occurrence counts from 1"),
        (false, Some(n), None) => Which::Nth(number(n)),
        (false, None, Some(line)) => Which::NearLine(number(line)),
        (_, _, _) => return refuse("give one of replace_all, occurrence and near_line"),
    };
    let is_replace = item.old_text.is_some() || item.new_text.is_some();
    match (is_replace, item.insert_at_line, item.lines) {
        (true, None, None) if item.text.is_none() && item.expect.is_none() => match (&item.old_text, &item.new_text) {
            (Some(old), Some(new)) => {
                Ok(Edit::Replace { old: old.clone().into_bytes(), new: new.clone().into_bytes(), which })
            }
            (None, _) => refuse("old_text is missing"),
            (Some(_), None) => refuse("new_text is missing; give \"\" to remove old_text"),
        },
        (false, _, _) if which != Which::Only => refuse("replace_all, occurrence and near_line go with old_text"),
        (false, Some(line), None) if item.expect.is_none() => match &item.text {
            Some(text) => Ok(Edit::Insert { line: number(line), text: text.clone().into_bytes() }),
            None => refuse("text is missing: what to insert"),
        },
        (false, None, Some([first, last])) => match &item.text {
            Some(text) => Ok(Edit::Lines {
                first: number(first),
                last: number(last),
                text: text.clone().into_bytes(),
                expect: item.expect.clone().map(String::into_bytes),
            }),
            None => refuse("text is missing; give \"\" to remove the lines"),
        },
        (_, _, _) => refuse("give old_text and new_text, or insert_at_line and text, or lines and text"),
    }
}

/// A call's edits, and what they are made in.
struct Editing<'a> {
    call: &'a Call<'a>,
    path: ViewPath,
    edits: Arc<Vec<Edit>>,
    sequential: bool,
    partial: bool,
}

/// What the edits came to, told from inside the file's lock.
#[derive(Default)]
struct Outcome {
    spans: Vec<EditedSpan>,
    failed: Vec<EditFailure>,
    merged: bool,
    error: Option<ToolError>,
}

impl Editing<'_> {
    fn carry_out(
        &self,
        request: &Request,
        expected: Option<&HashPrefix>,
        on_conflict: OnEditConflict,
    ) -> Result<EditResult, ToolError> {
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let expect = expected.map_or(Expect::Any, |hash| Expect::Hash(hash.clone()));
        match self.write(request, expect, self.rewrite(&outcome), &outcome) {
            Ok(done) => self.told(request, &done, &outcome),
            Err(Refused::Stale(path, current)) => {
                let Some(expected) = expected else {
                    return Err(errors::of(ViewError::HashConflict { path, current }));
                };
                let base = stale::base(self.call.view, &path, expected)?;
                match (base, on_conflict) {
                    (Some(base), OnEditConflict::Merge) => self.merge(request, &path, &base),
                    (base, _) => Err(stale::error(self.call.view, &path, current, base.as_deref(), on_conflict)),
                }
            }
            Err(Refused::Error(error)) => Err(error),
        }
    }

    /// The edits are made in the content they were meant for, and that is merged with what is there.
    fn merge(&self, request: &Request, path: &ViewPath, base: &[u8]) -> Result<EditResult, ToolError> {
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let edited = self.apply(base, &mut outcome.lock()).map_err(|error| error.on(errors::wire(path)))?;
        outcome.lock().merged = true;
        let (base, told) = (base.to_vec(), Arc::clone(&outcome));
        let rewrite: Rewrite = Box::new(move |current| match text::merge(&base, current, &edited) {
            text::Merged::Clean(merged) => Ok(merged),
            text::Merged::Conflict(lines) => {
                told.lock().error = Some(stale::disputed(&base, current, &lines));
                Err(ViewError::Cancelled)
            }
        });
        // The caller said which content was meant; the merge has looked at the one there is.
        let request = Request { require_hash: false, ..request.clone() };
        match self.write(&request, Expect::Any, rewrite, &outcome) {
            Ok(done) => self.told(&request, &done, &outcome),
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::Stale(path, current)) => Err(errors::of(ViewError::HashConflict { path, current })),
        }
    }

    fn rewrite(&self, outcome: &Arc<Mutex<Outcome>>) -> Rewrite {
        let told = Arc::clone(outcome);
        let (edits, sequential, partial) = (Arc::clone(&self.edits), self.sequential, self.partial);
        Box::new(move |old| {
            // The whole may be tried again; only the last try counts.
            let mut outcome = told.lock();
            *outcome = Outcome::default();
            apply(old, &edits, sequential, partial, &mut outcome).map_err(|error| {
                outcome.error = Some(error);
                ViewError::Cancelled
            })
        })
    }

    fn apply(&self, old: &[u8], outcome: &mut Outcome) -> Result<Vec<u8>, ToolError> {
        apply(old, &self.edits, self.sequential, self.partial, outcome)
    }

    fn write(
        &self,
        request: &Request,
        expect: Expect,
        rewrite: Rewrite,
        outcome: &Mutex<Outcome>,
    ) -> Result<Done, Refused> {
        let file = WriteFile {
            path: self.path.clone(),
            content: NewContent::Rewritten { rewrite, or_empty: false },
            expect,
            executable: None,
            parents: false,
        };
        let written = self.call.view.write_file(request, file);
        let told = outcome.lock().error.take();
        written.map_err(|error| match (told, error) {
            (Some(told), ViewError::Cancelled) => Refused::Error(told.on(errors::wire(&self.path))),
            (_, ViewError::HashConflict { path, current: Some(current) }) => Refused::Stale(path, Some(current)),
            // Nothing is there, whatever was expected.
            (_, ViewError::HashConflict { path, current: None }) => {
                Refused::Error(errors::of(ViewError::NotFound(path)))
            }
            (_, error) => Refused::Error(errors::of(error)),
        })
    }

    fn told(&self, request: &Request, done: &Done, outcome: &Mutex<Outcome>) -> Result<EditResult, ToolError> {
        let outcome = std::mem::take(&mut *outcome.lock());
        let mut result = EditResult::recalled(mutation::told(self.call.view, request, done));
        if result.mutation.paths.is_empty() {
            result.path = errors::wire(&self.path);
        }
        result.spans = outcome.spans;
        result.failed = outcome.failed;
        result.merged = outcome.merged;
        Ok(result)
    }
}

/// Why a write was refused.
enum Refused {
    Stale(ViewPath, Option<crate::types::Hash>),
    Error(ToolError),
}

fn apply(
    old: &[u8],
    edits: &[Edit],
    sequential: bool,
    partial: bool,
    outcome: &mut Outcome,
) -> Result<Vec<u8>, ToolError> {
    match detect(&old[..old.len().min(8 << 10)]) {
        Encoding::Utf8 { .. } | Encoding::OtherText => {}
        Encoding::Utf16 { .. } | Encoding::Binary => {
            let text = "the file is not text that can be edited by text (UTF-16 or binary); write it whole";
            return Err(ToolError::new(ErrorCode::NotText, text));
        }
    }
    // Each of the edits left, and its number in the call.
    let mut left: Vec<(usize, Edit)> = edits.iter().cloned().enumerate().collect();
    loop {
        let these: Vec<Edit> = left.iter().map(|(_, edit)| edit.clone()).collect();
        let number = |at: usize| left.get(at).map_or(at, |(number, _)| *number);
        let error = match text::apply(old, &these, sequential) {
            Ok(Edited { text, replaced }) => {
                let span = |replaced: text::Replaced| EditedSpan {
                    edit: wide(number(replaced.edit)),
                    line: wide(replaced.line),
                };
                outcome.spans = replaced.into_iter().map(span).collect();
                return Ok(text);
            }
            Err(error) => error,
        };
        let at = culprit(&error);
        let error = errors::of_edit(&renumbered(error, number));
        if !partial || left.len() == 1 {
            return Err(error);
        }
        outcome.failed.push(EditFailure { edit: wide(number(at)), error });
        left.remove(at);
    }
}

/// The edit to leave out.
fn culprit(error: &EditError) -> usize {
    match error {
        EditError::EmptyOld { edit }
        | EditError::NotFound { edit, .. }
        | EditError::NotUnique { edit, .. }
        | EditError::NoChange { edit }
        | EditError::BadLines { edit, .. } => *edit,
        EditError::Overlap { second, .. } => *second,
    }
}

/// The same error, of the edits by their numbers in the call.
fn renumbered(mut error: EditError, number: impl Fn(usize) -> usize) -> EditError {
    match &mut error {
        EditError::EmptyOld { edit }
        | EditError::NotFound { edit, .. }
        | EditError::NotUnique { edit, .. }
        | EditError::NoChange { edit }
        | EditError::BadLines { edit, .. } => *edit = number(*edit),
        EditError::Overlap { first, second } => (*first, *second) = (number(*first), number(*second)),
    }
    error
}

impl Mutation for EditResult {
    fn common(&mut self) -> &mut MutationResult {
        &mut self.mutation
    }

    fn rendered(&self) -> String {
        let hash = self.hash.as_deref().unwrap_or("not hashed");
        let merged = if self.merged { ", merged with later changes" } else { "" };
        let mut text = mutation::line(&self.mutation, &format!("edited {}, {hash}{merged}", self.path));
        for failure in &self.failed {
            text += &format!("\nnot made: {}", failure.error.message);
        }
        text
    }

    fn recalled(mutation: MutationResult) -> Self {
        let file = mutation.paths.last();
        EditResult {
            path: file.map(|touched| touched.path.clone()).unwrap_or_default(),
            hash: file.and_then(|touched| touched.after.as_ref()?.hash.clone()),
            mutation,
            ..EditResult::default()
        }
    }
}
