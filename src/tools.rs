//! What a tool call means, on top of the view. One table declares every tool; listing, dispatch and schemas come from it.

mod answer;
mod bounds;
mod changes;
mod checkpoint;
mod cursor;
mod delete;
mod diff;
mod edit;
mod errors;
mod find;
mod given;
mod history;
mod info;
mod list;
mod media;
mod mkdir;
mod moves;
mod mutation;
mod native;
mod page;
mod read;
mod render;
mod repair;
mod revert;
mod review;
mod scan;
mod search;
mod stat;
mod table;
mod transaction;
mod write;

pub use native::{ToolSettings, toolbox};
pub use review::{ReviewAction, ReviewCommand, review};

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::Value;

use self::answer::Answer;
use crate::types::Actor;

/// The tools of one view, as a door offers them. Calls may come from any number of threads at once.
pub trait Toolbox: Send + Sync {
    /// What this view offers, always in the same order.
    fn list(&self) -> &[ToolSpec];

    /// Calls a tool. What goes wrong in it is an outcome, too.
    ///
    /// # Errors
    /// `UnknownTool` for a name that is not listed.
    fn call(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, UnknownTool>;
}

/// A tool as it is listed.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// JSON Schema of its arguments: always an object that takes no others.
    pub input_schema: Arc<Value>,
    /// JSON Schema of its structured result.
    pub output_schema: Arc<Value>,
    /// Hints.
    pub hints: Hints,
    /// The group of tools it belongs to: what a view's `features` name.
    pub access: AccessGroup,
}

/// MCP's annotations of a tool. None of these tools reaches out of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hints {
    /// It changes nothing.
    ReadOnly,
    /// It adds, and destroys nothing.
    Additive {
        /// Called again with the same arguments it does nothing more.
        idempotent: bool,
    },
    /// It may overwrite or remove; history keeps what it did.
    Destructive {
        /// Called again with the same arguments it does nothing more.
        idempotent: bool,
    },
}

/// Groups of tools that a view has or has not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessGroup {
    /// Reading files, directories and history.
    Read,
    /// Finding and searching.
    Search,
    /// Changing files.
    Write,
}

impl AccessGroup {
    /// All of them.
    pub const ALL: [AccessGroup; 3] = [AccessGroup::Read, AccessGroup::Search, AccessGroup::Write];

    /// The word in a config's `features`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AccessGroup::Read => "read",
            AccessGroup::Search => "search",
            AccessGroup::Write => "write",
        }
    }
}

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments; null counts as none.
    pub arguments: Value,
    /// An idempotency key that came beside the arguments; one among the arguments wins.
    pub operation_id: Option<String>,
}

/// Who calls, and whether they still wait.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Recorded as the author of changes.
    pub actor: Actor,
    /// Owner of what is created: the peer's user and group.
    pub owner: (u32, u32),
    /// Set when the caller gave up.
    pub cancelled: Cancelled,
}

/// A flag that both sides of a call hold.
#[derive(Clone, Debug, Default)]
pub struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// The caller gave up.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Did the caller give up?
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a call came to.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolOutcome {
    /// For a model to read: a compact rendering, and media.
    pub content: Vec<Block>,
    /// For a program to read: the result, or the error object.
    pub structured: Value,
    /// It failed.
    pub is_error: bool,
}

/// One piece of an outcome's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its bytes, in base64.
        data: String,
        /// Its media type.
        media_type: String,
    },
    /// Audio.
    Audio {
        /// Its bytes, in base64.
        data: String,
        /// Its media type.
        media_type: String,
    },
    /// An embedded document.
    Resource {
        /// A URI of its own: `wardfs:` and the percent-encoded path.
        uri: String,
        /// Its bytes, in base64.
        data: String,
        /// Its media type.
        media_type: String,
    },
}

/// A name that this view does not offer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no tool {0:?} here; tools/list names those there are")]
pub struct UnknownTool(pub String);
