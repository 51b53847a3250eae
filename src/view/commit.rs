//! The commit of a plan: recorded, made durable as promised, applied, recorded as it came out, told to the kernel.

use std::{collections::HashMap, os::fd::AsFd, sync::Arc};

use super::{
    Done, Invalidate, Request, Result, View, ViewError,
    apply::{Applying, inverse},
    file::{File, FileState, Head},
    plan::{Plan, Step},
    resolve::Follow,
};
use crate::{
    crash_point, host,
    types::{EntryName, Kind, OpId, Timestamp, ViewPath},
    versions::{ChangeKind, Content, Durability, OpKind, Operation, State, crash},
};

/// A name that changed, for the kernels of all views that show its directory.
pub(crate) struct Told {
    dir: Arc<File>,
    name: EntryName,
    /// What was removed, or was written in place.
    file: Option<Arc<File>>,
    removed: bool,
    path: ViewPath,
}

/// The lock of a file that the caller of `commit` holds.
pub(crate) type HeldLock<'a> = Option<(&'a Arc<File>, &'a mut FileState)>;

impl View {
    /// Records and applies a plan. The locks that keep its paths still are held by the caller; what it returns is told to the
    /// kernel by `tell` after they are gone.
    ///
    /// # Errors
    /// Those of the store before anything was changed; those of the host after everything was put back; `Undecided`.
    pub(crate) fn commit(
        &self,
        request: &Request,
        kind: OpKind,
        undoes: Vec<OpId>,
        mut plan: Plan,
        mut held: HeldLock<'_>,
    ) -> Result<(Done, Vec<Told>)> {
        let store = &self.core.store;
        let _under_way = self.core.under_way.begin(store);
        let op = store.next_op();
        for step in &mut plan.steps {
            let stages = step.change.after.as_ref().is_some_and(|after| after.kind == Kind::File);
            if stages && matches!(step.change.kind, ChangeKind::Create | ChangeKind::Write) {
                step.change.staged = Some(store.tmp_name().to_string());
            }
        }
        let mut operation = Operation {
            op,
            time: Timestamp::now(),
            actor: request.actor.clone(),
            kind,
            changes: plan.steps.iter().map(|step| step.change.clone()).collect(),
            operation_id: request.operation.as_ref().map(|(id, _)| id.clone()),
            request: request.operation.as_ref().map(|(_, hash)| *hash),
            note: Some(request.tool.clone()),
            undoes,
            intent: true,
        };
        crash_point!("planned");
        if !crash::planted("intent-left-out") {
            let lsn = store.append(&operation)?;
            crash_point!("intent-appended");
            store.settle(lsn).map_err(ViewError::undecided)?;
            crash_point!("intent-flushed");
        }
        // Directories by which watchers are told must be found before names move.
        let mut told = Vec::new();
        self.apply_all(kind, op, &plan, &mut told)?;
        if kind == OpKind::Revert {
            self.put_dir_times_back(&plan)?;
        }
        crash_point!("all-applied");
        for step in &mut plan.steps {
            self.settle_step(op, step, &mut held).map_err(ViewError::undecided)?;
        }
        operation.changes = plan.steps.iter().map(|step| step.change.clone()).collect();
        operation.intent = store.durability() == Durability::Strict;
        store.append(&operation).map_err(ViewError::undecided)?;
        crash_point!("outcome-appended");
        if operation.intent {
            self.core.finisher.offer(op, plan.steps.iter().filter_map(|step| step.node.clone()).collect());
        }
        Ok((Done { op: Some(op), paths: plan.touched(self) }, told))
    }

