//! Timing models of storage devices: hard disks by their mechanics, SSDs by their flash.
//!
//! A drive is a function of requests and their times. In: a request (sector, count, direction) at a
//! time. Out: its completion time, and a breakdown of the time. Models never sleep: an emulation on
//! a real machine sleeps, a simulation jumps.
//!
//! Invariants: time is an argument and never goes back; the same requests at the same times give
//! the same completions; randomness comes only from a seed in the specification; a drive does not
//! know the client or the purpose of a request.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bound;
mod dual;
mod family;
mod firmware;
mod fit;
mod flash;
mod hard;
mod measurement;
mod presets;
mod request;
mod spec;

pub use bound::MediumLimits;
pub use dual::{DualActuator, DualActuatorSpec};
pub use family::{DrawnDrive, named_drive};
pub use firmware::Firmware;
pub use fit::fit;
pub use flash::{FlashReadSpec, FlashWriteSpec, Mapping, SolidState, SolidStateSpec, WriteTier};
pub use hard::{
    HardDrive, HardDriveSpec, QueueOrder, QueueSpec, ReadCacheSpec, SeekCurve, SeekKnot,
    WriteCacheSpec,
};
pub use headlong_disk::{Direction, Measurements, Phase, Rates, Request, SECTOR_BYTES, Timings};
pub use measurement::{ClosedLoopResult, closed_loop, measure, random_rate, sequential_rate};
pub use presets::{Preset, UnknownPreset, preset, presets};
pub use request::{Completion, Drive, Refusal, RequestId, ServiceTimeBreakdown};
pub use spec::{DriveSpec, InvalidSpec};
