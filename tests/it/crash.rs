//! The daemon dies at any moment: what was acknowledged is there, what was begun is whole or not there, and all of it can be
//! taken back.

mod calls;
mod controls;
mod kill;
pub mod load;
pub mod oracle;
pub mod points;
pub mod scenes;
