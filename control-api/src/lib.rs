//! What travels on a wardfs control socket: arguments and results of the tools, their errors, and clients.

mod error;
mod path;
pub mod tools;

pub use error::{ErrorCode, ToolError};
pub use path::WirePath;
