//! Moves and copies, planned: of files and of directories with all below them.

use std::{collections::HashSet, os::fd::AsFd, sync::Arc};

use super::{
    Done, Expect, Found, Request, Result, View, ViewError,
    mutate::name_of,
    plan::{Plan, new_state},
    resolve::Follow,
};
use crate::{
    host::Errno,
    types::{Kind, ViewPath},
    versions::{ChangeKind, Content},
};

impl View {
    /// Moves a file or directory, also into another source (then it is copied and removed).
    ///
    /// # Errors
    /// `AlreadyExists` without `overwrite`; `Widens`; as `remove`.
    pub fn move_path(
        &self,
        request: &Request,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<Done> {
        self.planned(request, |plan| self.plan_move(request, plan, from, to, overwrite, expect))
    }

    pub(super) fn plan_move(
        &self,
        request: &Request,
        plan: &mut Plan,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<()> {
        let found = self.find_locked(from, Follow::No)?;
        self.writable(&found.node)?;
        let Some(to) = self.plan_place(request, plan, &found, to, overwrite)? else { return Ok(()) };
        let is_dir = found.attr.kind == Kind::Dir;
        let class = self.class(&to, is_dir);
        if crate::policy::Policy::widens(Some(found.class), class) {
            return Err(ViewError::Widens(to));
        }
        if is_dir {
            self.check_subtree(&found.node, &found.path, &to)?;
        }
        let before = self.plan_snapshot_kept(&found)?;
        {
            let mut state = found.node.file.state.lock();
            let require = request.require_hash;
            self.check_expected(&found.path, expect, Some((&found.node, &mut state, &before)), require)?;
        }
        let place = self.place_of(&to, found.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        let old = self.place_of(&found.path, found.class.unversioned).ok_or(ViewError::Host(Errno::STALE))?;
        if Arc::ptr_eq(&place.source, &old.source) {
            let after = (before.state.clone(), before.bytes.clone());
            let from = Some(old.path);
            plan.push(&place, ChangeKind::Rename, before.id, Some(&found.node), from, Some(&before), Some(after));
            return Ok(());
        }
        self.plan_copy(request, plan, &found, &to)?;
        self.plan_removal(request, plan, &found, &Expect::Any, true, &mut HashSet::new())
    }

    /// Makes room for something at `to`; `None` if it is there already.
    fn plan_place(
        &self,
        request: &Request,
        plan: &mut Plan,
        found: &Found,
        to: &ViewPath,
        overwrite: bool,
    ) -> Result<Option<ViewPath>> {
        let parent = to.parent().ok_or_else(|| ViewError::AlreadyExists(to.clone()))?;
        let to = self.plan_parents(request, plan, &parent)?.join(&name_of(to)?);
        if to == found.path {
            return Ok(None);
        }
        if to.starts_with(&found.path) {
            return Err(ViewError::InvalidArgument(format!("{to} lies inside {}", found.path)));
        }
        self.may_create(&to, found.attr.kind == Kind::Dir)?;
        match self.find_locked(&to, Follow::No) {
            Ok(_) if !overwrite => Err(ViewError::AlreadyExists(to)),
            Ok(target) => {
                if target.attr.kind == Kind::Dir && found.attr.kind != Kind::Dir {
                    return Err(ViewError::IsADirectory(to));
                }
                self.plan_removal(request, plan, &target, &Expect::Any, false, &mut HashSet::new())?;
                Ok(Some(to))
            }
            Err(ViewError::NotFound(_)) => Ok(Some(to)),
            Err(error) => Err(error),
        }
    }

    /// Copies a file or a directory with all below it; metadata is kept.
    ///
    /// # Errors
    /// As `move_path`.
    pub fn copy_path(
        &self,
        request: &Request,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<Done> {
        self.planned(request, |plan| self.plan_copy_to(request, plan, from, to, overwrite, expect))
    }

    pub(super) fn plan_copy_to(
        &self,
        request: &Request,
        plan: &mut Plan,
        from: &ViewPath,
        to: &ViewPath,
        overwrite: bool,
        expect: &Expect,
    ) -> Result<()> {
        let found = self.find_locked(from, Follow::No)?;
        let Some(to) = self.plan_place(request, plan, &found, to, overwrite)? else {
            return Err(ViewError::InvalidArgument(format!("{from} and {to} are the same")));
        };
        if !matches!(expect, Expect::Any) {
            let before = self.plan_snapshot(&found)?;
            let mut state = found.node.file.state.lock();
            self.check_expected(&found.path, expect, Some((&found.node, &mut state, &before)), false)?;
        }
        self.plan_copy(request, plan, &found, &to)
    }

    fn plan_copy(&self, request: &Request, plan: &mut Plan, found: &Found, to: &ViewPath) -> Result<()> {
        let class = self.may_create(to, found.attr.kind == Kind::Dir)?;
        let place = self.place_of(to, class.unversioned).ok_or_else(|| ViewError::ReadOnly(to.clone()))?;
        let id = self.core.store.next_node();
        let mut after = new_state(found.attr.kind, found.attr.mode, request.owner, found.attr.size, Content::None);
        after.mode = crate::host::stat(found.node.file.host.path_fd()?.as_fd())?.mode;
        after.rdev = found.attr.rdev;
        after.mtime = found.attr.mtime;
        after.xattrs = self.xattrs_of(&found.node)?;
        let mut bytes = None;
        match found.attr.kind {
            Kind::File => {
                let content = self.live_bytes(found, super::core::COPY_MAX)?;
                after.size = content.len() as u64;
                after.content =
                    if request.dry_run { Content::Live(None) } else { self.store_content(&place, id, &content)? };
                bytes = (content.len() as u64 <= super::core::WHOLE_COPY_MAX).then(|| Arc::new(content));
            }
            Kind::Symlink => after.content = Content::Target(self.target_of(found)?),
            Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {}
        }
        plan.push(&place, ChangeKind::Create, id, None, None, None, Some((after, bytes)));
        if found.attr.kind == Kind::Dir {
            for name in self.entries_of(found)? {
                let child = self.find_locked(&found.path.join(&name), Follow::No)?;
                self.plan_copy(request, plan, &child, &to.join(&name))?;
            }
        }
        Ok(())
    }
}
