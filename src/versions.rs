//! The operation log (the truth), the contents it keeps, and the index over it (disposable).
//!
//! One `Store` is one directory with one writing process.
#![doc = include_str!("versions/FORMAT.md")]

mod actors;
mod blob;
mod blobs;
mod codec;
pub mod crash;
mod error;
mod export;
mod flush;
mod frame;
mod gc;
mod heads;
mod index;
mod indexer;
mod lock;
mod log;
mod query;
mod record;
mod recovery;
mod reserve;
mod retention;
mod review;
mod scan;
mod segment;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod trim;
mod verify;

pub use error::StoreError;
pub use export::{ExportError, ExportReport};
pub use gc::{GcReport, Hold, Share, Unreviewed};
pub use query::{ActorFilter, Bound, HistoryPage, HistoryQuery, RecordedPage, RecordedQuery};
pub use record::{Change, ChangeKind, Checkpoint, Content, Loss, NodeKey, OpKind, OpenMark, Operation, Replay, State};
pub use recovery::Recovered;
pub use retention::{OnFull, Retention};
pub use review::{Mark, Review, ReviewStep, Reviewed, Whose};
pub use store::{Durability, Mode, Store, StoreOptions, StoreStats};
pub use timeline::PathAt;
pub use trim::{Rule, Trim};
pub use verify::{DamagedVersion, VerifyReport};
