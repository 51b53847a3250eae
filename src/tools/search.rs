//! `search`.

mod crowd;
mod file;
