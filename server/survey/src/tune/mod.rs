//! Kernel settings of a disk, and advice for this program (libception 6.5).
//!
//! Independent steps: [`System`] reads the settings, [`advise`] judges them (facts in, advice out),
//! and [`udev_rule`] prints a rule that sets the advised values. No setting is changed here.

mod advice;
mod error;
mod facts;
mod udev;

pub use advice::{Remedy, Row, Verdict, advise};
pub use error::TuneError;
pub use facts::{Facts, Mounted, Numa, System};
pub use udev::udev_rule;
