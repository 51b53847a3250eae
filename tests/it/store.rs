//! The store as its owner sees it: what it takes, what it drops, how it is checked and exported.

mod commands;
mod full;
mod transient;
