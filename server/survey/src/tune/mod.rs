//! Kernel settings of a disk, and advice for this program (libception 6.5).
//!
//! Three independent steps: [`System`] reads the settings, [`advise`] judges them (facts in, advice
//! out), and [`Change`] sets and restores them. No setting is changed without an explicit request.
//!
//! Invariants: former values are in a file before the first one is changed; a value that the kernel
//! refuses leaves all settings as they were.

mod advice;
mod change;
mod error;
mod facts;
mod udev;

pub use advice::{Remedy, Row, Verdict, advise};
pub use change::{Change, Changed};
pub use error::TuneError;
pub use facts::{Facts, Mounted, Numa, System};
pub use udev::udev_rule;
