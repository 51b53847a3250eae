//! Group commit: one thread flushes the log for all who wait.
