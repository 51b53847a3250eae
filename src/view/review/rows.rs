//! From the net effect of what is pending to what a person is shown: path by path, what was there and what is there now.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{PendingSession, Result, View, gather::Step};
use crate::{
    types::{Actor, Hash, Kind, NodeId, OpId, ViewPath},
    versions::{Content, Reviewed, State, Whose},
    view::{
        Follow, ViewError,
        core::COPY_MAX,
        net::{Expected, Net, Wanted},
    },
};

/// What happened to a path, all in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PendingChange {
    /// It was not there.
    Created,
    /// Its content is another, or what stands there is.
    Changed,
    /// It is not there any more.
    Removed,
    /// It stood elsewhere; its content may have changed, too.
    Renamed,
    /// Only its mode, owner or attributes are others.
    Metadata,
}

/// One path that is pending.
#[derive(Clone, Debug)]
pub struct PendingPath {
    /// Where it stands, or stood.
    pub path: ViewPath,
    /// Where it stood before, if that was elsewhere.
    pub from: Option<ViewPath>,
    /// What happened.
    pub change: PendingChange,
    /// Its base; none if it was not there.
    pub before: Option<State>,
    /// As the session left it; none if it removed it.
    pub after: Option<State>,
    /// The operations that did it, oldest first.
    pub operations: Vec<OpId>,
    /// What others did to it meanwhile, oldest first.
    pub interleaved: Vec<Interleaved>,
    /// The files that it was.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// The file of the base, and the last operation with its file.
    pub(super) base: Option<NodeId>,
    pub(super) left: Option<(OpId, NodeId)>,
    /// Others changed the content between two changes of the session.
    pub(super) mixed: bool,
}

/// A change by somebody else of what is pending.
#[derive(Clone, Debug)]
pub struct Interleaved {
    /// Its operation.
    pub op: OpId,
    /// Who.
    pub actor: Actor,
}

impl PendingChange {
    /// The word that answers use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PendingChange::Created => "created",
            PendingChange::Changed => "changed",
            PendingChange::Removed => "removed",
            PendingChange::Renamed => "renamed",
            PendingChange::Metadata => "metadata",
        }
    }
}

impl PendingPath {
    /// Does it stand, or did it stand, at a path or below it?
    #[must_use]
    pub fn is_at(&self, path: &ViewPath) -> bool {
        self.path.starts_with(path) || self.from.as_ref().is_some_and(|from| from.starts_with(path))
    }
}

/// Steps by the files and the names that they are about.
struct Lookup<'a> {
    steps: &'a [Step],
    nodes: HashMap<NodeId, Vec<usize>>,
    names: HashMap<&'a ViewPath, Vec<usize>>,
}

impl<'a> Lookup<'a> {
    fn of(steps: &'a [Step]) -> Lookup<'a> {
        let mut lookup = Lookup { steps, nodes: HashMap::new(), names: HashMap::new() };
        for (at, step) in steps.iter().enumerate() {
            lookup.nodes.entry(step.change.node).or_default().push(at);
            for name in std::iter::once(&step.change.path).chain(&step.change.from) {
                lookup.names.entry(name).or_default().push(at);
            }
        }
        lookup
    }

    fn of_node(&self, node: NodeId) -> impl Iterator<Item = &'a Step> {
        self.nodes.get(&node).into_iter().flatten().map(|at| &self.steps[*at])
    }

    fn at(&self, path: &ViewPath) -> impl Iterator<Item = &'a Step> {
        self.names.get(path).into_iter().flatten().map(|at| &self.steps[*at])
    }
}

/// How two states differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Difference {
    None,
    Metadata,
    Content,
}

