//! What travels on a wardfs control socket: arguments and results of the tools, their errors, and clients.

#[cfg(feature = "client")]
mod client;
mod code;
mod error;
mod path;
pub mod tools;

#[cfg(feature = "client")]
pub use client::{CallResult, Client, ClientError};
pub use code::ErrorCode;
pub use error::ToolError;
pub use path::WirePath;
