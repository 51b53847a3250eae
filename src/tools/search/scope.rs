//! Where a search looks: the files of a walk that its globs leave, or one file, now or then.

use control_api::{ToolError, tools::SearchArgs};

use super::gather::Place;
use crate::{
    tools::{
        bounds::Patience,
        errors, find,
        given::{self, Pick},
        native::Call,
    },
    types::{Kind, OpId, ViewPath},
    view::{Follow, MetThen, Then, WalkControl, WalkEntry, WalkOptions, Walked},
};

/// One file to search.
pub(super) enum Target {
    /// Met on the walk.
    Met(WalkEntry),
    /// Named by its path.
    Path(ViewPath),
    /// As it was after an operation.
    Then(ViewPath, OpId),
}

impl Target {
    /// Where it is.
    pub fn path(&self) -> &ViewPath {
        match self {
            Target::Met(entry) => &entry.path,
            Target::Path(path) | Target::Then(path, _) => path,
        }
    }
}

/// The files to search.
pub(super) struct Scope<'a> {
    call: &'a Call<'a>,
    start: ViewPath,
    place: Where,
    options: WalkOptions,
    include: Vec<Pick>,
    exclude: Vec<Pick>,
}

/// Where and when.
enum Where {
    File,
    Dir,
    FileThen(OpId),
    DirThen(Then),
}

impl<'a> Scope<'a> {
    /// What the arguments mean.
    pub fn new(call: &'a Call<'a>, args: &SearchArgs) -> Result<Self, ToolError> {
        let dialect = given::dialect(args.dialect);
        let depth = args.depth.map(|n| given::bounded("depth", n, 1, find::DEPTH_MAX)).transpose()?;
        let traversal = args.traversal_limit.map(|n| given::bounded("traversal_limit", n, 1, u64::MAX)).transpose()?;
        let path = given::path(call.view, &args.path)?;
        let (include, exclude) = (Pick::all(&args.include, dialect)?, Pick::all(&args.exclude, dialect)?);
        let options = WalkOptions {
            depth: depth.unwrap_or(usize::MAX),
            hidden: args.hidden,
            ignored: args.ignored,
            traversal,
            attrs: false,
            after: None,
        };
        let (start, place) = match &args.at {
            Some(at) => {
                let at = given::moment(at)?;
                let place = match call.view.then(&path, &at, &options).map_err(errors::of)? {
                    Some(then) => Where::DirThen(then),
                    None => Where::FileThen(call.view.moment(&at).map_err(errors::of)?),
                };
                (path, place)
            }
            None => {
                let found = call.view.find(&path, Follow::Yes).map_err(errors::of)?;
                match found.attr.kind {
                    Kind::Dir => (found.path, Where::Dir),
                    Kind::File => (found.path, Where::File),
                    Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                        return Err(errors::of(crate::view::ViewError::NotAFile(found.path)));
                    }
                }
            }
        };
        Ok(Scope { call, start, place, options, include, exclude })
    }

    /// A file of the scope, by its path.
    pub fn target(&self, path: &ViewPath) -> Target {
        match &self.place {
            Where::File | Where::Dir => Target::Path(path.clone()),
            Where::FileThen(op) => Target::Then(path.clone(), *op),
            Where::DirThen(then) => Target::Then(path.clone(), then.op),
        }
    }

    /// Hands each file to `each`, from a place on, until it answers false or time is up.
    pub fn walk(
        &self,
        from: &Place,
        patience: &Patience<'_>,
        each: &mut dyn FnMut(Target) -> bool,
    ) -> Result<Walked, ToolError> {
        if matches!(self.place, Where::File | Where::FileThen(_)) {
            if from.after.is_none() || from.within.is_some() {
                each(self.target(&self.start));
            }
            return Ok(Walked::default());
        }
        // The file in which the last page ended is met again.
        if let Some((path, _)) = &from.within
            && !each(self.target(path))
        {
            return Ok(Walked { stopped: true, ..Walked::default() });
        }
        let options = WalkOptions { after: from.after.clone(), ..self.options.clone() };
        let view = self.call.view;
        let walk = match &self.place {
            Where::DirThen(then) => view.walk_then(then, &options, &mut |met| {
                let ended = patience.ended().is_some();
                match met {
                    _ if ended => WalkControl::Stop,
                    MetThen::Same(entry) => self.meet(entry, &mut |target| {
                        let still = view.is_still(then);
                        each(if still { target } else { self.target(target.path()) })
                    }),
                    MetThen::Perhaps(path) if self.picks(path) && !each(self.target(path)) => WalkControl::Stop,
                    MetThen::Perhaps(_) => WalkControl::Continue,
                }
            }),
            Where::Dir | Where::File | Where::FileThen(_) => view.walk(&self.start, &options, &mut |entry| {
                if patience.ended().is_some() { WalkControl::Stop } else { self.meet(entry, each) }
            }),
        };
        walk.map_err(errors::of)
    }

    /// An entry of a walk.
    fn meet(&self, entry: &WalkEntry, each: &mut dyn FnMut(Target) -> bool) -> WalkControl {
        let Some(below) = entry.path.strip_prefix(&self.start) else { return WalkControl::Continue };
        if self.exclude.iter().any(|pick| pick.picks(&below, entry.kind == Kind::Dir)) {
            return WalkControl::Skip;
        }
        let is_wanted = entry.kind == Kind::File && self.includes(&below);
        if is_wanted && !each(Target::Met(entry.clone())) { WalkControl::Stop } else { WalkControl::Continue }
    }

    fn includes(&self, below: &ViewPath) -> bool {
        self.include.is_empty() || self.include.iter().any(|pick| pick.picks(below, false))
    }

    /// The same for a file that the walk did not come to by its directories.
    fn picks(&self, path: &ViewPath) -> bool {
        let Some(below) = path.strip_prefix(&self.start) else { return false };
        let dirs = std::iter::successors(below.parent(), ViewPath::parent).filter(|dir| !dir.is_root());
        let excludes = |path: &ViewPath, is_dir| self.exclude.iter().any(|pick| pick.picks(path, is_dir));
        self.includes(&below) && !excludes(&below, false) && !dirs.into_iter().any(|dir| excludes(&dir, true))
    }
}
