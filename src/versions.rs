//! The operation log (the truth), the contents it keeps, and the index over it (disposable).
//!
//! One `Store` is one directory with one writing process. The byte layout stands in `versions/FORMAT.md`.

mod blob;
mod codec;
pub mod crash;
mod error;
mod flush;
mod index;
mod lock;
mod log;
mod query;
mod record;
mod recovery;
mod store;
mod timeline;

pub use error::StoreError;
pub use query::{ActorFilter, Bound, HistoryPage, HistoryQuery};
pub use record::{Change, ChangeKind, Checkpoint, Content, Loss, NodeKey, OpKind, OpenMark, Operation, Replay, State};
pub use recovery::Recovered;
pub use store::{Durability, Mode, Store, StoreOptions, StoreStats};
pub use timeline::PathAt;
