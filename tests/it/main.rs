//! The rings of tests that look at wardfs from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cli;
mod coherence;
mod control;
mod crash;
mod differential;
mod fuse_door;
mod harness;
mod model;
mod policy;
mod power;
mod recording;
mod review;
mod semantics;
mod store;
mod tools;
