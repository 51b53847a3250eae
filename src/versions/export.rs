//! The whole history as a stream for `git fast-import`: a commit for each operation.

use std::{collections::BTreeSet, io::Write};

use super::{Bound, Change, ChangeKind, Content, HistoryQuery, Operation, State, Store, StoreError};
use crate::types::{Kind, NodeId, OpId, ViewPath};

type Result<T> = std::result::Result<T, ExportError>;

/// Operations that are looked up at once.
const PAGE: usize = 500;
/// Larger contents are left out, with a word in the commit.
const SIZE_MAX: u64 = 64 << 20;

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Where it was written to.
    #[error("the export could not be written: {0}")]
    Write(#[from] std::io::Error),
}

/// What was exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportReport {
    /// Operations, a commit each.
    pub operations: u64,
    /// Contents in them.
    pub contents: u64,
    /// Contents that are not in the store: the commits say which, and why.
    pub missing: u64,
}

struct Stream<'a> {
    store: &'a Store,
    out: &'a mut dyn Write,
    /// The directories of sources, if there are several.
    several: bool,
    /// The files in the last commit.
    files: BTreeSet<Vec<u8>>,
    begun: bool,
    report: ExportReport,
}

impl Store {
    /// Writes all operations that are not forgotten, oldest first, to the branch `wardfs`. Files appear when they are first
    /// touched, in the state they had before.
    ///
    /// # Errors
    /// The store's, or those of `out`.
    pub fn export(&self, out: &mut dyn Write) -> Result<ExportReport> {
        let several = self.indexer.ask(super::index::Reader::sources)?.len() > 1;
        let mut stream =
            Stream { store: self, out, several, files: BTreeSet::new(), begun: false, report: ExportReport::default() };
        stream.out.write_all(b"feature done\n")?;
        let mut after = OpId(0);
        loop {
            let query = HistoryQuery {
                after: Some(Bound::Op(after)),
                oldest_first: true,
                limit: PAGE,
                ..HistoryQuery::default()
            };
            let page = self.history(&query)?;
            for operation in &page.operations {
                stream.operation(operation)?;
                after = operation.op;
            }
            if !page.more {
                break;
            }
        }
        stream.out.write_all(b"done\n")?;
        stream.out.flush()?;
        Ok(stream.report)
    }
}

/// A commit in the making.
#[derive(Default)]
struct Commit {
    commands: Vec<u8>,
    notes: Vec<String>,
}

