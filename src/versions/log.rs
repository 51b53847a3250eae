//! Segments and framed records: append, scan, and where the valid part ends.
