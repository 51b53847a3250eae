//! The tools' mutations: each plans its steps under the locks, and has them applied as one.

use super::{Done, Expect, Request, Result, View, WriteFile};
use crate::{
    types::{Hash, OpId, ViewPath},
    versions::Replay,
};

impl View {
    /// The recorded answer of an idempotent call.
    ///
    /// # Errors
    /// `OperationIdReused` if it was another request.
    pub fn replay(&self, id: &str, request: &Hash) -> Result<Option<Replay>> {
        todo!()
    }

    /// Keeps the answer of an idempotent call.
    ///
    /// # Errors
    /// The store's.
    pub fn answered(&self, id: &str, request: &Hash, op: Option<OpId>, response: &str) -> Result<()> {
        todo!()
    }

    /// Writes one file.
    ///
    /// # Errors
    /// `HashConflict`, `HashRequired`, `AlreadyExists`, `WriterOpen`, `NotFound`, `ReadOnly`, `CreateDenied`, …
    pub fn write_file(&self, request: &Request, write: WriteFile) -> Result<Done> {
        todo!()
    }

    /// Makes directories; one that is there already is no error.
    ///
    /// # Errors
    /// `AlreadyExists` for something else there; `NotFound` for a missing parent without `parents`.
    pub fn make_dirs(&self, request: &Request, paths: &[ViewPath], parents: bool) -> Result<Done> {
        todo!()
    }

    /// Removes files and directories.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty` without `recursive`, `HashConflict`, `Unversionable` (named, nothing removed), `ReadOnly`.
    pub fn remove(&self, request: &Request, targets: &[(ViewPath, Expect)], recursive: bool) -> Result<Done> {
        todo!()
    }

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
        todo!()
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
        todo!()
    }
}
