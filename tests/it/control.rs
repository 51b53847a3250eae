//! The control socket as clients of all kinds meet it: raw lines over a real socket, with tools that do what a test wants.

mod admin;
mod bounds;
mod client;
mod ending;
mod eras;
mod latency;
mod plain;
mod resources;
mod room;