    fn apply_all(&self, kind: OpKind, op: OpId, plan: &Plan, told: &mut Vec<Told>) -> Result<()> {
        let applying = Applying::new(&self.core, &plan.bytes, kind == OpKind::Revert);
        for (done, step) in plan.steps.iter().enumerate() {
            self.note_told(step, told);
            let Err(error) = applying.apply(&step.source, &step.change) else {
                crash_point!("step-applied");
                continue;
            };
            let empty = HashMap::new();
            let back = Applying::new(&self.core, &empty, true);
            let applied = if applying.left_half_written() { done + 1 } else { done };
            if applied > 0 {
                // From here on nothing is rolled forward: what a crash leaves is taken back by recovery.
                self.core.store.withdrawn(op).map_err(ViewError::undecided)?;
                crash_point!("withdrawal-recorded");
            }
            for step in plan.steps[..applied].iter().rev() {
                // The old content is in the store; if even this fails, recovery tries again.
                back.apply(&step.source, &inverse(&step.change)).map_err(ViewError::undecided)?;
                crash_point!("step-taken-back");
            }
            self.core.store.aborted(op).map_err(ViewError::undecided)?;
            crash_point!("abort-recorded");
            told.clear();
            return Err(self.in_view_terms(step, error));
        }
        Ok(())
    }

    /// What was made in a directory changed its time; the deepest come first.
    fn put_dir_times_back(&self, plan: &Plan) -> Result<()> {
        for step in plan.steps.iter().rev() {
            let Some(after) = step.change.after.as_ref().filter(|after| after.kind == Kind::Dir) else { continue };
            if step.change.kind != ChangeKind::Create {
                continue;
            }
            let (Ok(dir), Some(name)) =
                (super::apply::dir_of(&step.source, &step.change.path), step.change.path.file_name())
            else {
                continue;
            };
            if let Ok(fd) = host::open_child(dir.as_fd(), &name) {
                host::set_times(fd.as_fd(), host::SetTime::Keep, host::SetTime::At(after.mtime))?;
            }
        }
        Ok(())
    }

    fn in_view_terms(&self, step: &Step, error: ViewError) -> ViewError {
        let path = self.place(step.source.id, &step.change.path).unwrap_or_else(|| step.change.path.clone());
        if let ViewError::HashConflict { current, .. } = error {
            return ViewError::HashConflict { path, current };
        }
        if matches!(error, ViewError::Host(host::Errno::EXIST)) {
            return ViewError::AlreadyExists(path);
        }
        if matches!(error, ViewError::Host(host::Errno::NOTEMPTY)) {
            return ViewError::NotEmpty(path);
        }
        if matches!(error, ViewError::Host(host::Errno::NOENT)) {
            return ViewError::NotFound(path);
        }
        error
    }

    /// Remembers whom to tell of a step, before it is applied.
    fn note_told(&self, step: &Step, told: &mut Vec<Told>) {
        let mut note = |path: &ViewPath, removed: bool| {
            let Some(path) = self.place(step.source.id, path) else { return };
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
            if let Ok(dir) = self.find_locked(&parent, Follow::No) {
                let file = step.node.as_ref().map(|node| Arc::clone(&node.file));
                told.push(Told { dir: Arc::clone(&dir.node.file), name, file, removed, path });
            }
        };
        if let Some(from) = &step.change.from
            && step.change.kind != ChangeKind::Link
        {
            note(from, true);
        }
        note(&step.change.path, step.change.kind == ChangeKind::Remove);
    }

