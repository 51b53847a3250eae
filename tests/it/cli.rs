//! The command line as scripts and people meet it.

mod call;
mod mount;
mod readme;
