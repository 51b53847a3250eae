//! Displaced inodes: names in `aside/`, which tell the node and the log position.
