//! A tree as a read-only FUSE file system, read through the server's engines and memory pools: any
//! program, statically linked or in a container, gets the server's readahead.
//!
//! A kernel request arrives in `filesystem`. Names and attributes are looked up in the `tree` and
//! stored as `nodes`; reads go through `reading` to the `stream` of a file version, and on to the
//! engine of its disk.
//!
//! Invariants: nothing outside the tree is ever opened, and nothing in it is ever changed; the
//! bytes of one reply belong to one version of a file; every request is answered within a bounded
//! time, whatever a disk does; no request waits for a disk that it does not need; the mount is
//! removed when the daemon ends, however it ends.

mod attributes;
mod cache_trimming;
mod check;
mod cleanup_process;
mod disks;
mod extended_attributes;
mod filesystem;
mod folder;
mod handles;
mod invalidation;
mod io_mode;
mod node_access;
mod nodes;
mod open;
mod point;
mod reads;
mod reply_deadline;
mod run;
mod settings;
mod small_file_walks;
mod status;
mod stream;
mod titles;
mod tree;

pub use cleanup_process::{VERB as KEEPER_VERB, run_cleanup};
pub use run::{RunError, run};
pub use settings::{Flags, Settings, manual};
pub use status::status;
