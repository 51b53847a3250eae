//! The rings of tests that look at wardfs from outside.

mod model;
mod tools;
