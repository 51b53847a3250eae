//! Several mutations as one operation: each is checked against what is there, and then all are applied or none.
//!
//! Each is planned on the tree as it is, so two of them may not depend on each other, but for these: directories that one
//! makes may be written into by later ones, and a file that one writes may be written again.

use std::sync::Arc;

use super::{
    Done, Expect, Found, NewContent, Request, Result, View, ViewError, WriteFile,
    content::only_file,
    mutate::{Target, name_of, with_execute},
    plan::Plan,
};
use crate::{
    host::Errno,
    types::{Hash, Kind, ViewPath},
    versions::{ChangeKind, OpKind},
};

/// One of the mutations.
pub enum Step {
    /// As [`View::write_file`].
    Write(WriteFile),
    /// As [`View::move_path`].
    Move {
        /// What.
        from: ViewPath,
        /// Where to.
        to: ViewPath,
        /// Something there goes.
        overwrite: bool,
        /// What is there.
        expect: Expect,
    },
    /// As [`View::copy_path`].
    Copy {
        /// What.
        from: ViewPath,
        /// Where to.
        to: ViewPath,
        /// Something there goes.
        overwrite: bool,
        /// What is there.
        expect: Expect,
    },
    /// As [`View::make_dirs`].
    MakeDirs {
        /// Which.
        paths: Vec<ViewPath>,
        /// And those above them.
        parents: bool,
    },
    /// As [`View::remove`].
    Remove {
        /// Which, and what is there.
        targets: Vec<(ViewPath, Expect)>,
        /// With all below them.
        recursive: bool,
    },
}

impl View {
    /// Carries several mutations out as one. On an error `at` is the number of the one that was refused.
    ///
    /// # Errors
    /// Those of each; `InvalidArgument` for two that depend on each other.
    pub fn transact(&self, request: &Request, steps: &[Step], at: &mut usize) -> Result<Done> {
        self.guarded(|| {
            let _tree = self.core.tree.write();
            let mut plan = Plan::default();
            for (number, step) in steps.iter().enumerate() {
                *at = number;
                let begun = plan.steps.len();
                self.stands_as_planned(&plan, step)?;
                self.plan_step(request, &mut plan, step)?;
                self.stand_alone(&plan, begun)?;
            }
            self.finish_plan(request, OpKind::Edit, plan)
        })
    }

    fn plan_step(&self, request: &Request, plan: &mut Plan, step: &Step) -> Result<()> {
        match step {
            Step::Write(write) => self.plan_write(request, plan, write),
            Step::Move { from, to, overwrite, expect } => self.plan_move(request, plan, from, to, *overwrite, expect),
            Step::Copy { from, to, overwrite, expect } => {
                self.plan_copy_to(request, plan, from, to, *overwrite, expect)
            }
            Step::MakeDirs { paths, parents } => self.plan_dirs(request, plan, paths, *parents),
            Step::Remove { targets, recursive } => self.plan_removals(request, plan, targets, *recursive),
        }
    }

    /// Refuses a step that looks at what the plan changes: it would see it as it is before.
    fn stands_as_planned(&self, plan: &Plan, step: &Step) -> Result<()> {
        let (looked_at, with_all_below): (Vec<&ViewPath>, bool) = match step {
            Step::Move { from, .. } | Step::Copy { from, .. } => (vec![from], true),
            Step::Write(write) => (vec![&write.path], false),
            Step::MakeDirs { paths, .. } => (paths.iter().collect(), false),
            Step::Remove { targets, .. } => (targets.iter().map(|(path, _)| path).collect(), true),
        };
        let mut changed = plan.steps.iter().flat_map(|step| {
            let paths = [Some(&step.change.path), step.change.from.as_ref()].into_iter().flatten();
            paths.filter_map(|path| Some((self.place(step.source.id, path)?, goes(step.change.kind))))
        });
        let clash = changed.find_map(|(changed, gone)| {
            looked_at
                .iter()
                .find(|path| (gone && path.starts_with(&changed)) || (with_all_below && changed.starts_with(path)))
        });
        clash.map_or(Ok(()), |path| Err(depends(path)))
    }