impl View {
    /// What is pending, by session. The tree lock is held.
    pub(super) fn pending_rows(&self, reviewed: &Reviewed, steps: &[Step]) -> Result<Vec<PendingSession>> {
        let lookup = Lookup::of(steps);
        // What stands as it stood before all of it is nobody's change any more.
        let mut holding = BTreeSet::new();
        for row in self.rows_of(reviewed, &lookup, &Whose::All)? {
            if !self.is_as_before(&row)? {
                holding.extend(row.nodes);
            }
        }
        let owners: BTreeSet<&Whose> = steps.iter().filter_map(|step| step.owner.as_ref()).collect();
        let mut sessions = Vec::new();
        for whose in owners {
            let mut paths = self.rows_of(reviewed, &lookup, whose)?;
            paths.retain(|row| row.nodes.iter().any(|node| holding.contains(node)));
            if !paths.is_empty() {
                sessions.push(PendingSession { whose: whose.clone(), paths });
            }
        }
        Ok(sessions)
    }

    fn rows_of(&self, reviewed: &Reviewed, lookup: &Lookup<'_>, whose: &Whose) -> Result<Vec<PendingPath>> {
        let own: Vec<&Step> = lookup.steps.iter().filter(|step| step.is_of(whose)).collect();
        let net = self.review_net(reviewed, &own)?;
        let mut rows = Vec::new();
        let mut replaced = BTreeSet::new();
        for (home, wanted) in net.wanted.iter().filter(|(_, wanted)| !wanted.absent) {
            if wanted.now.is_none() && net.gone.contains(home) {
                replaced.insert(home.clone());
            }
            rows.extend(self.row(&net, home, wanted)?);
        }
        for path in net.gone.difference(&replaced) {
            if let Some(Expected::State { op, node, state }) = net.expected.get(path) {
                let state = Some((**state).clone());
                rows.push(row(path, None, PendingChange::Created, (None, None), (state, Some((*op, *node)))));
            }
        }
        for row in &mut rows {
            self.complete(row, &net, lookup, whose)?;
        }
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(rows)
    }

    /// What was there, against what the changes left; none if that is the same.
    fn row(&self, net: &Net, home: &ViewPath, wanted: &Wanted) -> Result<Option<PendingPath>> {
        let replaced = wanted.now.is_none() && net.gone.contains(home);
        let base = wanted.state.as_ref().map(|(node, _)| *node);
        let before = wanted.state.as_ref().map(|(_, state)| state.clone());
        let now = match &wanted.now {
            Some(now) => now,
            None if replaced => home,
            None => return Ok(Some(row(home, None, PendingChange::Removed, (before, base), (None, None)))),
        };
        let Some(Expected::State { op, node, state }) = net.expected.get(now) else { return Ok(None) };
        let after = (Some((**state).clone()), Some((*op, *node)));
        let difference = match &before {
            Some(before) => self.difference(before, state, (*op, *node), now)?,
            None => Difference::None,
        };
        let change = match difference {
            _ if now != home => PendingChange::Renamed,
            Difference::None => return Ok(None),
            Difference::Metadata => PendingChange::Metadata,
            Difference::Content => PendingChange::Changed,
        };
        let from = (now != home).then(|| home.clone());
        let before = if difference == Difference::Content || from.is_none() { before } else { None };
        Ok(Some(row(now, from, change, (before, base), after)))
    }

    /// The operations of a path, and those of others.
    fn complete(&self, row: &mut PendingPath, net: &Net, lookup: &Lookup<'_>, whose: &Whose) -> Result<()> {
        let at_home: Vec<&Step> = lookup.at(&row.path).collect();
        let mut nodes: BTreeSet<NodeId> = row.base.into_iter().chain(row.left.map(|(_, node)| node)).collect();
        // A name may have been another file's in between; so may what one operation put in its place.
        nodes.extend(at_home.iter().filter(|step| step.is_of(whose)).map(|step| step.change.node));
        let of_nodes: Vec<&Step> = nodes.iter().flat_map(|node| lookup.of_node(*node)).collect();
        let operations: BTreeSet<OpId> = of_nodes.iter().filter(|step| step.is_of(whose)).map(|step| step.op).collect();
        let first = operations.first().copied().unwrap_or(OpId(0));
        let others = at_home.iter().chain(&of_nodes).filter(|step| step.op > first && !operations.contains(&step.op));
        let others: BTreeMap<OpId, &Actor> =
            others.filter(|step| !step.is_of(whose)).map(|step| (step.op, &step.actor)).collect();
        row.interleaved = others.into_iter().map(|(op, actor)| Interleaved { op, actor: actor.clone() }).collect();
        row.operations = operations.into_iter().collect();
        row.nodes = nodes;
        for between in net.between.get(&row.path).into_iter().flatten() {
            let content = self.core.store.content_of(between.node, between.op)?;
            let left = State { content, ..between.left.clone() };
            row.mixed |= left.hash().is_none() || left.hash() != between.found.hash();
        }
        Ok(())
    }

