//! Kernel settings of a disk, and advice for this program (libception 6.5).
//!
//! Independent steps: [`KernelTrees`] reads the settings, [`advise`] judges them (facts in, advice
//! out), and [`udev_rule`] prints a rule that sets the advised values. No setting is changed here.

mod advice;
mod error;
mod facts;
mod udev;

pub use advice::{AdviceRow, Remedy, SettingVerdict, advise};
pub use error::TuneError;
pub use facts::{KernelTrees, MountFacts, NumaPlacement, TuneFacts};
pub use udev::udev_rule;
