//! Arguments that many tools take: paths, moments, actors, numbers within bounds, cursors, globs.

use control_api::{
    ToolError, WirePath,
    tools::{ActorArgs, ActorLike, At as WireAt, Bounds, Case, FileType, GlobDialect},
};
use serde::Serialize;

use super::{answer, cursor, errors};
use crate::{
    search::{Dialect, Glob},
    types::{Channel, Hash, HashPrefix, Kind, OpId, Timestamp, ViewPath},
    versions::{ActorFilter, Bound},
    view::{At, Expect, View, Walked},
};

type Result<T> = std::result::Result<T, ToolError>;

/// Warnings in one answer, at most.
const WARNINGS_MAX: usize = 100;

/// A path as a caller wrote it.
pub(super) fn path(view: &View, given: &WirePath) -> Result<ViewPath> {
    let bytes =
        given.to_bytes().ok_or_else(|| errors::invalid("the path's `bytes` are not base64").on(given.clone()))?;
    view.parse_path(&bytes).map_err(|error| errors::of(error).on(given.clone()))
}

/// A number between `least` and `most`.
pub(super) fn bounded(name: &str, value: u64, least: u64, most: u64) -> Result<usize> {
    if !(least..=most).contains(&value) {
        return Err(errors::invalid(format!("{name} is {value}; give {least} to {most}")));
    }
    usize::try_from(value).map_err(|_| errors::invalid(format!("{name} is too large")))
}

/// A time in RFC 3339.
pub(super) fn time(name: &str, text: &str) -> Result<Timestamp> {
    let parsed: jiff::Timestamp = text.parse().map_err(|error| {
        errors::invalid(format!("{name} is no time in RFC 3339 (like 2026-01-31T12:00:00Z): {error}"))
    })?;
    let mut secs = parsed.as_second();
    let mut nanos = parsed.subsec_nanosecond();
    if nanos < 0 {
        secs -= 1;
        nanos += 1_000_000_000;
    }
    Ok(Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) })
}

/// A moment of the past.
pub(super) fn moment(given: &WireAt) -> Result<At> {
    Ok(match given {
        WireAt::Number(op) | WireAt::Operation { operation: op } | WireAt::Version { version: op } => At::Op(OpId(*op)),
        WireAt::Before { before } => At::Before(OpId(*before)),
        WireAt::Checkpoint { checkpoint } => At::Checkpoint(checkpoint.clone()),
        WireAt::Time { time: text } => At::Time(time("time", text)?),
        WireAt::Text(text) => match (text.parse(), text.parse::<jiff::Timestamp>()) {
            (Ok(op), _) => At::Op(op),
            (Err(_), Ok(_)) => At::Time(time("at", text)?),
            (Err(_), Err(_)) => At::Checkpoint(text.clone()),
        },
    })
}

/// A moment as a bound of a query.
pub(super) fn bound(view: &View, given: &WireAt) -> Result<Bound> {
    match moment(given)? {
        At::Time(time) => Ok(Bound::Time(time)),
        at @ (At::Op(_) | At::Before(_) | At::Checkpoint(_)) => view.moment(&at).map(Bound::Op).map_err(errors::of),
    }
}

/// Who.
pub(super) fn actor(given: Option<&ActorArgs>) -> Result<ActorFilter> {
    let like = match given {
        None => return Ok(ActorFilter::default()),
        Some(ActorArgs::Session(session)) => ActorLike { session: Some(session.clone()), ..ActorLike::default() },
        Some(ActorArgs::Like(like)) if *like == ActorLike::default() => {
            return Err(errors::invalid("actor is empty; give channel, session, pid or command"));
        }
        Some(ActorArgs::Like(like)) => like.clone(),
    };
    let channels = [Channel::Fuse, Channel::Tool, Channel::External, Channel::Revert, Channel::Recovery];
    let channel = match &like.channel {
        None => None,
        Some(word) => Some(channels.into_iter().find(|channel| channel.word() == word).ok_or_else(|| {
            errors::invalid(format!("{word:?} is no channel; give fuse, tool, external, revert or recovery"))
        })?),
    };
    Ok(ActorFilter { channel, session: like.session, pid: like.pid, command: like.command })
}

