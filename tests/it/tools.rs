//! The tools as a client calls them, on a view over a real directory, without a mount or a socket.

mod bounds;
mod changing;
mod editing;
mod failures;
mod git;
mod hidden;
mod listing;
mod past;
mod reading;
mod room;
mod searching;
mod searching_past;
mod table;
mod transactions;