impl Stream<'_> {
    fn operation(&mut self, operation: &Operation) -> Result<()> {
        let mut base = Commit::default();
        let mut commit = Commit::default();
        for change in &operation.changes {
            self.first_seen(change, &mut base)?;
        }
        if !base.commands.is_empty() {
            self.write(operation, "as it was before", &base)?;
        }
        for change in &operation.changes {
            self.change(operation.op, change, &mut commit)?;
        }
        self.report.operations += 1;
        let word = format!("{:?}", operation.kind).to_lowercase();
        self.write(operation, &word, &commit)
    }

    fn path(&self, change: &Change, path: &ViewPath) -> Vec<u8> {
        if self.several {
            [format!("{}/", change.source.0).as_bytes(), path.as_bytes()].concat()
        } else {
            path.as_bytes().to_vec()
        }
    }

    /// A file that nothing told of so far is put there as it was.
    fn first_seen(&mut self, change: &Change, commit: &mut Commit) -> Result<()> {
        let Some(before) = &change.before else { return Ok(()) };
        let at = match (change.kind, &change.from) {
            (ChangeKind::Rename | ChangeKind::Exchange, Some(from)) => from,
            (ChangeKind::Create | ChangeKind::Link, _) => return Ok(()),
            (ChangeKind::Write | ChangeKind::Meta | ChangeKind::Remove, _)
            | (ChangeKind::Rename | ChangeKind::Exchange, None) => &change.path,
        };
        let path = self.path(change, at);
        if self.files.contains(&path) {
            return Ok(());
        }
        // What came later does not say what stood here: only what is kept does.
        let content = before.content.clone();
        self.put(&path, before, content, &mut Commit::default(), commit)
    }

    fn change(&mut self, op: OpId, change: &Change, commit: &mut Commit) -> Result<()> {
        let path = self.path(change, &change.path);
        let from = change.from.as_ref().map(|from| self.path(change, from));
        match (change.kind, from) {
            (ChangeKind::Remove, _) => self.remove(&path, commit),
            (ChangeKind::Rename, Some(from)) => self.rename(&from, &path, commit),
            (ChangeKind::Exchange, Some(from)) => {
                let between = [&path[..], b".wardfs-exchange"].concat();
                self.rename(&from, &between, commit);
                self.rename(&path, &from, commit);
                self.rename(&between, &path, commit);
            }
            (ChangeKind::Create | ChangeKind::Write | ChangeKind::Meta | ChangeKind::Link, _)
            | (ChangeKind::Rename | ChangeKind::Exchange, None) => {
                let Some(after) = &change.after else { return Ok(()) };
                let content = self.content_after(change.node, op, after)?;
                let mut notes = Commit::default();
                self.put(&path, after, content, &mut notes, commit)?;
                if !notes.notes.is_empty() {
                    self.remove(&path, commit);
                    commit.notes.append(&mut notes.notes);
                }
            }
        }
        Ok(())
    }

    fn content_after(&self, node: NodeId, op: OpId, state: &State) -> Result<Content> {
        Ok(match (&state.content, state.kind) {
            (Content::Live(_), Kind::File) => self.store.content_of(node, op)?,
            (content, _) => content.clone(),
        })
    }

    /// Puts a file or a symlink there; directories are where files are.
    fn put(
        &mut self,
        path: &[u8],
        state: &State,
        content: Content,
        missing: &mut Commit,
        commit: &mut Commit,
    ) -> Result<()> {
        let mode = match state.kind {
            Kind::File if state.mode & 0o111 != 0 => "100755",
            Kind::File => "100644",
            Kind::Symlink => "120000",
            Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => return Ok(()),
        };
        let missing_because = match self.store.read_all(&content, SIZE_MAX) {
            Ok(bytes) => {
                self.report.contents += 1;
                self.files.insert(path.to_vec());
                let head = format!("M {mode} inline {}\ndata {}\n", quoted(path), bytes.len());
                commit.commands.extend_from_slice(head.as_bytes());
                commit.commands.extend_from_slice(&bytes);
                commit.commands.push(b'\n');
                return Ok(());
            }
            Err(StoreError::Unavailable(_)) if matches!(content, Content::Live(_)) => {
                "only the file itself has it".into()
            }
            Err(StoreError::Unavailable(loss)) => loss.to_string(),
            Err(error @ (StoreError::Corrupt(_) | StoreError::Io { .. })) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        self.report.missing += 1;
        missing.notes.push(format!("not available: {} ({missing_because})", String::from_utf8_lossy(path)));
        Ok(())
    }

    fn below(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let prefix = [path, b"/"].concat();
        self.files.iter().filter(|file| *file == path || file.starts_with(&prefix)).cloned().collect()
    }

    fn remove(&mut self, path: &[u8], commit: &mut Commit) {
        for file in self.below(path) {
            commit.commands.extend_from_slice(format!("D {}\n", quoted(&file)).as_bytes());
            self.files.remove(&file);
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], commit: &mut Commit) {
        for file in self.below(from) {
            let new = [to, &file[from.len()..]].concat();
            commit.commands.extend_from_slice(format!("R {} {}\n", quoted(&file), quoted(&new)).as_bytes());
            self.files.remove(&file);
            self.files.insert(new);
        }
    }

    fn write(&mut self, operation: &Operation, what: &str, commit: &Commit) -> Result<()> {
        let actor = &operation.actor;
        let who = actor.session.as_deref().or(actor.command.as_deref()).unwrap_or(actor.channel.word());
        let who: String = who.chars().filter(|c| !matches!(c, '<' | '>') && !c.is_control()).collect();
        let mut message = format!("{what}: operation {}\n", operation.op);
        for line in operation.note.iter().chain(&commit.notes) {
            message += &format!("\n{line}");
        }
        let head = if self.begun {
            "commit refs/heads/wardfs\n".to_owned()
        } else {
            "reset refs/heads/wardfs\ncommit refs/heads/wardfs\n".to_owned()
        };
        self.begun = true;
        let time = operation.time.secs.max(0);
        write!(self.out, "{head}committer {} <wardfs> {time} +0000\ndata {}\n{message}\n", who.trim(), message.len())?;
        self.out.write_all(&commit.commands)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }
}

/// A path as the stream takes it: in quotes, with what is not plain in octal.
fn quoted(path: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            0x20..=0x7e => text.push(char::from(*byte)),
            other => text += &format!("\\{other:03o}"),
        }
    }
    text + "\""
}
