//! wardfs: a policy-filtered, versioned, live view of host directories, served to shells by FUSE and to
//! agent cores by a Unix socket. Start with `ARCHITECTURE.md` beside this file.
#![doc = include_str!("ARCHITECTURE.md")]

pub mod types;

pub mod host;
pub mod policy;
pub mod search;
pub mod text;

pub mod config;
pub mod versions;

pub mod view;

pub mod tools;

pub mod control;
pub mod fuse;

pub mod cli;
pub mod run;
