//! What the kernel has set for a disk, and what serves this program best (libception 6.5).
//!
//! The one idea: three steps that know nothing of one another. [`System`] reads what is set,
//! [`advise`] judges it (facts in, advice out, nothing else), and [`Change`] sets it and sets it
//! back. Nothing is ever changed without being asked.
//!
//! Invariants: former values are in a file before the first one is changed; a value that the kernel
//! refuses leaves everything as it was.

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
