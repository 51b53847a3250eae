//! `kill -9` at any moment: what was answered is there, and recorded.

mod kill;
