//! The power fails at any moment: the file system below comes back with what it had flushed and any part of what it had not, and
//! what was acknowledged as durable is there, with its history, and can be taken back.
//!
//! A disk that records what is written to it and when it is flushed carries a file system, and that one the source and the store
//! of a real mount under a load. From the recording disks are made as a power cut could leave them; each is mounted and judged.

mod cuts;
mod device;
mod disk;
mod judge;
mod load;
mod record;
mod scenes;