    /// Refuses what was planned from `begun` on if it depends on what was planned before.
    fn stand_alone(&self, plan: &Plan, begun: usize) -> Result<()> {
        let (before, these) = plan.steps.split_at(begun);
        for new in these {
            for old in before.iter().filter(|old| Arc::ptr_eq(&old.source, &new.source)) {
                let (new, old) = (&new.change, &old.change);
                let news = [Some(&new.path), new.from.as_ref()].into_iter().flatten();
                let olds = || [Some(&old.path), old.from.as_ref()].into_iter().flatten();
                let same_file = new.kind == ChangeKind::Write && old.kind == ChangeKind::Write && new.node == old.node;
                let clash = news.clone().find(|path| {
                    olds().any(|other| {
                        *path == other
                            || (goes(old.kind) && path.starts_with(other))
                            || (goes(new.kind) && other.starts_with(path))
                    })
                });
                if let Some(path) = clash.or(same_file.then_some(&new.path)) {
                    return Err(depends(path));
                }
            }
        }
        Ok(())
    }

    fn plan_write(&self, request: &Request, plan: &mut Plan, write: &WriteFile) -> Result<()> {
        match self.target(&write.path)? {
            Target::Existing(found) => {
                if self.write_again(request, plan, write, &found.path)? {
                    return Ok(());
                }
                self.plan_rewrite(request, plan, write, &found)
            }
            Target::Missing(dir, name) => {
                let path = dir.path.join(&name);
                if self.write_again(request, plan, write, &path)? {
                    return Ok(());
                }
                self.plan_new_file(request, write, plan, &path, Some(&dir))
            }
            Target::MissingParents => {
                if self.write_again(request, plan, write, &write.path)? {
                    return Ok(());
                }
                if !write.parents {
                    return Err(ViewError::NotFound(write.path.parent().unwrap_or_default()));
                }
                let parent = self.plan_parents(request, plan, &write.path.parent().unwrap_or_default())?;
                self.plan_new_file(request, write, plan, &parent.join(&name_of(&write.path)?), None)
            }
        }
    }

    /// A file that the plan writes already gets the newer content instead. False if there is none.
    fn write_again(&self, request: &Request, plan: &mut Plan, write: &WriteFile, path: &ViewPath) -> Result<bool> {
        let place = |source: &super::Source, path: &ViewPath| self.place(source.id, path);
        let Some(step) = plan.steps.iter_mut().find(|step| {
            matches!(step.change.kind, ChangeKind::Create | ChangeKind::Write)
                && step.after.as_ref().is_some_and(|after| after.kind == Kind::File)
                && place(&step.source, &step.change.path).as_ref() == Some(path)
        }) else {
            return Ok(false);
        };
        let (Some(after), Some(side)) = (&mut step.change.after, &mut step.after) else { return Ok(false) };
        let Some(old) = side.bytes.clone() else { return Ok(false) };
        let current = Hash::of(&old);
        match &write.expect {
            Expect::Any => {}
            Expect::Hash(wanted) if wanted.matches(&current) => {}
            Expect::Absent | Expect::Hash(_) => {
                return Err(ViewError::HashConflict { path: path.clone(), current: Some(current) });
            }
        }
        let bytes = Arc::new(match &write.content {
            NewContent::Bytes(bytes) => bytes.clone(),
            NewContent::Rewritten { rewrite, .. } => rewrite(&old)?,
        });
        after.mode = with_execute(after.mode, write.executable);
        after.size = bytes.len() as u64;
        if !request.dry_run {
            let class = self.class(path, false).ok_or_else(|| ViewError::NotFound(path.clone()))?;
            let place = self.place_of(path, class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
            after.content = self.store_content(&place, step.change.node, &bytes)?;
        }
        (side.size, side.hash, side.bytes) = (after.size, after.hash(), Some(Arc::clone(&bytes)));
        if let Some(hash) = after.hash() {
            plan.bytes.insert(hash, bytes);
        }
        Ok(true)
    }

    /// Another content for a file that is there. As for one file alone, but that no lock is held until it is applied: then it
    /// is looked at once more.
    fn plan_rewrite(&self, request: &Request, plan: &mut Plan, write: &WriteFile, found: &Found) -> Result<()> {
        let (node, path) = (&found.node, &found.path);
        only_file(found.attr.kind, path)?;
        self.writable(node)?;
        let before = self.plan_snapshot(found)?;
        {
            let mut state = node.file.state.lock();
            self.check_expected(path, &write.expect, Some((node, &mut state, &before)), request.require_hash)?;
        }
        let place = self.place_of(path, node.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        self.plan_content(request, plan, write, found, &place, &before).map(drop)
    }
}

fn depends(path: &ViewPath) -> ViewError {
    let text = "an earlier operation of the transaction already touches it; make one of the two, or two calls";
    ViewError::InvalidArgument(format!("{path}: {text}"))
}

/// What stood at the path, or below it, does not stand there any more.
fn goes(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::Remove | ChangeKind::Rename)
}
