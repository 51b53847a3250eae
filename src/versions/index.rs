//! The SQLite index: a fold over the log, thrown away and rebuilt at will.
