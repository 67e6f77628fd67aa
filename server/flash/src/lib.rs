//! The flash tier between memory and disks: what is kept, where, and how it is found again.
//!
//! The one idea: an SSD is divided into equal blocks, as large as it writes well (FlashStream,
//! section 3.1). A block is written once from front to back, holds records of pieces, and is dropped
//! as a whole. A record says on the SSD itself whose bytes it holds, and a checksum; so what is
//! read is either what was asked for, or nothing.
//!
//! Invariants: this crate sees no bytes of files. What it remembers is a hint: a record is believed
//! only when it was read and its identity and checksum are right. Losing the SSD, or all of what is
//! remembered, costs reads of the disks and nothing else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Whether a mutation is active; never in what ships.
#[cfg(feature = "mutants")]
macro_rules! mutated {
    ($name:ident) => {
        headlong_mutants::is_active(headlong_mutants::Mutant::$name)
    };
}
/// Whether a mutation is active; never in what ships.
#[cfg(not(feature = "mutants"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod checkpoints;
pub mod format;
mod names;
mod room;
mod spec;

pub use checkpoints::{Checkpoints, Ground};
pub use names::{BlockId, FileKey, PieceId, Place, RECORD_ALIGN_BYTES};
pub use room::{Room, RoomCommand, SEGMENT_BYTES};
pub use spec::{
    FlashPolicy, FlashSpec, FlashView, Probed, RecordEntry, RecoveredBlock, Refused, RoomConfig,
    SpecError, SsdId, SsdSpec, SsdState, SsdView,
};
