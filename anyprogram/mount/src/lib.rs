//! A tree as a read-only file system, whose files are read by the engines and pools of the server:
//! any program, static or in a container, reads at its pace, and the disk is read in long sweeps.
//!
//! A question of the kernel comes to `filesystem`. Names and attributes are looked up in the `tree`
//! and remembered as `nodes`; reads go through `reading` to the `stream` of a version of a file, and
//! so to the engine of its disk.
//!
//! Invariants: nothing outside the tree is ever opened, and nothing in it is ever changed; the bytes
//! of one reply are of one version of a file; every question is answered within a bound of time,
//! whatever a disk does; nobody waits for a disk that he does not need; when the daemon ends,
//! however it ends, the mount goes.

mod attributes;
mod behind;
mod check;
mod disks;
mod extended;
mod filesystem;
mod folder;
mod handles;
mod keeper;
mod late;
mod manner;
mod nodes;
mod open;
mod point;
mod reach;
mod reading;
mod run;
mod settings;
mod small;
mod stale;
mod status;
mod stream;
mod titles;
mod tree;

pub use keeper::{VERB as KEEPER_VERB, keep};
pub use run::{RunError, run};
pub use settings::{Flags, Settings, manual};
pub use status::status;
