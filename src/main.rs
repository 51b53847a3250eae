//! The `wardfs` command.
fn main() {}
