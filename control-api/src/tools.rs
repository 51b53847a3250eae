//! Arguments and results of the native tools, a file each. Names are snake_case, lines are 1-based and windows inclusive, hashes
//! are `sha256:` and 64 hex digits over the raw bytes, times are RFC 3339 in UTC.

mod changes;
mod checkpoint;
mod common;
mod delete;
mod diff;
mod edit;
mod find;
mod history;
mod info;
mod list;
mod mkdir;
mod moves;
mod mutation;
mod read;
mod revert;
mod search;
mod stat;
mod transaction;
mod write;

pub use changes::{ChangesArgs, ChangesResult};
pub use checkpoint::{CheckpointArgs, CheckpointResult};
pub use common::{At, Bound, Bounds, Case, FileType, GlobDialect, given};
pub use delete::DeleteArgs;
pub use diff::{DiffArgs, DiffResult, DiffSide, DiffSideResult};
pub use edit::{EditArgs, EditFailure, EditItem, EditResult, EditedSpan, OnEditConflict};
pub use find::{FindArgs, FindMatch, FindResult, MatchOn};
pub use history::{
    ActorArgs, ActorInfo, ActorLike, ChangeInfo, ChangeWord, HistoryArgs, HistoryResult, OperationInfo, StateInfo,
};
pub use info::{CountsInfo, InfoArgs, InfoResult, LimitsInfo, PolicyInfo, SourceInfo, StoreInfo, SystemInfo};
pub use list::{ListArgs, ListEntry, ListResult, SortBy};
pub use mkdir::MkdirArgs;
pub use moves::MoveArgs;
pub use mutation::{MutationResult, SideInfo, TouchedPath};
pub use read::{ReadArgs, ReadEncoding, ReadFile, ReadFileArgs, ReadFileResult, ReadNext, ReadResult};
pub use revert::{ConflictInfo, LastStep, OnRevertConflict, RevertArgs, RevertResult};
pub use search::{
    ContextLine, SearchArgs, SearchFile, SearchMatch, SearchMode, SearchOutput, SearchResult, SkippedFiles,
};
pub use stat::{AccessInfo, OwnerInfo, StatArgs, StatResult};
pub use transaction::{TransactionArgs, TransactionOp, TransactionTool};
pub use write::{OnExists, WriteArgs, WriteEncoding, WriteMode, WriteResult};