/// What the caller believes is there.
pub(super) fn expected(hash: Option<&str>) -> Result<Expect> {
    match hash {
        None => Ok(Expect::Any),
        Some(text) => Ok(Expect::Hash(prefix(text)?)),
    }
}

/// A hash, or the beginning of one.
pub(super) fn prefix(text: &str) -> Result<HashPrefix> {
    text.parse().map_err(|error| errors::invalid(format!("expected_hash: {error}")))
}

/// The hash of a query without its cursor: cursors belong to it.
pub(super) fn query_of(tool: &str, arguments: &impl Serialize) -> Hash {
    let mut value = answer::json(arguments);
    if let Some(object) = value.as_object_mut() {
        object.remove("cursor");
    }
    Hash::of(format!("{tool}\n{value}").as_bytes())
}

/// Where a query goes on.
pub(super) fn position(query: &Hash, given: Option<&str>) -> Result<Option<Vec<u8>>> {
    match given {
        None => Ok(None),
        Some(text) => cursor::decode(query, text).map(Some).ok_or_else(|| {
            errors::invalid("that cursor is not of this query; give `next` of an answer to the same arguments")
        }),
    }
}

/// A glob's dialect.
pub(super) fn dialect(given: GlobDialect) -> Dialect {
    match given {
        GlobDialect::Native => Dialect::Native,
        GlobDialect::Plain => Dialect::Plain,
        GlobDialect::Gitignore => Dialect::Gitignore,
    }
}

/// Is case to be folded for this pattern?
pub(super) fn ignores_case(case: Case, pattern: &str) -> bool {
    match case {
        Case::Yes => false,
        Case::No => true,
        Case::Smart => !pattern.chars().any(char::is_uppercase),
    }
}

/// A type as results carry it.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::File,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => FileType::Other,
    }
}

/// Permission bits as results carry them.
pub(super) fn octal(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

/// A count on the wire.
pub(super) fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A glob that picks entries of a walk: by name, or with a `/` in it by the path below the start.
pub(super) struct Pick {
    glob: Glob,
    by_name: bool,
}

impl Pick {
    /// Compiles one.
    pub fn new(pattern: &str, dialect: Dialect) -> Result<Pick> {
        let glob = Glob::new(pattern, dialect, false).map_err(|error| errors::of_glob(&error))?;
        let by_name = !pattern.trim_end_matches('/').contains('/');
        Ok(Pick { glob, by_name })
    }

    /// Compiles several.
    pub fn all(patterns: &[String], dialect: Dialect) -> Result<Vec<Pick>> {
        patterns.iter().map(|pattern| Pick::new(pattern, dialect)).collect()
    }

    /// Does it pick the entry at `below` the start?
    pub fn picks(&self, below: &ViewPath, is_dir: bool) -> bool {
        if self.glob.dirs_only() && !is_dir {
            return false;
        }
        if self.by_name {
            return below.file_name().is_some_and(|name| self.glob.is_match_name(name.as_bytes()));
        }
        self.glob.is_match(below)
    }
}

/// What a walk says of how complete its result is.
pub(super) fn of_walk(walked: &Walked, out_of_time: bool) -> Bounds {
    use control_api::tools::Bound::{Depth, Time, Traversal};
    let cuts = [(walked.depth_cut, Depth), (walked.traversal_cut, Traversal), (out_of_time, Time)];
    let mut warnings: Vec<String> = walked.warnings.iter().take(WARNINGS_MAX).cloned().collect();
    if walked.warnings.len() > WARNINGS_MAX {
        warnings.push(format!("and {} more places", walked.warnings.len() - WARNINGS_MAX));
    }
    let truncated_by: Vec<_> = cuts.into_iter().filter(|(cut, _)| *cut).map(|(_, bound)| bound).collect();
    Bounds {
        truncated: !truncated_by.is_empty(),
        incomplete: walked.traversal_cut || out_of_time || !warnings.is_empty(),
        truncated_by,
        warnings,
        ..Bounds::default()
    }
}
