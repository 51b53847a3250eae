//! What travels on a wardfs control socket: arguments and results of the tools, their errors, and clients.

#[cfg(feature = "client")]
mod client;
mod error;
mod path;
pub mod tools;

#[cfg(feature = "client")]
pub use client::{CallResult, Client, ClientError};
pub use error::{ErrorCode, ToolError};
pub use path::WirePath;
