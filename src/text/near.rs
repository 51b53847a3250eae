//! Nearest candidates for a text that was not found, bounded in time.
