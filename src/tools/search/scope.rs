//! Where a search looks: the files of a walk that its globs leave, or one file, now or then.

use std::sync::Arc;

use control_api::{ToolError, tools::SearchArgs};

use super::{gather::Place, unsupported};
use crate::{
    tools::{
        bounds::Patience,
        errors, find,
        given::{self, Pick},
        native::Call,
    },
    types::{Kind, ViewPath},
    view::{Follow, WalkControl, WalkEntry, WalkOptions, Walked},
};

/// Bytes of a content of the past.
const PAST_MAX: u64 = 64 << 20;

/// One file to search.
pub(super) enum Target {
    /// Met on the walk.
    Met(WalkEntry),
    /// Named by its path.
    Path(ViewPath),
    /// As it was at an earlier moment.
    Past(ViewPath, Arc<Vec<u8>>),
}

impl Target {
    /// Where it is.
    pub fn path(&self) -> &ViewPath {
        match self {
            Target::Met(entry) => &entry.path,
            Target::Path(path) | Target::Past(path, _) => path,
        }
    }
}

/// The files to search.
pub(super) struct Scope<'a> {
    call: &'a Call<'a>,
    start: ViewPath,
    /// A single file: its content then, or as it is.
    only: Option<Option<Arc<Vec<u8>>>>,
    options: WalkOptions,
    include: Vec<Pick>,
    exclude: Vec<Pick>,
}

impl<'a> Scope<'a> {
    /// What the arguments mean.
    pub fn new(call: &'a Call<'a>, args: &SearchArgs) -> Result<Self, ToolError> {
        let dialect = given::dialect(args.dialect);
        let depth = args.depth.map(|n| given::bounded("depth", n, 1, find::DEPTH_MAX)).transpose()?;
        let traversal = args.traversal_limit.map(|n| given::bounded("traversal_limit", n, 1, u64::MAX)).transpose()?;
        let path = given::path(call.view, &args.path)?;
        let (include, exclude) = (Pick::all(&args.include, dialect)?, Pick::all(&args.exclude, dialect)?);
        let (start, only) = match &args.at {
            Some(at) => {
                if call.view.find(&path, Follow::Yes).is_ok_and(|found| found.attr.kind == Kind::Dir) {
                    return Err(unsupported("at searches one file; give its path"));
                }
                let at = given::moment(at)?;
                let (bytes, _) = call.view.past_bytes(&path, &at, PAST_MAX).map_err(errors::of)?;
                (path, Some(Some(Arc::new(bytes))))
            }
            None => {
                let found = call.view.find(&path, Follow::Yes).map_err(errors::of)?;
                match found.attr.kind {
                    Kind::Dir => (found.path, None),
                    Kind::File => (found.path, Some(None)),
                    Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                        return Err(errors::of(crate::view::ViewError::NotAFile(found.path)));
                    }
                }
            }
        };
        let options = WalkOptions {
            depth: depth.unwrap_or(usize::MAX),
            hidden: args.hidden,
            ignored: args.ignored,
            traversal,
            attrs: false,
            after: None,
        };
        Ok(Scope { call, start, only, options, include, exclude })
    }

    /// Hands each file to `each`, from a place on, until it answers false or time is up.
    pub fn walk(
        &self,
        from: &Place,
        patience: &Patience<'_>,
        each: &mut dyn FnMut(Target) -> bool,
    ) -> Result<Walked, ToolError> {
        if let Some(only) = &self.only {
            if from.after.is_none() || from.within.is_some() {
                match only {
                    None => each(Target::Path(self.start.clone())),
                    Some(bytes) => each(Target::Past(self.start.clone(), Arc::clone(bytes))),
                };
            }
            return Ok(Walked::default());
        }
        // The file in which the last page ended is met again.
        if let Some((path, _)) = &from.within
            && !each(Target::Path(path.clone()))
        {
            return Ok(Walked { stopped: true, ..Walked::default() });
        }
        let options = WalkOptions { after: from.after.clone(), ..self.options.clone() };
        let walk = self.call.view.walk(&self.start, &options, &mut |entry| {
            let Some(below) = entry.path.strip_prefix(&self.start) else { return WalkControl::Continue };
            let is_dir = entry.kind == Kind::Dir;
            if patience.ended().is_some() {
                return WalkControl::Stop;
            }
            if self.exclude.iter().any(|pick| pick.picks(&below, is_dir)) {
                return WalkControl::Skip;
            }
            let is_wanted = entry.kind == Kind::File
                && (self.include.is_empty() || self.include.iter().any(|pick| pick.picks(&below, false)));
            if is_wanted && !each(Target::Met(entry.clone())) {
                return WalkControl::Stop;
            }
            WalkControl::Continue
        });
        walk.map_err(errors::of)
    }
}
