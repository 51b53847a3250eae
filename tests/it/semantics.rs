//! What a program may rely on in a mount, through the real kernel: one file a promise.

mod append;
mod ends;
mod hard_links;
mod inside;
mod kinds;
mod leads;
mod locks;
mod many;
mod mapping;
mod mounts_below;
mod names;
mod owners;
mod read_only;
mod readdir;
mod rename;
mod space;
mod statfs;
mod times;
mod truncate;
mod unlinked;
mod unprivileged;
mod users;
mod xattrs;