    /// What came out of one step: the inode that is there now, and what the log knows of it from here on.
    fn settle_step(&self, op: OpId, step: &mut Step, held: &mut HeldLock<'_>) -> Result<()> {
        let old = step.node.take();
        step.change.staged = None;
        let path = self.place(step.source.id, &step.change.path).unwrap_or_default();
        let parent = path.parent().unwrap_or_default();
        let dir = self.find_locked(&parent, Follow::No).ok();
        if let (Some(old), Some(dir), Some(name)) = (&old, &dir, path.file_name()) {
            let gone = matches!(step.change.kind, ChangeKind::Remove)
                || (step.change.kind == ChangeKind::Write && step.change.before.as_ref().is_some_and(|s| s.nlink <= 1));
            if gone {
                old.file.lost_name(&dir.node.file, &name);
                if step.change.kind == ChangeKind::Write {
                    old.file.set_replaced();
                }
                self.with_state(&old.file, held, |state| {
                    let aside = matches!(step.change.before.as_ref().map(|s| &s.content), Some(Content::Aside(_)));
                    if aside && step.change.before.as_ref().is_some_and(|s| s.nlink <= 1) {
                        old.file.went_aside();
                    }
                    if step.change.before.as_ref().is_some_and(|s| s.nlink <= 1) {
                        state.head = Head::Unknown(None);
                        return self.abandon(state);
                    }
                    Ok(())
                })?;
            }
        }
        if let (Some(old), Some(from)) = (&old, &step.change.from)
            && matches!(step.change.kind, ChangeKind::Rename | ChangeKind::Link)
            && let Some(from) = self.place(step.source.id, from)
        {
            if step.change.kind == ChangeKind::Rename
                && let (Some(above), Some(name)) = (from.parent(), from.file_name())
                && let Ok(above) = self.find_locked(&above, Follow::No)
            {
                old.file.lost_name(&above.node.file, &name);
            }
            if let (Some(dir), Some(name)) = (&dir, path.file_name()) {
                old.file.got_name(&dir.node.file, &name);
            }
        }
        let Some(after) = &mut step.change.after else {
            // The directory is what has to be put on disk.
            step.node = dir.map(|dir| dir.node);
            return Ok(());
        };
        // A later step may have moved or removed it again; then what was planned is what was.
        let Ok(found) = self.find_locked(&path, Follow::No) else { return Ok(()) };
        let attr = found.node.file.host.attr()?;
        let xattrs = self.xattrs_of(&found.node)?;
        let content = after.content.clone();
        // Under a writer's hands a file may have moved, or got other metadata.
        let kept = matches!(step.change.kind, ChangeKind::Rename | ChangeKind::Meta);
        let moved = step.change.before.as_ref().filter(|_| kept).map(|before| (before.clone(), after.mtime));
        *after = State::of(&attr, content);
        after.nlink = found.node.file.links(&attr);
        after.xattrs = xattrs;
        step.change.key = Some(found.node.file.stable_key());
        let (id, after) = (step.change.node, after.clone());
        self.with_state(&found.node.file, held, |state| {
            state.head = Head::Known(id, after);
            state.last_op = op;
            state.hashed = None;
            if let Some((old, planned)) = &moved {
                state.changed_by_us(old, *planned, &attr);
            }
        });
        step.node = Some(found.node);
        Ok(())
    }

    fn with_state<T>(&self, file: &Arc<File>, held: &mut HeldLock<'_>, work: impl FnOnce(&mut FileState) -> T) -> T {
        match held {
            Some((ours, state)) if Arc::ptr_eq(ours, file) => work(state),
            Some(_) | None => work(&mut file.state.lock()),
        }
    }

    /// Tells every view's kernel, and wakes watchers. No lock is held.
    pub(crate) fn tell(&self, told: &[Told]) {
        if told.is_empty() {
            return;
        }
        for view in self.core.views() {
            let Some(notify) = view.notify.get() else { continue };
            let mut events = Vec::new();
            for one in told {
                let of_view = |file: &Arc<File>| -> Vec<_> {
                    file.live_nodes().into_iter().filter(|node| node.view() == view.id).collect()
                };
                let children = one.file.as_ref().map(of_view).unwrap_or_default();
                for parent in of_view(&one.dir) {
                    match children.first() {
                        Some(child) if one.removed => events.push(Invalidate::Removed {
                            parent: parent.ino,
                            child: child.ino,
                            name: one.name.clone(),
                        }),
                        Some(_) | None => events.push(Invalidate::Name(parent.ino, one.name.clone())),
                    }
                    events.push(Invalidate::Node(parent.ino));
                }
                events.extend(children.iter().map(|child| Invalidate::Node(child.ino)));
            }
            notify.tell(events);
            notify.nudge(told.iter().filter(|one| !one.removed).map(|one| one.path.clone()).collect());
        }
    }
}
