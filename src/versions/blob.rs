//! Contents in the log: compressed, kept once, verified when read.