    fn difference(&self, before: &State, after: &State, left: (OpId, NodeId), now: &ViewPath) -> Result<Difference> {
        let other_content = match (before.kind, &before.content) {
            (kind, _) if kind != after.kind => true,
            (_, Content::Live(_)) | (Kind::Dir, _) => false,
            (Kind::Symlink, content) => *content != after.content,
            (Kind::File, _) if before.size != after.size => true,
            (Kind::File, _) => {
                let (old, new) = (self.left_hash(before, None, now)?, self.left_hash(after, Some(left), now)?);
                old.is_none() || old != new
            }
            (Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice, _) => before.rdev != after.rdev,
        };
        if other_content {
            return Ok(Difference::Content);
        }
        let meta = |state: &State| (state.mode, state.uid, state.gid, state.xattrs.clone());
        Ok(if meta(before) == meta(after) { Difference::None } else { Difference::Metadata })
    }

    /// The hash of a file's content; none if it is not known any more.
    fn left_hash(&self, state: &State, left: Option<(OpId, NodeId)>, now: &ViewPath) -> Result<Option<Hash>> {
        if let Some(hash) = state.hash() {
            return Ok(Some(hash));
        }
        match self.bytes_left(state, left, now) {
            Ok(bytes) => Ok(Some(Hash::of(&bytes))),
            Err(ViewError::VersionPruned { .. } | ViewError::TooLarge { .. } | ViewError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of a state; of one that a change left, and that may still be what stands there, with that change.
    pub(super) fn bytes_left(&self, state: &State, left: Option<(OpId, NodeId)>, now: &ViewPath) -> Result<Vec<u8>> {
        let content = match (&state.content, left) {
            (Content::Live(_), Some((op, node))) => self.core.store.content_of(node, op)?,
            (content, _) => content.clone(),
        };
        if let (Content::Live(_), Some((op, _))) = (&content, left) {
            return self.past_bytes_locked(now, op, COPY_MAX);
        }
        self.state_bytes(now, &State { content, ..state.clone() }, COPY_MAX)
    }

    /// Does everything stand as it stood before?
    fn is_as_before(&self, row: &PendingPath) -> Result<bool> {
        let look = |path: &ViewPath| match self.find_locked(path, Follow::No) {
            Ok(found) => Ok(Some(found)),
            Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => Ok(None),
            Err(error) => Err(error),
        };
        let home = row.from.as_ref().unwrap_or(&row.path);
        let Some(before) = &row.before else {
            let moved = row.from.is_some();
            return Ok(look(&row.path)?.is_none() && (!moved || look(home)?.is_some()));
        };
        let Some(found) = look(home)? else { return Ok(false) };
        let attr = found.node.file.host.attr()?;
        let same_meta = (before.mode, before.uid, before.gid) == (attr.mode, attr.uid, attr.gid)
            && before.xattrs == self.xattrs_of(&found.node)?;
        // What stays live was not changed, so that nothing is known of it but that it stands there.
        let same_content = matches!(before.content, Content::Live(_)) || self.is_as(before, None, &found)?;
        Ok(same_meta && same_content && (row.from.is_none() || look(&row.path)?.is_none()))
    }
}

fn row(
    path: &ViewPath,
    from: Option<ViewPath>,
    change: PendingChange,
    (before, base): (Option<State>, Option<NodeId>),
    (after, left): (Option<State>, Option<(OpId, NodeId)>),
) -> PendingPath {
    PendingPath {
        path: path.clone(),
        from,
        change,
        before,
        after,
        operations: Vec::new(),
        interleaved: Vec::new(),
        nodes: BTreeSet::new(),
        base,
        left,
        mixed: false,
    }
}
